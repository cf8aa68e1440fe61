"""Leaders that are elected, and replicas that move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, chunks, refuse_unless
from barnabas.clients.admin.partitions import by_topic
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import Deadline
from barnabas.clients.admin.routing import Target
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import alter_partition_reassignments as reassigning
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition

__all__ = ["ElectionType", "PartitionReassignment", "ReplicaOperations"]

_REASSIGNED_PER_REQUEST = 1000
_TOPICS_PER_REQUEST = 500


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A move that is under way."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class ReplicaOperations(Operations):
    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[TopicPartition, bool]:
        """Elect leaders; without partitions, of all that could have a better one.

        The value is False where the wanted leader was in office already. With ``wait`` every live broker tells the
        leaders that were elected.
        """
        wanted = None if partitions is None else list(dict.fromkeys(partitions))
        deadline = self._deadline(timeout_s)
        values: dict[TopicPartition, bool] = {}
        errors: dict[TopicPartition, AdminError] = {}
        response = await self._call(
            lambda version: ElectLeadersRequest(
                election_type=election_type,
                topic_partitions=None
                if wanted is None
                else [
                    TopicPartitions(topic=topic, partitions=[each.partition for each in group])
                    for topic, group in by_topic(wanted)
                ],
                timeout_ms=self._timeout_ms(deadline),
            ),
            deadline,
            api=ApiKey.ELECT_LEADERS,
            at_least=1 if election_type == ElectionType.UNCLEAN else 0,
        )
        for topic in response.replica_election_results:
            for each in topic.partition_result:
                partition = TopicPartition(topic.topic, each.partition_id)
                if each.error_code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                    values[partition] = not each.error_code
                else:
                    errors[partition] = admin_error(each.error_code, each.error_message, partition)
        if wait and (elected := [each for each, is_new in values.items() if is_new]):

            def leads(partition: MetadataResponsePartition) -> bool:
                if election_type == ElectionType.PREFERRED:
                    return partition.leader_id == partition.replica_nodes[0]
                return partition.leader_id >= 0

            await self._until_partitions_show(dict.fromkeys(elected, leads), deadline, "electing leaders")
        return Results(values, errors)

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Move partitions to brokers, the preferred leader first; None cancels a move that is under way.

        With ``wait`` the moves have come to their end, which can take as long as copying takes, and every live broker
        tells the new replicas.
        """
        for partition, replicas in reassignments.items():
            refuse_unless(replicas is None or replicas, f"{partition}: a partition needs a broker")
        deadline = self._deadline(timeout_s)

        async def alter(part: Sequence[TopicPartition]) -> Results[TopicPartition, None]:
            return await self._items(
                part,
                lambda left: reassigning.AlterPartitionReassignmentsRequest(
                    timeout_ms=self._timeout_ms(deadline),
                    allow_replication_factor_change=allow_replication_factor_change,
                    topics=[_reassignment(topic, group, reassignments) for topic, group in by_topic(left)],
                ),
                lambda response: (
                    (TopicPartition(topic.name, each.partition_index), _done(topic.name, each))
                    for topic in response.responses
                    for each in topic.partitions
                ),
                deadline,
                api=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            )

        results = await self._in_chunks(list(reassignments), _REASSIGNED_PER_REQUEST, alter)
        wanted = {each: brokers for each in results.values if (brokers := reassignments[each]) is not None}
        if wait and wanted:
            await self._until_replicas_show(wanted, deadline)
        return results

    async def await_replicas(
        self, wanted: Mapping[TopicPartition, Sequence[int]], *, timeout_s: float | None = None
    ) -> None:
        """Wait until every live broker tells that the partitions are on these brokers, in this order.

        Raises NotVisible if that does not come to be in time.
        """
        await self._until_replicas_show(wanted, self._deadline(timeout_s))

    async def _until_replicas_show(self, wanted: Mapping[TopicPartition, Sequence[int]], deadline: Deadline) -> None:
        there = {each: _holds(brokers) for each, brokers in wanted.items()}
        await self._until_partitions_show(there, deadline, "moving partitions")

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves that are under way; without partitions, all."""
        deadline = self._deadline(timeout_s)
        topics = (
            None
            if partitions is None
            else [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=[each.partition for each in group])
                for topic, group in by_topic(dict.fromkeys(partitions))
            ]
        )
        response = await self._call(
            ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms(deadline), topics=topics),
            deadline,
            api=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        )
        return {
            TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in response.topics
            for each in topic.partitions
        }

    async def _until_partitions_show(
        self,
        wanted: Mapping[TopicPartition, Callable[[MetadataResponsePartition], bool]],
        deadline: Deadline,
        what: str,
    ) -> None:
        names = list(dict.fromkeys(each.topic for each in wanted))

        async def shows(target: Target) -> bool:
            seen: set[TopicPartition] = set()
            for part in chunks(names, _TOPICS_PER_REQUEST):
                response = await self._call(
                    MetadataRequest(
                        topics=[MetadataRequestTopic(name=name) for name in part], allow_auto_topic_creation=False
                    ),
                    deadline,
                    api=ApiKey.METADATA,
                    target=target,
                    at_least=4,
                )
                for topic in response.topics:
                    for each in topic.partitions:
                        partition = TopicPartition(topic.name or "", each.partition_index)
                        if partition in wanted and wanted[partition](each):
                            seen.add(partition)
            return seen == wanted.keys()

        await self._until_each_broker(shows, deadline, what)


def _holds(brokers: Sequence[int]) -> Callable[[MetadataResponsePartition], bool]:
    """Replicas that are being added or removed are among the others until a move has ended."""
    return lambda partition: list(partition.replica_nodes) == list(brokers)


def _reassignment(
    topic: str, partitions: Sequence[TopicPartition], wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> reassigning.ReassignableTopic:
    return reassigning.ReassignableTopic(
        name=topic,
        partitions=[
            reassigning.ReassignablePartition(
                partition_index=each.partition,
                replicas=None if (brokers := wanted[each]) is None else list(brokers),
            )
            for each in partitions
        ],
    )


def _done(topic: str, each: reassigning.ReassignablePartitionResponse) -> AdminError | None:
    if not each.error_code:
        return None
    return admin_error(each.error_code, each.error_message, TopicPartition(topic, each.partition_index))
