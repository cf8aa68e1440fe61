"""The guarantees of a share group, by what its members received, acknowledged, and learnt about acknowledgements.

A member knows when it received a record, and a time after which it was acquired. So a delivery has two times. An
acknowledgement that was confirmed proves that its member held the record from the delivery until it was requested. Any
other acknowledgement may have taken effect or not: the answer may be lost, and a repeated request refused.

* A record is held by one member at a time. Two proven spans never overlap, and nobody else acquires the record within
  one. Locks expire, sessions end and leaders change without a member's knowledge, so a delivery alone proves nothing.
* A record whose acceptance or rejection was confirmed is never delivered again.
* Delivery counts are at least 1 and at most ``group.share.delivery.count.limit``. After a confirmed release the next
  delivery has a greater count. Counts are otherwise not durable: a leader keeps those of acquired records in memory.
* In the end every record was delivered. Each was accepted or rejected, or its count has reached the limit; the last
  deliveries may be lost on the way to their members.

A leader that was frozen or cut off, and does not yet know that others lead, delivers what it had acquired for nobody.
It can confirm renewals, which are not stored, but nothing else. ``may_be_stale`` tells when such a leader may exist:
what only its deliveries explain is counted, and is not a violation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from math import inf
from typing import NamedTuple

from tests.history.violations import Broken, Violation

__all__ = ["AckType", "Acknowledgement", "Delivery", "SharedRecord", "SharesCheck"]

_LOST_DELIVERIES = 3
"""How many of a record's last deliveries may be lost on the way to their members."""


class AckType(StrEnum):
    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"


_FINAL = frozenset({AckType.ACCEPT, AckType.REJECT})


class SharedRecord(NamedTuple):
    group: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}@{self.offset} of {self.group}"


@dataclass(slots=True)
class Acknowledgement:
    type: AckType
    asked_s: float
    confirmed_s: float = inf
    """Infinite: whether it took effect is unknown."""

    @property
    def is_confirmed(self) -> bool:
        return self.confirmed_s < inf

    @property
    def is_final(self) -> bool:
        return self.type in _FINAL


@dataclass(slots=True)
class Delivery:
    """``requested_s``: the record was acquired after this time, and before it was received."""

    member: str
    requested_s: float
    received_s: float
    count: int
    acknowledgements: list[Acknowledgement] = field(default_factory=list)

    def acknowledges(self, type_: AckType, asked_s: float) -> Acknowledgement:
        """Record an acknowledgement that is about to be sent. Set its ``confirmed_s`` when it is confirmed."""
        self.acknowledgements.append(Acknowledgement(type_, asked_s))
        return self.acknowledgements[-1]

    def held_until_s(self, *, is_stored: bool) -> float:
        """Return until when the member provably held the record, by the acknowledgements that a leader stores, or by
        renewals too. It is before the delivery if nothing proves that."""
        types = set(AckType) - {AckType.RENEW} if is_stored else set(AckType)
        return max(
            (ack.asked_s for ack in self.acknowledgements if ack.is_confirmed and ack.type in types), default=-inf
        )

    def __str__(self) -> str:
        return (
            f"{self.member} at {self.received_s:.1f} s (requested at {self.requested_s:.1f} s, delivery {self.count})"
        )


