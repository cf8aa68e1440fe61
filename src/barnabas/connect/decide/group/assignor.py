"""The leader's assignment of work: the port that a membership uses, and the shared parts of all assignors.

An assignment is based on one state of the config topic. A leader that has read less than a member can't decide: it
reports this to all members, which join again while the leader reads on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from barnabas.connect.decide.group.connect_protocol import CONFIG_MISMATCH, Assignment, ProtocolVersion, WorkerMetadata
from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["AssignmentRound", "Assignor", "ConfigSnapshot", "config_mismatch"]


class ConfigSnapshot(Protocol):
    """The configuration of the group, at one offset of the config topic."""

    @property
    def offset(self) -> int:
        """The offset of the last record plus one; -1 without records."""
        ...

    def connectors(self) -> Sequence[str]: ...

    def tasks(self, connector: str) -> Sequence[ConnectorTaskId]:
        """Return the tasks; None for a connector whose tasks are not all known."""
        ...


@dataclass(frozen=True, slots=True)
class AssignmentRound:
    """The input of an assignor. ``members`` are those whose metadata could be read.

    ``last_completed_generation`` is the last generation whose assignment this leader received. If it is not the
    previous one, no member may have received the earlier decision. ``now_ms`` never goes back.
    """

    leader_id: str
    version: ProtocolVersion
    generation: int
    last_completed_generation: int
    members: Mapping[str, WorkerMetadata]
    config: ConfigSnapshot
    now_ms: float

    @property
    def leader_url(self) -> str:
        return self.members[self.leader_id].url


class Assignor(Protocol):
    def assign(self, round_: AssignmentRound) -> dict[str, Assignment]:
        """Return an assignment for each member. Called only with a config at least as new as every member's."""
        ...


def config_mismatch(round_: AssignmentRound, offset: int) -> dict[str, Assignment]:
    """Return an assignment without work: a member has read up to ``offset``, and the leader has not."""
    failed = Assignment(round_.version, CONFIG_MISMATCH, round_.leader_id, round_.leader_url, offset)
    return dict.fromkeys(round_.members, failed)
