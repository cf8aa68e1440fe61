"""What a membership tells the worker. It does not wait for anybody, but for what the worker says to be done by name.

``StopWork`` must be answered with ``Membership.work_stopped`` once nothing of it runs any more, and ``ReadConfigs``
with ``configs_read`` or ``configs_unreadable``. All other notices are for information.
"""

from __future__ import annotations

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
]


@dataclass(frozen=True, slots=True)
class Joining:
    """A rebalance begins for us: from now on until ``Assigned`` nobody is known to be leader."""

    reason: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """A rebalance is over, and what it was decided on is what this worker has read of the config topic.

    ``assignment`` has all that this worker is to run now, without what was taken away; ``added_*`` is what is new.
    Start only what does not run yet. Never follows a ``StopWork`` that has not been answered.
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
    """Stop this, because somebody else will run it or nobody may; then call ``work_stopped(stop_id)``."""

    stop_id: int
    connectors: tuple[str, ...]
    tasks: tuple[ConnectorTaskId, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """This worker is out of the group, and somebody else may get its work: stop all of it now (comes with a StopWork).
    The work is forgotten; it may be given back by a later ``Assigned``."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReadConfigs:
    """Read the config topic to its end within ``timeout_ms``; the assignment needs it at ``offset`` or later."""

    offset: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ProtocolChanged:
    """The group agreed on another protocol than before; before the first time that is the worker's own highest one.
    ``message`` is for the log: a warning if requests between workers are not verified any more, else a word that they
    are again. Empty where verification is as before."""

    before: ProtocolVersion
    now: ProtocolVersion
    message: str

    @property
    def is_warning(self) -> bool:
        return self.now < ProtocolVersion.SESSIONED <= self.before


@dataclass(frozen=True, slots=True)
class MembershipProblem:
    """Something for the log that mends itself, or not: what happened, and what is done about it."""

    message: str


@dataclass(frozen=True, slots=True)
class MembershipFailed:
    """This worker can't be a member, and trying again is no use: it says what to change. Nothing more will come."""

    message: str


MembershipEvent: TypeAlias = (
    Joining | Assigned | StopWork | Lost | ReadConfigs | ProtocolChanged | MembershipProblem | MembershipFailed
)
