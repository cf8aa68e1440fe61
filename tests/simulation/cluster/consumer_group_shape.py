"""The groups of the consumer protocol of a run, their members and settings, drawn from the seed."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tests.simulation.cluster.failed_seeds import failed_before

__all__ = [
    "ConsumerGroupShape",
    "MemberShape",
    "Protocols",
    "Subscription",
    "draw_consumer_groups",
    "draw_subscription",
]

SHARE = 0.12
"""The share of runs with groups of the consumer protocol."""
DATA_TOPIC = "data"
TOPICS = (DATA_TOPIC, "orders", "orders-eu", "bills", "logs", "a.b", "a_b")
"""All but the first are created and deleted by other clients in the course of a run."""
PATTERNS = ("data", "orders.*", "a.b", "data|logs", ".*s", "d.*|b.*", "__consumer_offsets|data", "nothing")


class Subscription(NamedTuple):
    names: frozenset[str]
    pattern: str

    def covers(self, topic: str) -> bool:
        """Return whether the topic is named, or all of its name matches the regular expression."""
        return topic in self.names or (bool(self.pattern) and re.fullmatch(self.pattern, topic) is not None)

    def __str__(self) -> str:
        return " ".join((*sorted(self.names), *([f"/{self.pattern}/"] if self.pattern else ())))


class Protocols(Enum):
    """Which protocols the processes of a group speak."""

    CONSUMER = "consumer"
    EAGER = "consumer and classic, which gives up all partitions before it joins again"
    COOPERATIVE = "consumer and classic, which gives up only what others shall have"


class MemberShape(NamedTuple):
    """A member, whose processes follow each other. Each process has its own member id."""

    group: str
    protocols: Protocols
    number: int
    instance_id: str | None
    assignor: str | None
    is_second: bool
    """Whether it is another process with the instance id of a member: an operator has started both."""

    @property
    def may_begin_again(self) -> bool:
        """Whether the epochs of its group may begin again: if a group without members changes its protocol."""
        return self.protocols is not Protocols.CONSUMER

    @property
    def name(self) -> str:
        return f"{'second ' if self.is_second else ''}member {self.number} of {self.group}"


@dataclass(frozen=True, slots=True)
class ConsumerGroupShape:
    members: tuple[MemberShape, ...]
    has_one_subscription: bool
    """Whether all members of a group subscribe to the same names, and never change them."""
    session_ms: int
    rebalance_ms: int
    assignment_interval_ms: int
    regex_pause_ms: int
    """Regular expressions are not matched again before."""
    is_in_step: bool
    """Whether the processes of all members begin together, and send their heartbeats together."""

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(member.group for member in self.members))

    @property
    def safe_ms(self) -> int:
        """A member is not removed earlier after its last heartbeat, and not before it knows what to give up."""
        return min(self.session_ms, self.rebalance_ms)


def draw_consumer_groups(draw: random.Random, seed: int) -> ConsumerGroupShape | None:
    """Return None for a run without such groups."""
    if draw.random() >= SHARE or seed in failed_before("with groups of the consumer protocol"):
        return None
    members: list[MemberShape] = []
    for group in ("watchers", "copiers")[: draw.choice((1, 1, 2))]:
        assignor = draw.choice((None, "uniform", "range", "mixed"))
        protocols = draw.choices(list(Protocols), weights=(5, 2, 2))[0]
        for number in range(draw.randrange(2, 5)):
            instance_id = f"instance-{number}" if draw.random() < 0.4 else None
            wanted = draw.choice(("uniform", "range")) if assignor == "mixed" else assignor
            member = MemberShape(group, protocols, number, instance_id, wanted, is_second=False)
            members.append(member)
            if instance_id is not None and draw.random() < 0.4:
                members.append(member._replace(is_second=True))
    return ConsumerGroupShape(
        tuple(members),
        has_one_subscription=draw.random() < 0.3,
        session_ms=draw.choice((1200, 2500)),
        rebalance_ms=draw.choice((900, 2000)),
        assignment_interval_ms=draw.choice((0, 0, 150, 1000)),
        regex_pause_ms=draw.choice((100, 700)),
        is_in_step=draw.random() < 0.4,
    )


def draw_subscription(draw: random.Random, shape: ConsumerGroupShape, *, has_patterns: bool) -> Subscription:
    if shape.has_one_subscription:
        return Subscription(frozenset((DATA_TOPIC, "orders")), "")
    names: list[str] = []
    pattern = draw.choice(PATTERNS) if has_patterns and draw.random() < 0.5 else ""
    if not pattern or draw.random() < 0.3:
        names = [DATA_TOPIC, *draw.sample(TOPICS[1:], draw.randrange(0, 3))]
        if draw.random() < 0.15:
            names = names[1:]
    return Subscription(frozenset(names), pattern)
