"""Checks of streams groups: an active task belongs to one member at a time, and an instance of the application has a
task in one role only, because its members share their stores."""

from __future__ import annotations

from tests.simulation.cluster.consumer_group_checks import ConsumerGroupChecks, Membership, TopicPartition
from tests.simulation.cluster.streams_group_requests import STANDBY, task_of
from tests.simulation.cluster.streams_group_shape import StreamsMemberShape

__all__ = ["StreamsGroupChecks"]


class StreamsGroupChecks(ConsumerGroupChecks):
    kind = "streams group"
    epochs_while_revoking = 1

    def contested(self, me: Membership, other: Membership) -> set[TopicPartition]:
        if _instance(me) == _instance(other):
            return {*map(task_of, me.held)} & {*map(task_of, other.held)}
        return {held for held in me.held.keys() & other.held.keys() if not held.topic.startswith(STANDBY)}


def _instance(me: Membership) -> str:
    assert isinstance(me.shape, StreamsMemberShape)
    return me.shape.instance
