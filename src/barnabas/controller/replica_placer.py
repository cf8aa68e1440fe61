"""Chooses brokers for the replicas of new partitions.

The goals, the first being the strongest: every leader (the first replica) on an unfenced broker; unfenced
brokers before fenced ones; the replicas of a partition on as many racks as possible; leaders, and then the
other replicas, spread evenly. A broker without a rack belongs to one rack without name.

Leaders go round all unfenced brokers, changing the rack with each step. The other replicas come from the
racks that follow, one from each before any gives a second, and within a rack brokers take turns. Where the
turns start is drawn for each topic, so that many topics of one partition do not all meet on the first broker.
Which rack follows which is drawn again after each round of leaders: what a broker led goes to its second replicas
when it dies, and that should not be one broker, which would have twice as much to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.image.cluster import BrokerRegistration

__all__ = ["place_replicas"]

_ALWAYS_THE_SAME_PAIRS = 2
"""Shift the others: with one replica beside the leader the same brokers would otherwise always be paired."""


class _Ring:
    """Brokers of one rack that take turns."""

    __slots__ = ("_brokers", "_turn")

    def __init__(self, brokers: Sequence[int], turn: int) -> None:
        self._brokers = brokers
        self._turn = turn

    def skip(self) -> None:
        """Somebody misses a turn."""
        self._turn += 1

    def take(self, chosen: Sequence[int]) -> int | None:
        """The next broker that is not chosen yet; the turn passes to the one behind it."""
        count = len(self._brokers)
        for step in range(count):
            candidate = self._brokers[(self._turn + step) % count]
            if candidate not in chosen:
                self._turn += step + 1
                return candidate
        return None


def place_replicas(
    brokers: Iterable[BrokerRegistration],
    partition_count: int,
    replication_factor: int,
    random_int: Callable[[int], int],
) -> Iterator[tuple[int, ...]]:
    """The replicas of each new partition, chosen when they are taken. Raises INVALID_REPLICATION_FACTOR at once."""
    unfenced: dict[str, list[int]] = {}
    fenced: dict[str, list[int]] = {}
    for broker in brokers:
        (fenced if broker.fenced else unfenced).setdefault(broker.rack or "", []).append(broker.id)
    unfenced_count = sum(map(len, unfenced.values()))
    total = unfenced_count + sum(map(len, fenced.values()))
    _validate(replication_factor, unfenced_count, total)
    return _placed(unfenced, fenced, partition_count, replication_factor, random_int)


def _placed(
    unfenced: Mapping[str, list[int]],
    fenced: Mapping[str, list[int]],
    partition_count: int,
    replication_factor: int,
    random_int: Callable[[int], int],
) -> Iterator[tuple[int, ...]]:
    leaders = _across_racks(unfenced)
    start = random_int(len(leaders))
    if replication_factor == 1:
        for index in range(partition_count):
            yield (leaders[(start + index) % len(leaders)][1],)
        return
    rings = [
        {rack: _Ring(ids, random_int(len(ids))) for rack, ids in sorted(kind.items())} for kind in (unfenced, fenced)
    ]
    for index in range(partition_count):
        if index % len(leaders) == 0:
            rings = [_in_another_order(by_rack, random_int) for by_rack in rings]
            if replication_factor == _ALWAYS_THE_SAME_PAIRS:
                for ring in (ring for by_rack in rings for ring in by_rack.values()):
                    ring.skip()
        yield _place_one(*leaders[(start + index) % len(leaders)], rings, replication_factor)


def _in_another_order(by_rack: Mapping[str, _Ring], random_int: Callable[[int], int]) -> dict[str, _Ring]:
    names = list(by_rack)
    for last in range(len(names) - 1, 0, -1):
        other = random_int(last + 1)
        names[last], names[other] = names[other], names[last]
    return {name: by_rack[name] for name in names}


def _across_racks(racks: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
    """Return every broker with its rack, neighbours on different racks while several are left."""
    depth = max(map(len, racks.values()))
    return [(rack, racks[rack][level]) for level in range(depth) for rack in sorted(racks) if level < len(racks[rack])]


def _place_one(
    leader_rack: str, leader: int, rings: Sequence[Mapping[str, _Ring]], replication_factor: int
) -> tuple[int, ...]:
    chosen = [leader]
    for by_rack in rings:
        names = list(by_rack)
        first = names.index(leader_rack) + 1 if leader_rack in by_rack else 0
        # The leader's rack comes last: it has given one already.
        order = [by_rack[name] for name in names[first:] + names[:first]]
        progress = True
        while progress and len(chosen) < replication_factor:
            progress = False
            for ring in order:
                taken = None if len(chosen) == replication_factor else ring.take(chosen)
                if taken is not None:
                    chosen.append(taken)
                    progress = True
    return tuple(chosen)


def _validate(replication_factor: int, unfenced: int, total: int) -> None:
    if replication_factor <= 0:
        reason = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    elif unfenced == 0:
        reason = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > total:
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only {total} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    else:
        return
    raise ApiException(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