class SharesCheck:
    """``may_be_stale(from_s, to_s)``: whether a stale leader may have served a request at that time."""

    def __init__(self, *, delivery_count_limit: int) -> None:
        self._limit = delivery_count_limit
        self._deliveries: dict[SharedRecord, list[Delivery]] = defaultdict(list)
        self.may_be_stale: Callable[[float, float], bool] = lambda from_s, to_s: False
        self.counts: Counter[str] = Counter()

    def delivered(
        self, record: SharedRecord, member: str, *, requested_s: float, received_s: float, count: int
    ) -> Delivery:
        delivery = Delivery(member, requested_s, received_s, count)
        self._deliveries[record].append(delivery)
        return delivery

    def violations(self, group: str, places: Iterable[tuple[int, int]]) -> list[Violation]:
        """``places``: partition and offset of every record that exists after the group has nothing left to do."""
        of_group = {record: found for record, found in self._deliveries.items() if record.group == group}
        violations: list[Violation] = []
        for record, deliveries in sorted(of_group.items()):
            self._count(deliveries)
            violations += self._broken(record, deliveries)
        for partition, offset in places:
            violations += self._unfinished(SharedRecord(group, partition, offset))
        return violations

    def _count(self, deliveries: list[Delivery]) -> None:
        self.counts["deliveries"] += len(deliveries)
        self.counts["deliveries after the first"] += len(deliveries) - 1
        self.counts["records whose deliveries reached the limit"] += any(
            delivery.count == self._limit for delivery in deliveries
        )
        for delivery in deliveries:
            for ack in delivery.acknowledgements:
                self.counts[f"{ack.type} {'confirmed' if ack.is_confirmed else 'of unknown outcome'}"] += 1

    def _broken(self, record: SharedRecord, deliveries: list[Delivery]) -> Iterator[Violation]:
        yield from self._counts_out_of_range(record, deliveries)
        yield from _settled_twice(record, deliveries)
        for first, second in combinations(deliveries, 2):
            for earlier, later in ((first, second), (second, first)):
                yield from self._delivered_again(record, earlier, later)
                yield from self._counted_again(record, earlier, later)
            if first.member != second.member:
                yield from self._held_by_two(record, first, second)

    def _counts_out_of_range(self, record: SharedRecord, deliveries: list[Delivery]) -> Iterator[Violation]:
        for delivery in deliveries:
            if not 1 <= delivery.count <= self._limit:
                yield Violation(Broken.DELIVERY_COUNT, f"{record}: {delivery}; the limit is {self._limit}")

    def _delivered_again(self, record: SharedRecord, earlier: Delivery, later: Delivery) -> Iterator[Violation]:
        done_s = min((ack.confirmed_s for ack in earlier.acknowledgements if ack.is_final), default=inf)
        if later.requested_s > done_s:
            what = f"{record}: {later}, although {earlier} had settled it until {done_s:.1f} s"
            yield from self._unless_stale(Broken.SETTLED_AND_DELIVERED, what, later)

    def _counted_again(self, record: SharedRecord, earlier: Delivery, later: Delivery) -> Iterator[Violation]:
        released = [ack.confirmed_s for ack in earlier.acknowledgements if ack.type is AckType.RELEASE]
        if later.requested_s > min(released, default=inf) and later.count <= earlier.count:
            what = f"{record}: {later}, although {earlier} had released it"
            yield from self._unless_stale(Broken.DELIVERY_COUNT, what, later)

    def _held_by_two(self, record: SharedRecord, first: Delivery, second: Delivery) -> Iterator[Violation]:
        what = f"{record}: {first}, and {second}"
        if _overlap(first, second, is_stored=True):
            yield Violation(Broken.HELD_BY_TWO, what)
            return
        for holder, other in ((first, second), (second, first)):
            held_until_s = holder.held_until_s(is_stored=False)
            if holder.received_s < other.requested_s and other.received_s < held_until_s:
                yield from self._unless_stale(Broken.HELD_BY_TWO, f"{what}: held until {held_until_s:.1f} s", other)
                return
        if _overlap(first, second, is_stored=False):
            yield from self._unless_stale(Broken.HELD_BY_TWO, f"{what}: one of them renewed it", first, second)

    def _unless_stale(self, broken: Broken, what: str, *deliveries: Delivery) -> Iterator[Violation]:
        if any(self.may_be_stale(delivery.requested_s, delivery.received_s) for delivery in deliveries):
            self.counts[f"deliveries of a leader that may be stale: {broken.name}"] += 1
        else:
            yield Violation(broken, what)

    def _unfinished(self, record: SharedRecord) -> Iterator[Violation]:
        deliveries = self._deliveries.get(record)
        if deliveries is None:
            yield Violation(Broken.NOT_DELIVERED, str(record))
            return
        count = max(delivery.count for delivery in deliveries)
        if not _may_be_settled(deliveries) and count < self._limit - _LOST_DELIVERIES:
            what = f"{record}: the last of {len(deliveries)} deliveries was to {deliveries[-1]}"
            yield Violation(Broken.NOT_SETTLED, what)


def _may_be_settled(deliveries: list[Delivery]) -> bool:
    """An acknowledgement of unknown outcome had no effect if the record was acquired after it."""
    requested_s = max(delivery.requested_s for delivery in deliveries)
    finals = [ack for delivery in deliveries for ack in delivery.acknowledgements if ack.is_final]
    return any(ack.is_confirmed or ack.asked_s >= requested_s for ack in finals)


def _settled_twice(record: SharedRecord, deliveries: list[Delivery]) -> Iterator[Violation]:
    settled = [
        f"{delivery} ({ack.type} confirmed at {ack.confirmed_s:.1f} s)"
        for delivery in deliveries
        for ack in delivery.acknowledgements
        if ack.is_final and ack.is_confirmed
    ]
    if len(settled) > 1:
        yield Violation(Broken.SETTLED_TWICE, f"{record}: {'; '.join(settled)}")


def _overlap(first: Delivery, second: Delivery, *, is_stored: bool) -> bool:
    """Return whether both members provably held the record at one moment."""
    begins_s = max(first.received_s, second.received_s)
    return begins_s < min(delivery.held_until_s(is_stored=is_stored) for delivery in (first, second))
