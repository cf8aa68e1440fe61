"""Chooses brokers for the replicas of new partitions.

The goals, the first being the strongest: every leader (the first replica) on an unfenced broker; unfenced
brokers before fenced ones; the replicas of a partition on as many racks as possible; leaders, and then the
other replicas, spread evenly. A broker without a rack belongs to one rack without name.

Leaders rotate over all unfenced brokers, with another rack at each step. The other replicas are taken from the racks
that follow, one from each before any rack receives a second, and within a rack brokers take turns. The start of the
rotation is drawn for each topic, so that many topics of one partition are not all placed on the first broker. The order
of racks is drawn again after each round of leaders: when a broker fails, its leaderships move to their second replicas,
which should not all be on one broker, whose load would double.
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
        """Skip one broker's turn."""
        self._turn += 1

    def take(self, chosen: Sequence[int]) -> int | None:
        """Return the next broker that is not chosen yet; the turn passes to the one after it."""
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
    """Yield the replicas of each new partition, chosen on demand. Raises INVALID_REPLICATION_FACTOR immediately."""
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
        # The leader's rack is last: it has one replica already.
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
