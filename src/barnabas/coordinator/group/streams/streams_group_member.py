"""A member of a streams group: what it said about itself, and how far it follows the group's target assignment."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from barnabas.coordinator.group.streams.tasks import NO_TASKS_WITH_EPOCHS, TasksTupleWithEpochs

__all__ = ["LEAVE_GROUP_EPOCH", "Endpoint", "MemberState", "StreamsGroupMember"]

LEAVE_GROUP_EPOCH = -1


class MemberState(IntEnum):
    """The values are those of records.

    ::

        STABLE <------> UNRELEASED_TASKS     the member has what it can have; others still have the rest
          |  ^              |
          v  |              |
        UNREVOKED_TASKS <---+                the member must give up tasks, and say so

        UNKNOWN                              written by a newer version: the member must start over
    """

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Endpoint(NamedTuple):
    """The address at which an instance answers interactive queries (``application.server``)."""

    host: str
    port: int


class StreamsGroupMember(NamedTuple):
    """``process_id`` is common to the members (threads) of one instance, which share their state stores: a task is held
    by one process in one role only. ``assigned_tasks`` are tasks that the member has or may start; it still has
    ``tasks_pending_revocation``, too, until a heartbeat omits them."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = {}
    assigned_tasks: TasksTupleWithEpochs = NO_TASKS_WITH_EPOCHS
    tasks_pending_revocation: TasksTupleWithEpochs = NO_TASKS_WITH_EPOCHS

    def epoch_of(self, subtopology_id: str, partition: int) -> int | None:
        """Return the epoch in which the member received an active task that it has, or must give up."""
        for tasks in (self.assigned_tasks, self.tasks_pending_revocation):
            epoch = tasks.active.get(subtopology_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch
