"""Chooses brokers for the replicas of new partitions.

The goals, the first being the strongest: every leader (the first replica) on an unfenced broker; the
replicas of a partition on as many racks as there are; unfenced brokers before fenced ones; leaders spread
evenly over racks and over the brokers of a rack. A broker without a rack belongs to one rack without name.

Brokers take turns. Where the turns start is drawn for each topic, so that many topics of one partition do not
all meet on the first broker; after that, partition n+1 begins where n left off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.image.cluster import BrokerRegistration

__all__ = ["place_replicas"]


class _Rack:
    """The brokers of one rack in two rings, unfenced and fenced; each ring has its own turn."""

    __slots__ = ("fenced", "fenced_turn", "turn", "unfenced")

    def __init__(self) -> None:
        self.unfenced: list[int] = []
        self.fenced: list[int] = []
        self.turn = 0
        self.fenced_turn = 0


def place_replicas(
    brokers: Iterable[BrokerRegistration],
    partition_count: int,
    replication_factor: int,
    random_int: Callable[[int], int],
) -> list[tuple[int, ...]]:
    """The replicas of each new partition. Raises INVALID_REPLICATION_FACTOR if it can't be done."""
    racks: dict[str, _Rack] = {}
    total = unfenced = 0
    for broker in brokers:
        rack = racks.setdefault(broker.rack or "", _Rack())
        (rack.fenced if broker.fenced else rack.unfenced).append(broker.id)
        total += 1
        unfenced += not broker.fenced
    _validate(replication_factor, unfenced, total)
    if total == 1:
        only = next(rack.unfenced[0] for rack in racks.values())
        return [(only,)] * partition_count
    ring = [racks[name] for name in sorted(racks)]
    for rack in ring:
        rack.turn = random_int(len(rack.unfenced)) if rack.unfenced else 0
        rack.fenced_turn = random_int(len(rack.fenced)) if rack.fenced else 0
    start = random_int(len(ring))
    return [_place_one(ring, start + index, replication_factor) for index in range(partition_count)]


def _place_one(ring: Sequence[_Rack], start: int, replication_factor: int) -> tuple[int, ...]:
    """One replica per rack and round, from the unfenced brokers first; the fenced ones fill what is left."""
    chosen: list[int] = []
    order = [ring[(start + index) % len(ring)] for index in range(len(ring))]
    turns = {id(rack): rack.turn for rack in order}
    taken = dict.fromkeys(turns, 0)
    for from_fenced in (False, True):
        progress = True
        if from_fenced:
            taken = dict.fromkeys(turns, 0)
        while progress and len(chosen) < replication_factor:
            progress = False
            for rack in order:
                brokers = rack.fenced if from_fenced else rack.unfenced
                count = taken[id(rack)]
                if count >= len(brokers) or len(chosen) >= replication_factor:
                    continue
                turn = rack.fenced_turn if from_fenced else turns[id(rack)]
                chosen.append(brokers[(turn + count) % len(brokers)])
                taken[id(rack)] = count + 1
                progress = True
    leader_rack = next(rack for rack in order if rack.unfenced)
    leader_rack.turn += 1
    for rack in order:
        if rack is not leader_rack and (start // len(ring)) % 2:
            rack.turn += 1
        rack.fenced_turn += 1
    return tuple(chosen)


def _validate(replication_factor: int, unfenced: int, total: int) -> None:
    if replication_factor <= 0:
        reason = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    elif unfenced == 0:
        reason = "All brokers are currently fenced."
    elif replication_factor > total:
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only {total} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    else:
        return
    raise ApiException(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
