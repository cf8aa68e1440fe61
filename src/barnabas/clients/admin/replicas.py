"""Elect leaders, and move replicas."""

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
    """A move in progress."""

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
        """Elect leaders; without a list, of all partitions that could have a better one.

        The value is False if the wanted leader already led. ``wait`` waits until every live broker reports
        the elected leaders.
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
                    TopicPartitions(topic=topic, partitions=[partition.partition for partition in group])
                    for topic, group in by_topic(wanted)
                ],
                timeout_ms=self._timeout_ms(deadline),
            ),
            deadline,
            api=ApiKey.ELECT_LEADERS,
            at_least=1 if election_type == ElectionType.UNCLEAN else 0,
        )
        for topic in response.replica_election_results:
            for result in topic.partition_result:
                partition = TopicPartition(topic.topic, result.partition_id)
                if result.error_code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                    values[partition] = not result.error_code
                else:
                    errors[partition] = admin_error(result.error_code, result.error_message, partition)
        if wait and (elected := [partition for partition, is_new in values.items() if is_new]):

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
        """Move partitions to brokers, the preferred leader first; None cancels a move in progress.

        ``wait`` waits until the moves have ended, which can take as long as the copying, and every live broker reports
        the new replicas.
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
                    (TopicPartition(topic.name, partition.partition_index), _done(topic.name, partition))
                    for topic in response.responses
                    for partition in topic.partitions
                ),
                deadline,
                api=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            )

        results = await self._in_chunks(list(reassignments), _REASSIGNED_PER_REQUEST, alter)
        wanted = {
            partition: brokers for partition in results.values if (brokers := reassignments[partition]) is not None
        }
        if wait and wanted:
            await self._until_replicas_show(wanted, deadline)
        return results

    async def await_replicas(
        self, wanted: Mapping[TopicPartition, Sequence[int]], *, timeout_s: float | None = None
    ) -> None:
        """Wait until every live broker reports that the partitions are on these brokers, in this order.

        Raises NotVisible if that does not happen in time.
        """
        await self._until_replicas_show(wanted, self._deadline(timeout_s))

    async def _until_replicas_show(self, wanted: Mapping[TopicPartition, Sequence[int]], deadline: Deadline) -> None:
        wanted_checks = {partition: _holds(brokers) for partition, brokers in wanted.items()}
        await self._until_partitions_show(wanted_checks, deadline, "moving partitions")

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """List the moves in progress; without partitions, all."""
        deadline = self._deadline(timeout_s)
        topics = (
            None
            if partitions is None
            else [
                ListPartitionReassignmentsTopics(
                    name=topic, partition_indexes=[partition.partition for partition in group]
                )
                for topic, group in by_topic(dict.fromkeys(partitions))
            ]
        )
        response = await self._call(
            ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms(deadline), topics=topics),
            deadline,
            api=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        )
        return {
            TopicPartition(topic.name, partition.partition_index): PartitionReassignment(
                tuple(partition.replicas), tuple(partition.adding_replicas), tuple(partition.removing_replicas)
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    async def _until_partitions_show(
        self,
        wanted: Mapping[TopicPartition, Callable[[MetadataResponsePartition], bool]],
        deadline: Deadline,
        what: str,
    ) -> None:
        names = list(dict.fromkeys(partition.topic for partition in wanted))

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
                    for described in topic.partitions:
                        partition = TopicPartition(topic.name or "", described.partition_index)
                        if partition in wanted and wanted[partition](described):
                            seen.add(partition)
            return seen == wanted.keys()

        await self._until_each_broker(shows, deadline, what)


def _holds(brokers: Sequence[int]) -> Callable[[MetadataResponsePartition], bool]:
    """A check of the replicas; until a move ends they include those being added or removed."""
    return lambda partition: list(partition.replica_nodes) == list(brokers)


def _reassignment(
    topic: str, partitions: Sequence[TopicPartition], wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> reassigning.ReassignableTopic:
    return reassigning.ReassignableTopic(
        name=topic,
        partitions=[
            reassigning.ReassignablePartition(
                partition_index=partition.partition,
                replicas=None if (brokers := wanted[partition]) is None else list(brokers),
            )
            for partition in partitions
        ],
    )


def _done(topic: str, result: reassigning.ReassignablePartitionResponse) -> AdminError | None:
    if not result.error_code:
        return None
    return admin_error(result.error_code, result.error_message, TopicPartition(topic, result.partition_index))
