"""Where interactive queries find a partition: the endpoints of all members, and the partitions of their tasks.

A member receives them when its copy is older than the group's, which has an epoch of its own. It is kept in memory
only: after a failover the members receive everything again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from barnabas.coordinator.group.streams.configured_topology import ConfiguredSubtopology
from barnabas.coordinator.group.streams.streams_group_member import Endpoint, StreamsGroupMember
from barnabas.coordinator.group.streams.tasks import Tasks, TasksTupleWithEpochs
from barnabas.coordinator.group.streams.topology import PartitionCountOf
from barnabas.protocol.messages import streams_group_heartbeat as heartbeat
from barnabas.protocol.messages.streams_group_heartbeat import EndpointToPartitions, TopicPartition

__all__ = ["EndpointInformation"]


class EndpointInformation:
    """``epoch`` grows with each change of the tasks of a member that has an endpoint."""

    def __init__(self) -> None:
        self.epoch = 0
        self._by_member: dict[str, EndpointToPartitions] = {}

    def tasks_changed(self, member: StreamsGroupMember) -> None:
        self.forget(member.member_id)
        if member.user_endpoint is not None:
            self.epoch += 1

    def forget(self, member_id: str) -> None:
        """Compute the partitions of a member anew, because it has changed."""
        self._by_member.pop(member_id, None)

    def forget_all(self) -> None:
        """Compute all partitions anew, because the topology or its topics have changed."""
        self._by_member.clear()

    def of_members(
        self,
        members: Iterable[StreamsGroupMember],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        partition_count_of: PartitionCountOf,
    ) -> list[EndpointToPartitions]:
        """Return the endpoints of the members that have one."""
        answers: list[EndpointToPartitions] = []
        for member in members:
            endpoint = member.user_endpoint
            if endpoint is None:
                continue
            known = self._by_member.get(member.member_id)
            if known is None:
                known = _partitions_at(endpoint, member.assigned_tasks, subtopologies, partition_count_of)
                self._by_member[member.member_id] = known
            answers.append(known)
        return answers


def _partitions_at(
    endpoint: Endpoint,
    tasks: TasksTupleWithEpochs,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    partition_count_of: PartitionCountOf,
) -> EndpointToPartitions:
    active = {subtopology_id: epochs.keys() for subtopology_id, epochs in tasks.active.items()}
    return EndpointToPartitions(
        user_endpoint=heartbeat.Endpoint(host=endpoint.host, port=endpoint.port),
        active_partitions=_topic_partitions(active, subtopologies, partition_count_of),
        standby_partitions=_topic_partitions(tasks.standby, subtopologies, partition_count_of),
    )


def _topic_partitions(
    tasks: Tasks, subtopologies: Mapping[str, ConfiguredSubtopology], partition_count_of: PartitionCountOf
) -> list[TopicPartition]:
    """A topic that was deleted meanwhile, or whose subtopology was, is omitted."""
    answers: list[TopicPartition] = []
    for subtopology_id in sorted(tasks):
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        for topic in sorted({*subtopology.source_topics, *subtopology.repartition_source_topics}):
            count = partition_count_of(topic)
            if count is not None:
                answers.append(TopicPartition(topic=topic, partitions=_partitions(tasks[subtopology_id], count)))
    return answers


def _partitions(task_partitions: Set[int], partition_count: int) -> list[int]:
    """Return the partitions of a topic that belong to tasks.

    As in Kafka, a topic with fewer partitions than there are tasks has the first of them, and one with enough all of
    them, even if it does not have a partition of such a number.
    """
    return sorted(task_partitions)[:partition_count]
