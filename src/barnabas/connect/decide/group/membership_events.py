"""Notices of a membership to the worker. The membership waits only for the two replies named here.

``StopWork`` must be answered with ``Membership.work_stopped`` once none of the work runs, and ``ReadConfigs``
with ``configs_read`` or ``configs_unreadable``. All other notices are for information.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.connect.decide.group.connect_protocol import Assignment, ProtocolVersion
from barnabas.connect.identifiers import ConnectorTaskId

__all__ = [
    "Assigned",
    "Joining",
    "Lost",
    "MembershipFailed",
    "MembershipEvent",
    "ProtocolChanged",
    "ReadConfigs",
    "StopWork",
    "MembershipProblem",
    "WorkerGone",
    "WorkersChanged",
]


@dataclass(frozen=True, slots=True)
class Joining:
    """A rebalance begins for this worker: until ``Assigned`` no leader is known."""

    reason: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """A rebalance has ended, and this worker has read the config topic up to the offset of the assignment.

    ``assignment`` has all work of this worker, without revoked work; ``added_*`` is the new work. Start only work that
    does not run yet. This notice never follows an unanswered ``StopWork``.
    """

    assignment: Assignment
    added_connectors: tuple[str, ...]
    added_tasks: tuple[ConnectorTaskId, ...]
    generation: int
    member_id: str
    is_leader: bool
    protocol: ProtocolVersion


@dataclass(frozen=True, slots=True)
class StopWork:
    """Stop this work, because another worker will run it or none may; then call ``work_stopped(stop_id)``."""

    stop_id: int
    connectors: tuple[str, ...]
    tasks: tuple[ConnectorTaskId, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """This worker is out of the group, and another may get its work: stop all of it now (a StopWork follows).
    The work is no longer its own; a later ``Assigned`` may return it."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReadConfigs:
    """Read the config topic to its end within ``timeout_ms``; the assignment needs it at ``offset`` or later."""

    offset: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ProtocolChanged:
    """The group agreed on another protocol than before; the first comparison is with the worker's own highest one.
    ``message`` is for the log: a warning if requests between workers are no longer verified, or the information that
    they are verified again. Empty if verification has not changed."""

    before: ProtocolVersion
    now: ProtocolVersion
    message: str

    @property
    def is_warning(self) -> bool:
        return self.now < ProtocolVersion.SESSIONED <= self.before


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """A worker that is no longer a member, with its former work and the URLs of the new owners; None for work that
    waits."""

    url: str
    new_owners: Mapping[str | ConnectorTaskId, str | None]


@dataclass(frozen=True, slots=True)
class WorkersChanged:
    """The group has other members than in the previous round. Only a leader that led that round, too, receives this.

    ``delay_ms`` is how long work without an owner waits for the return of its worker.
    """

    joined: tuple[str, ...]
    gone: tuple[WorkerGone, ...]
    delay_ms: int


@dataclass(frozen=True, slots=True)
class MembershipProblem:
    """A message for the log: the event and the reaction to it."""

    message: str


@dataclass(frozen=True, slots=True)
class MembershipFailed:
    """This worker can't be a member, and a retry can't help. The text says what to change. No notice follows."""

    message: str


MembershipEvent: TypeAlias = (
    Joining
    | Assigned
    | StopWork
    | Lost
    | ReadConfigs
    | ProtocolChanged
    | WorkersChanged
    | MembershipProblem
    | MembershipFailed
)
