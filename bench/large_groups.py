"""Large groups of each kind in our coordinator: CPU to reconcile, and the longest turn of the event loop.

The automatic garbage collection is off, as a node runs its own.
"""

from __future__ import annotations

import gc
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

from barnabas.coordinator.group.modern_group import ModernGroup
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.share_group_describe import ShareGroupDescribeResponse
from barnabas.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse
from bench.large_classic_group import LargeClassicGroup
from bench.large_coordinator import GROUP, LargeCoordinator
from bench.large_members import ConsumerMember, Member, ShareMember, StreamsMember

__all__ = ["KINDS", "LargeGroup", "measure_large_classic_group", "measure_large_group", "measure_large_groups"]

Figures = dict[str, float]

_INTERVAL_MS = 5_000
_SESSION_TIMEOUT_MS = 60_000

KINDS: dict[str, type[Member]] = {"consumer": ConsumerMember, "share": ShareMember, "streams": StreamsMember}


class LargeGroup:
    """A group of one of the newer kinds."""

    def __init__(self, kind: type[Member], *, members: int, topics: int, partitions: int) -> None:
        """``partitions`` are those of each topic."""
        self.large = LargeCoordinator(topics=topics, partitions=partitions)
        self._kind = kind
        self._ids = count()
        self.members = [kind(next(self._ids)) for _ in range(members)]

    def all_join(self) -> None:
        for number, member in enumerate(self.members):
            member.send(self.large, joins=True)
            if number % 1_000 == 0:
                self.large.advance(100)

    def join(self) -> None:
        member = self._kind(next(self._ids))
        self.members.append(member)
        member.send(self.large, joins=True)

    def leave(self) -> None:
        self.members.pop().leave(self.large)

    def settle(self) -> int:
        """Let all heartbeat until nothing changes; return the number of rounds."""
        for rounds in count(1):
            self.large.advance(_INTERVAL_MS)
            changes = [member.send(self.large) for member in self.members]
            if not any(changes) and self.is_assigned:
                return rounds
        raise AssertionError

    def lose_all(self) -> None:
        """Let all sessions end at once, as when the network is cut."""
        self.large.advance(_SESSION_TIMEOUT_MS)
        group = self.large.group
        assert isinstance(group, ModernGroup)
        assert group.is_empty

    @property
    def is_assigned(self) -> bool:
        group = self.large.group
        assert isinstance(group, ModernGroup)
        return group.assignment_epoch == group.epoch

    def describe(self) -> None:
        """Describe the group and encode the answer, each step in a turn."""
        coordinator, large = self.large.coordinator, self.large
        response: Any
        steps: Any
        if self._kind is ConsumerMember:
            response, steps = ConsumerGroupDescribeResponse(), coordinator.describe_consumer_group(GROUP)
        elif self._kind is ShareMember:
            response, steps = ShareGroupDescribeResponse(), coordinator.share.describe(GROUP)
        else:
            response, steps = StreamsGroupDescribeResponse(), coordinator.streams.describe(GROUP)
        response.groups = [large.exhaust(steps)]
        large.write(response, 1 if self._kind is not StreamsMember else 0)

    def list(self) -> None:
        self.large.turn(lambda: self.large.coordinator.list_groups(ListGroupsRequest()))


class _Measures:
    def __init__(self, large: LargeCoordinator) -> None:
        self.figures: Figures = {}
        self._large = large

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        self._large.turns_s.clear()
        gc.collect()
        yield
        self.figures[f"{what}: CPU, s"] = sum(self._large.turns_s)
        self.figures[f"{what}: longest turn, ms"] = max(self._large.turns_s) * 1_000


@contextmanager
def _without_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def measure_large_group(kind: str, *, members: int = 10_000, topics: int = 100, partitions: int = 1_000) -> Figures:
    """Return CPU seconds and the longest turn of what a group lives through."""
    with _without_collection():
        _live(LargeGroup(KINDS[kind], members=2, topics=1, partitions=5_000))  # Compiles codecs.
        return _live(LargeGroup(KINDS[kind], members=members, topics=topics, partitions=partitions))


def _live(group: LargeGroup) -> Figures:
    measures = _Measures(group.large)
    with measures.of("all join"):
        group.all_join()
    with measures.of("all reach their target"):
        measures.figures["rounds"] = group.settle()
    with measures.of("nothing changes"):
        group.settle()
    with measures.of("one joins"):
        group.join()
        group.settle()
    with measures.of("one leaves"):
        group.leave()
        group.settle()
    with measures.of("a topic grows"):
        group.large.add_partition()
        group.settle()
    with measures.of("list"):
        group.list()
    with measures.of("describe"):
        group.describe()
    with measures.of("load"):
        group.large.restart()
    with measures.of("all sessions end"):
        group.lose_all()
    return measures.figures


def measure_large_classic_group(*, members: int = 10_000, topics: int = 100, partitions: int = 1_000) -> Figures:
    """Do the same for a classic group, whose leader computes the assignment."""
    with _without_collection():
        _live_classic(LargeClassicGroup(members=2, topics=1, partitions=10))
        return _live_classic(LargeClassicGroup(members=members, topics=topics, partitions=partitions))


def _live_classic(group: LargeClassicGroup) -> Figures:
    measures = _Measures(group.large)
    with measures.of("all join"):
        group.all_join()
    with measures.of("all sync"):
        group.all_sync()
    with measures.of("all join again"):
        group.all_join()
        group.all_sync()
    with measures.of("nothing changes"):
        group.all_heartbeat()
    with measures.of("describe"):
        group.describe()
    with measures.of("load"):
        group.large.restart()
    with measures.of("all sessions end"):
        group.lose_all()
    return measures.figures


def measure_large_groups(kinds: Sequence[str] = ("classic", *KINDS), *, members: int = 10_000) -> Figures:
    """Return the figures of all these kinds; the name of each begins with its kind."""
    figures: Figures = {}
    for kind in kinds:
        measure: Callable[..., Figures] = partial(measure_large_group, kind)
        if kind == "classic":
            measure = measure_large_classic_group
        figures |= {f"{kind}, {name}": value for name, value in measure(members=members).items()}
    return figures


def main(arguments: list[str]) -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=["classic", *KINDS], help="default: all")
    parser.add_argument("--members", type=int, default=10_000)
    options = parser.parse_args(arguments)
    for name, value in measure_large_groups(options.kinds, members=options.members).items():
        print(f"{name:60} {value:10.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
