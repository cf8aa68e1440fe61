"""The faults of a run and their times, drawn from a seed before the run begins.

Two tracks run in parallel, one mostly for brokers and the other mostly for controllers, so that faults overlap. On each
track a fault begins, lasts and ends. A pause follows, and after some faults a long one, in which the cluster can
recover. A seed determines the faults but not the run, because the processes are real.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Abilities", "Direction", "Fault", "FaultKind", "Role", "plan"]


class FaultKind(StrEnum):
    KILL = "kill -9"
    KILL_TWO = "kill -9 of two"
    STOP = "an orderly stop"
    FREEZE = "SIGSTOP"
    HANG = "SIGSTOP of a node that leads or follows, for 5, 20 or 60 s"
    DROP = "packets of a node that leads or follows vanish, for 5, 20 or 60 s"
    CUT = "what one node sends to another is delayed"
    ISOLATE = "what one node sends to all others is delayed"
    DEAFEN = "what all others send to one node is delayed"
    FULL_DISK = "a full disk"
    CLOCK = "a wall clock that jumps"
    LEADERS = "preferred leaders are elected"
    REASSIGN = "replicas are moved away and back"


class Role(StrEnum):
    """The node is looked up when the fault begins."""

    CONTROLLER = "the active controller"
    LEADER = "a partition's leader"
    FOLLOWER = "a follower"


class Direction(StrEnum):
    """The direction of the packets that vanish."""

    BOTH = "both ways"
    SENT = "sent"
    RECEIVED = "received"


@dataclass(frozen=True, slots=True)
class Fault:
    begins_s: float
    lasts_s: float
    kind: FaultKind
    nodes: tuple[str, ...] = ()
    """The affected nodes; for a cut, the sender and the receiver."""
    resets: bool = False
    """When the cut heals, connections are reset instead of delivering the delayed bytes."""
    jump_s: float = 0.0
    role: Role | None = None
    """The role that the fault is for, if a node with it is known; otherwise ``nodes`` are affected."""
    direction: Direction = Direction.BOTH

    def __str__(self) -> str:
        details = " ".join(self.nodes) if self.role is None else f"{self.role} ({self.direction})"
        details += f" by {self.jump_s:.0f} s" if self.jump_s else ""
        return f"{self.begins_s:7.1f} s, for {self.lasts_s:4.1f} s: {self.kind.name} {details}".rstrip()


@dataclass(frozen=True, slots=True)
class Abilities:
    """The faults that this machine and this cluster support."""

    disks: bool = False
    clocks: bool = False


_WEIGHTS = {
    FaultKind.KILL: 5,
    FaultKind.KILL_TWO: 1,
    FaultKind.STOP: 3,
    FaultKind.FREEZE: 4,
    FaultKind.HANG: 3,
    FaultKind.DROP: 3,
    FaultKind.CUT: 4,
    FaultKind.ISOLATE: 3,
    FaultKind.DEAFEN: 2,
    FaultKind.FULL_DISK: 1,
    FaultKind.CLOCK: 2,
    FaultKind.LEADERS: 2,
    FaultKind.REASSIGN: 2,
}
_OF_THE_CLUSTER = (FaultKind.LEADERS, FaultKind.REASSIGN)
_LONGEST_S = 12.0
_HANGS_S, _HANG_WEIGHTS = (5.0, 20.0, 60.0), (6, 3, 1)
_HANGS = (FaultKind.HANG, FaultKind.DROP)
_CLOCK_JUMPS_S = (-3600.0, -120.0, -5.0, 5.0, 120.0, 3600.0)
_PAUSE_S = (0.3, 4.0)
_REST_S = 10.0
_FAULTS_UNTIL_REST = 5


def plan(
    seed: int, seconds: float, brokers: Sequence[str], controllers: Sequence[str], abilities: Abilities
) -> list[list[Fault]]:
    """Return the faults of each track in order; all end within the given seconds."""
    tracks = []
    for number, (own, others) in enumerate([(brokers, controllers), (controllers, brokers)]):
        rng = random.Random(f"{seed} track {number}")
        kinds = [kind for kind in _WEIGHTS if _is_possible(kind, number == 0, abilities)]
        tracks.append(list(_track(rng, seconds, own, others, kinds)))
    return tracks


def _is_possible(kind: FaultKind, is_for_brokers: bool, abilities: Abilities) -> bool:
    if kind is FaultKind.FULL_DISK:
        return is_for_brokers and abilities.disks
    if kind is FaultKind.CLOCK:
        return abilities.clocks
    return is_for_brokers or kind not in _OF_THE_CLUSTER


def _track(
    rng: random.Random, seconds: float, own: Sequence[str], others: Sequence[str], kinds: Sequence[FaultKind]
) -> Iterator[Fault]:
    now, count = rng.uniform(1, 4), 0
    while True:
        (kind,) = rng.choices(kinds, [_WEIGHTS[candidate] for candidate in kinds])
        lasts = min(rng.expovariate(1 / 3.0) + 0.2, _LONGEST_S)
        if kind in _HANGS:
            (lasts,) = rng.choices(_HANGS_S, _HANG_WEIGHTS)
        if now + lasts > seconds:
            return
        yield _MAKERS.get(kind, _of_one)(rng, now, lasts, kind, own, others)
        count += 1
        now += lasts + (_REST_S if count % _FAULTS_UNTIL_REST == 0 else rng.uniform(*_PAUSE_S))


def _of_one(
    rng: random.Random, now: float, lasts: float, kind: FaultKind, own: Sequence[str], others: Sequence[str]
) -> Fault:
    return Fault(now, lasts, kind, (rng.choice(own),), resets=rng.random() < 0.5)


def _of_two(
    rng: random.Random, now: float, lasts: float, kind: FaultKind, own: Sequence[str], others: Sequence[str]
) -> Fault:
    return Fault(now, lasts, kind, tuple(rng.sample(list(own), 2)))


def _of_a_link(
    rng: random.Random, now: float, lasts: float, kind: FaultKind, own: Sequence[str], others: Sequence[str]
) -> Fault:
    source = rng.choice(own)
    destination = rng.choice([name for name in (*own, *own, *others) if name != source])
    return Fault(now, lasts, kind, (source, destination), resets=rng.random() < 0.5)


def _of_the_cluster(
    rng: random.Random, now: float, lasts: float, kind: FaultKind, own: Sequence[str], others: Sequence[str]
) -> Fault:
    return Fault(now, lasts, kind)


def _of_a_role(
    rng: random.Random, now: float, lasts: float, kind: FaultKind, own: Sequence[str], others: Sequence[str]
) -> Fault:
    is_for_controllers = own[0].startswith(Role.CONTROLLER.name.lower())
    role = Role.CONTROLLER if is_for_controllers else rng.choice([Role.LEADER, Role.FOLLOWER])
    direction = rng.choice(list(Direction))
    return Fault(now, lasts, kind, (rng.choice(own),), resets=rng.random() < 0.5, role=role, direction=direction)


def _of_a_clock(
    rng: random.Random, now: float, lasts: float, kind: FaultKind, own: Sequence[str], others: Sequence[str]
) -> Fault:
    return Fault(now, lasts, kind, (rng.choice(own),), jump_s=rng.choice(_CLOCK_JUMPS_S))


_Maker = Callable[[random.Random, float, float, FaultKind, Sequence[str], Sequence[str]], Fault]
_MAKERS: dict[FaultKind, _Maker] = {
    FaultKind.KILL_TWO: _of_two,
    FaultKind.CUT: _of_a_link,
    FaultKind.HANG: _of_a_role,
    FaultKind.DROP: _of_a_role,
    FaultKind.CLOCK: _of_a_clock,
    FaultKind.LEADERS: _of_the_cluster,
    FaultKind.REASSIGN: _of_the_cluster,
}
