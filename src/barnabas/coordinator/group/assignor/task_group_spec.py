"""The input and output of the task assignor of streams groups (KIP-1071).

A ``TaskGroupSpec`` is a snapshot like ``GroupSpec``, with members in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from barnabas.coordinator.group.assignor.group_spec import Steps, members_in_order

__all__ = ["MemberTasks", "StreamsMember", "Subtopology", "TaskAssignorError", "TaskGroupSpec", "Tasks"]

Tasks: TypeAlias = Mapping[str, Set[int]]
"""The partitions of each subtopology."""


class TaskAssignorError(Exception):
    """No assignment can be computed, where Kafka raises a TaskAssignorException."""


_NONE: Tasks = MappingProxyType({})


class MemberTasks(NamedTuple):
    active: Tasks = _NONE
    standby: Tasks = _NONE
    warmup: Tasks = _NONE


class StreamsMember(NamedTuple):
    """``assigned`` is the present target assignment. Of the rest, Kafka 4.3 uses only the process."""

    process_id: str
    assigned: MemberTasks
    instance_id: str | None = None
    rack_id: str | None = None
    client_tags: Mapping[str, str] = {}


class Subtopology(NamedTuple):
    """One task for each partition. Subtopologies with a changelog topic are stateful; only these have standby tasks."""

    task_count: int
    is_stateful: bool


class TaskGroupSpec(NamedTuple):
    """``updates`` has members that join or change with this request, and None for a member that leaves with it.

    ``member_count_max`` is the largest number of members that the group had: Kafka's tables do not shrink.
    """

    members: Mapping[str, StreamsMember]
    updates: Mapping[str, StreamsMember | None] = {}
    standby_replicas: int = 0
    member_count_max: int = 0

    def ordered_members(self) -> Steps[dict[str, StreamsMember]]:
        """Return the members after the updates, in the order in which Kafka's assignor iterates them."""
        return members_in_order(self.members, self.updates, self.member_count_max)
