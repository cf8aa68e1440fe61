"""Topics: create, extend, delete, list and describe them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, chunks, refuse_unless
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import Deadline
from barnabas.clients.admin.routing import ANY, Target
from barnabas.clients.admin.topic_description import DescribedTopic, TopicDescription, joined, topic_description
from barnabas.clients.errors import UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import topic_name_problem
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

__all__ = [
    "CreatedTopic",
    "NewPartitions",
    "NewTopic",
    "TopicListing",
    "TopicOperations",
]

_TOPICS_PER_REQUEST = 500
_PARTITIONS_PER_PAGE = 2000
_HAS_OPERATIONS = 8
"""Older versions of Metadata have no authorized operations: callers receive None."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. None leaves a number to the cluster (``num.partitions``, ``default.replication.factor``).

    ``assignments`` are the brokers of each partition, the preferred leader first, instead of the two numbers.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic's new number of partitions, and optionally the brokers of the added ones."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic. Numbers and configs are None without the right to describe configs, or on old nodes."""

    name: str
    topic_id: Uuid
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str | None] | None


@dataclass(frozen=True, slots=True)
class TopicListing:
    """``replication_factor`` is the largest number of replicas of a partition, if they differ."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: int = 0
    replication_factor: int = 0


class TopicOperations(Operations):
    async def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[str, CreatedTopic]:
        """Create topics. With ``wait`` this returns when every live broker knows them and their leaders."""
        wanted = list(topics)
        by_name = {topic.name: topic for topic in wanted}
        refuse_unless(len(by_name) == len(wanted), "a topic is named twice")
        for topic in wanted:
            _refuse_bad_topic(topic)
        deadline = self._deadline(timeout_s)

        async def create(names: Sequence[str]) -> Results[str, CreatedTopic]:
            return await self._items(
                names,
                lambda left: CreateTopicsRequest(
                    topics=[_creatable(by_name[name]) for name in left],
                    timeout_ms=self._timeout_ms(deadline),
                    validate_only=validate_only,
                ),
                lambda response: ((topic.name, _created(topic)) for topic in response.topics),
                deadline,
                api=ApiKey.CREATE_TOPICS,
            )

        results = await self._in_chunks(list(by_name), _TOPICS_PER_REQUEST, create)
        if wait and not validate_only and results.values:
            await self._until_topics_show(list(results.values), deadline, "creating topics")
        return results

    async def delete_topics(
        self, topics: Iterable[str | Uuid], *, wait: bool = False, timeout_s: float | None = None
    ) -> Results[str | Uuid, None]:
        """Delete topics by name or id. With ``wait`` this returns when no live broker knows them."""
        wanted = list(dict.fromkeys(topics))
        refuse_unless(all(wanted), "a topic's name must not be empty")
        deadline = self._deadline(timeout_s)

        async def delete(part: Sequence[str | Uuid]) -> Results[str | Uuid, None]:
            return await self._items(
                part,
                lambda left: lambda version: _deletion(left, version, self._timeout_ms(deadline)),
                lambda response: (
                    (_key_of(result, part), _done(result, result.name or result.topic_id))
                    for result in response.responses
                ),
                deadline,
                api=ApiKey.DELETE_TOPICS,
                at_least=6 if any(isinstance(name, Uuid) for name in part) else 0,
            )

        results = await self._in_chunks(wanted, _TOPICS_PER_REQUEST, delete)
        if wait and results.values:
            await self._until_topics_are_gone(list(results.values), deadline)
        return results

    async def create_partitions(
        self,
        topics: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[str, None]:
        """Increase the number of partitions of topics."""
        wanted = {name: NewPartitions(new) if isinstance(new, int) else new for name, new in topics.items()}
        for name, new in wanted.items():
            refuse_unless(new.total > 0, f"{name}: a topic can't have {new.total} partitions")
        deadline = self._deadline(timeout_s)

        async def grow(names: Sequence[str]) -> Results[str, None]:
            return await self._items(
                names,
                lambda left: CreatePartitionsRequest(
                    topics=[_growth(name, wanted[name]) for name in left],
                    timeout_ms=self._timeout_ms(deadline),
                    validate_only=validate_only,
                ),
                lambda response: ((result.name, _done(result, result.name)) for result in response.results),
                deadline,
                api=ApiKey.CREATE_PARTITIONS,
            )

        results = await self._in_chunks(list(wanted), _TOPICS_PER_REQUEST, grow)
        if wait and not validate_only and results.values:
            counts = {name: wanted[name].total for name in results.values}
            await self._until_topics_show(list(counts), deadline, "creating partitions", counts)
        return results

    async def list_topics(
        self, *, include_internal: bool = False, timeout_s: float | None = None
    ) -> AsyncGenerator[TopicListing]:
        """List all visible topics, by name; in pages, where the node supports that."""
        begun: TopicListing | None = None
        async for topics in self._all_topics(self._deadline(timeout_s)):
            for topic in topics:
                if topic.error_code or (topic.is_internal and not include_internal):
                    continue
                page = _listing(topic)
                if begun is not None and begun.name == page.name:
                    begun = _joined_listing(begun, page)
                    continue
                if begun is not None:
                    yield begun
                begun = page
        if begun is not None:
            yield begun

    async def describe_topics(
        self,
        topics: Iterable[str | Uuid],
        *,
        include_authorized_operations: bool = False,
        timeout_s: float | None = None,
    ) -> Results[str | Uuid, TopicDescription]:
        """Describe topics by name or id. Large ones are read in pages, where the node supports that."""
        wanted = list(dict.fromkeys(topics))
        refuse_unless(all(wanted), "a topic's name must not be empty")
        deadline = self._deadline(timeout_s)
        names: list[str | Uuid] = [name for name in wanted if not isinstance(name, Uuid)]
        ids: list[str | Uuid] = [name for name in wanted if isinstance(name, Uuid)]

        async def by_pages(part: Sequence[str | Uuid]) -> Results[str | Uuid, TopicDescription]:
            try:
                return await self._describe_by_pages(
                    [str(name) for name in part], deadline, include_authorized_operations
                )
            except UnsupportedVersion:
                return await by_metadata(part)

        async def by_metadata(part: Sequence[str | Uuid]) -> Results[str | Uuid, TopicDescription]:
            return await self._describe_by_metadata(part, deadline, include_authorized_operations)

        found = await self._in_chunks(names, _TOPICS_PER_REQUEST, by_pages)
        more = await self._in_chunks(ids, _TOPICS_PER_REQUEST, by_metadata)
        return Results(found.values | more.values, found.errors | more.errors)

    async def _describe_by_pages(
        self, names: list[str], deadline: Deadline, with_operations: bool
    ) -> Results[str | Uuid, TopicDescription]:
        values: dict[str | Uuid, TopicDescription] = {}
        errors: dict[str | Uuid, AdminError] = {}
        async for topics in self._pages(names, deadline):
            for topic in topics:
                if topic.error_code:
                    errors[topic.name or ""] = admin_error(topic.error_code, None, topic.name)
                    continue
                page = topic_description(topic, with_operations)
                begun = values.get(page.name)
                values[page.name] = page if begun is None else joined(begun, page)
        return Results(values, errors)

    async def _all_topics(self, deadline: Deadline) -> AsyncGenerator[Sequence[DescribedTopic]]:
        try:
            async for topics in self._pages([], deadline):
                yield topics
        except UnsupportedVersion:
            response = await self._call(MetadataRequest(topics=None), deadline, api=ApiKey.METADATA, at_least=1)
            yield sorted(response.topics, key=lambda topic: topic.name or "")

    async def _pages(
        self, names: list[str], deadline: Deadline
    ) -> AsyncGenerator[list[DescribeTopicPartitionsResponseTopic]]:
        """Yield the topics of each answer; without names, of all topics. A topic may span several pages."""
        cursor: Cursor | None = None
        while True:
            response = await self._call(
                DescribeTopicPartitionsRequest(
                    topics=[TopicRequest(name=name) for name in sorted(names)],
                    response_partition_limit=_PARTITIONS_PER_PAGE,
                    cursor=cursor,
                ),
                deadline,
                api=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            )
            yield response.topics
            if response.next_cursor is None:
                return
            cursor = Cursor(
                topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
            )

    async def _describe_by_metadata(
        self,
        topics: Sequence[str | Uuid],
        deadline: Deadline,
        with_operations: bool,
        target: Target = ANY,
    ) -> Results[str | Uuid, TopicDescription]:
        by_id = any(isinstance(topic, Uuid) for topic in topics)
        return await self._items(
            topics,
            lambda left: (
                lambda version: MetadataRequest(
                    topics=[
                        MetadataRequestTopic(topic_id=name, name=None)
                        if isinstance(name, Uuid)
                        else MetadataRequestTopic(name=name)
                        for name in left
                    ],
                    allow_auto_topic_creation=False,
                    include_topic_authorized_operations=with_operations and version >= _HAS_OPERATIONS,
                )
            ),
            lambda response: (
                (
                    topic.topic_id if by_id else topic.name or "",
                    admin_error(topic.error_code, None, topic.name or topic.topic_id)
                    if topic.error_code
                    else topic_description(topic, with_operations),
                )
                for topic in response.topics
            ),
            deadline,
            api=ApiKey.METADATA,
            target=target,
            at_least=12 if by_id else 4,
            retried=(),
        )

    async def _until_topics_show(
        self, names: Sequence[str], deadline: Deadline, what: str, counts: Mapping[str, int] | None = None
    ) -> None:
        async def shows(target: Target) -> bool:
            for part in chunks(names, _TOPICS_PER_REQUEST):
                found = await self._describe_by_metadata(part, deadline, False, target)
                for name in part:
                    topic = found.values.get(name)
                    if (
                        topic is None
                        or not topic.partitions
                        or any(partition.leader is None for partition in topic.partitions)
                    ):
                        return False
                    if counts is not None and len(topic.partitions) < counts[name]:
                        return False
            return True

        await self._until_each_broker(shows, deadline, what)

    async def _until_topics_are_gone(self, topics: Sequence[str | Uuid], deadline: Deadline) -> None:
        gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

        async def shows(target: Target) -> bool:
            for part in chunks(topics, _TOPICS_PER_REQUEST):
                for kind in (str, Uuid):
                    some = [topic for topic in part if isinstance(topic, kind)]
                    if some:
                        found = await self._describe_by_metadata(some, deadline, False, target)
                        if any(topic not in found.errors or found.errors[topic].code not in gone for topic in some):
                            return False
            return True

        await self._until_each_broker(shows, deadline, "deleting topics")


def _refuse_bad_topic(topic: NewTopic) -> None:
    problem = topic_name_problem(topic.name)
    refuse_unless(problem is None, f"{topic.name!r}: {problem}")
    if topic.assignments is not None:
        refuse_unless(
            topic.partitions is None and topic.replication_factor is None,
            f"{topic.name}: with assignments, numbers of partitions and replicas are not allowed",
        )
        refuse_unless(all(topic.assignments) and topic.assignments, f"{topic.name}: each partition needs a broker")
    refuse_unless(topic.partitions is None or topic.partitions > 0, f"{topic.name}: partitions must be 1 or more")
    refuse_unless(
        topic.replication_factor is None or topic.replication_factor > 0,
        f"{topic.name}: replication_factor must be 1 or more",
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.partitions is None else topic.partitions,
        replication_factor=-1 if topic.replication_factor is None else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(topic.assignments or ())
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _listing(topic: DescribedTopic) -> TopicListing:
    factor = max((len(partition.replica_nodes) for partition in topic.partitions), default=0)
    return TopicListing(topic.name or "", topic.topic_id, topic.is_internal, len(topic.partitions), factor)


def _joined_listing(begun: TopicListing, page: TopicListing) -> TopicListing:
    return replace(
        begun,
        partitions=begun.partitions + page.partitions,
        replication_factor=max(begun.replication_factor, page.replication_factor),
    )


def _created(result: CreatableTopicResult) -> CreatedTopic | AdminError:
    if result.error_code:
        return admin_error(result.error_code, result.error_message, result.name)
    is_described = not result.topic_config_error_code and result.num_partitions >= 0
    return CreatedTopic(
        result.name,
        result.topic_id,
        result.num_partitions if is_described else None,
        result.replication_factor if is_described else None,
        {config.name: config.value for config in result.configs or ()} if is_described else None,
    )


def _deletion(topics: Sequence[str | Uuid], version: int, timeout_ms: int) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[str(topic) for topic in topics], timeout_ms=timeout_ms)
    states = [
        DeleteTopicState(name=None, topic_id=topic) if isinstance(topic, Uuid) else DeleteTopicState(name=topic)
        for topic in topics
    ]
    return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)


def _key_of(result: DeletableTopicResult, asked: Sequence[str | Uuid]) -> str | Uuid:
    """Return the requested key. A node adds the name to an id, and the id to a name."""
    return result.topic_id if result.topic_id in asked else result.name or ""


def _growth(name: str, new: NewPartitions) -> CreatePartitionsTopic:
    brokers = new.assignments
    return CreatePartitionsTopic(
        name=name,
        count=new.total,
        assignments=None
        if brokers is None
        else [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in brokers],
    )


def _done(result: DeletableTopicResult | CreatePartitionsTopicResult, item: object) -> AdminError | None:
    return admin_error(result.error_code, result.error_message, item) if result.error_code else None
