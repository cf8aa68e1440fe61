"""The guarantees of a share group, by what its members received, acknowledged, and learnt about acknowledgements.

A member knows when it received a record, and a time after which it was acquired. So a delivery has two times. A
confirmed acknowledgement proves that its member held the record from the delivery until it was requested, unless the
start offset of the share-partition had passed the record: Kafka confirms acknowledgements of what is below without
looking. It can have passed only if another delivery may have settled the record before, and had not passed if an offset
up to the record's was acquired later. An acknowledgement that is not confirmed may have taken effect or not: the answer
may be lost, and a repeated request refused.

* A record is held by one member at a time. Two proven spans never overlap, and no other member acquires the record
  within one. Locks expire, sessions end and leaders change without a member's knowledge, so a delivery alone proves
  nothing.
* A record whose acceptance or rejection was confirmed is never delivered again, and only one member settles it.
* Delivery counts are at least 1 and at most ``group.share.delivery.count.limit``. After a confirmed release the next
  delivery has a greater count. Counts are otherwise not durable: a leader keeps those of acquired records in memory.
* In the end every record was delivered. Each was accepted or rejected, or its count has reached the limit; the last
  deliveries may be lost on the way to their members.

A leader that was frozen or cut off, and does not yet know that others lead, delivers records that others have. It can
confirm renewals, which are not stored, but nothing else. ``may_be_stale`` tells when such a leader may exist: what only
its deliveries explain is counted, and is not a violation.
"""

from __future__ import annotations

from bisect import bisect_right
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

    def __str__(self) -> str:
        times = f"requested at {self.requested_s:.1f} s, received at {self.received_s:.1f} s"
        return f"{self.member} ({times}, delivery {self.count})"


@dataclass(frozen=True, slots=True)
class Held:
    """A delivery with the acknowledgements that prove that its member held the record until they were requested."""

    delivery: Delivery
    proofs: list[Acknowledgement]

    @property
    def until_s(self) -> float:
        """Before the delivery if nothing is proven."""
        return max((ack.asked_s for ack in self.proofs), default=-inf)

    @property
    def stored_until_s(self) -> float:
        """Without renewals, which a stale leader may confirm."""
        return max((ack.asked_s for ack in self.proofs if ack.type is not AckType.RENEW), default=-inf)

    def __str__(self) -> str:
        return ", ".join([str(self.delivery), *(f"{ack.type} requested at {ack.asked_s:.1f} s" for ack in self.proofs)])


class SharesCheck:
    """``may_be_stale(from_s, to_s)``: whether a stale leader may have served a request at that time."""

    def __init__(self, *, delivery_count_limit: int) -> None:
        self._limit = delivery_count_limit
        self._deliveries: dict[SharedRecord, list[Delivery]] = defaultdict(list)
        self._passed: dict[tuple[str, int], tuple[list[int], list[float]]] = {}
        """For each partition: offsets, and times until when the start offset had not passed them."""
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
        self._note_start_offsets()
        violations: list[Violation] = []
        for record, deliveries in sorted(self._deliveries.items()):
            if record.group == group:
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

    # --- who held a record

    def _note_start_offsets(self) -> None:
        self._passed.clear()
        for record, deliveries in sorted(self._deliveries.items()):
            offsets, times = self._passed.setdefault((record.group, record.partition), ([], []))
            certain = [one.requested_s for one in deliveries if not self.may_be_stale(one.requested_s, one.received_s)]
            offsets.append(record.offset)
            times.append(max([*certain, *times[-1:]], default=-inf))

    def _not_passed_until_s(self, record: SharedRecord) -> float:
        """Return the last time at which an offset up to the record's was acquired after."""
        offsets, times = self._passed[record.group, record.partition]
        return times[bisect_right(offsets, record.offset) - 1]

    def _held(self, record: SharedRecord, delivery: Delivery, others: Iterable[Delivery]) -> Held:
        known_s = max(_first_settled_s(others, self._limit - _LOST_DELIVERIES), self._not_passed_until_s(record))
        return Held(
            delivery, [ack for ack in delivery.acknowledgements if ack.is_confirmed and ack.confirmed_s <= known_s]
        )

    # --- what is violated

    def _broken(self, record: SharedRecord, deliveries: list[Delivery]) -> Iterator[Violation]:
        yield from self._counts_out_of_range(record, deliveries)
        held = [
            self._held(record, delivery, [other for other in deliveries if other is not delivery])
            for delivery in deliveries
        ]
        yield from _settled_twice(record, held)
        for first, second in combinations(held, 2):
            for earlier, later in ((first.delivery, second.delivery), (second.delivery, first.delivery)):
                yield from self._delivered_again(record, earlier, later)
                yield from self._counted_again(record, earlier, later)
            if first.delivery.member != second.delivery.member:
                yield from self._held_by_two(record, first, second)

    def _counts_out_of_range(self, record: SharedRecord, deliveries: list[Delivery]) -> Iterator[Violation]:
        for delivery in deliveries:
            if not 1 <= delivery.count <= self._limit:
                yield Violation(Broken.DELIVERY_COUNT, f"{record}: {delivery}; the limit is {self._limit}")

    def _delivered_again(self, record: SharedRecord, earlier: Delivery, later: Delivery) -> Iterator[Violation]:
        done_s = min((ack.confirmed_s for ack in earlier.acknowledgements if ack.is_final), default=inf)
        if later.requested_s > done_s:
            what = f"{record}: {later}, although {earlier} had settled it by {done_s:.1f} s"
            yield from self._unless_stale(Broken.SETTLED_AND_DELIVERED, what, later)

    def _counted_again(self, record: SharedRecord, earlier: Delivery, later: Delivery) -> Iterator[Violation]:
        released = [ack.confirmed_s for ack in earlier.acknowledgements if ack.type is AckType.RELEASE]
        if later.requested_s > min(released, default=inf) and later.count <= earlier.count:
            what = f"{record}: {later}, although {earlier} had released it"
            yield from self._unless_stale(Broken.DELIVERY_COUNT, what, later)

    def _held_by_two(self, record: SharedRecord, first: Held, second: Held) -> Iterator[Violation]:
        what = f"{record}: {first}, and {second}"
        begins_s = max(first.delivery.received_s, second.delivery.received_s)
        if begins_s < min(first.stored_until_s, second.stored_until_s):
            yield Violation(Broken.HELD_BY_TWO, what)
            return
        for holder, other in ((first, second.delivery), (second, first.delivery)):
            if holder.delivery.received_s < other.requested_s and other.received_s < holder.until_s:
                yield from self._unless_stale(Broken.HELD_BY_TWO, what, other)
                return
        if begins_s < min(first.until_s, second.until_s):
            yield from self._unless_stale(Broken.HELD_BY_TWO, what, first.delivery, second.delivery)

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


def _first_settled_s(deliveries: Iterable[Delivery], count_max: int) -> float:
    """Return when one of these deliveries can have settled the record first; infinite if none can. With more than
    ``count_max`` deliveries a record may have reached the limit at any time."""
    if any(delivery.count >= count_max for delivery in deliveries):
        return -inf
    return min(
        (ack.asked_s for delivery in deliveries for ack in delivery.acknowledgements if ack.is_final), default=inf
    )


def _may_be_settled(deliveries: list[Delivery]) -> bool:
    """An acknowledgement of unknown outcome had no effect if the record was acquired after it."""
    requested_s = max(delivery.requested_s for delivery in deliveries)
    finals = [ack for delivery in deliveries for ack in delivery.acknowledgements if ack.is_final]
    return any(ack.is_confirmed or ack.asked_s >= requested_s for ack in finals)


def _settled_twice(record: SharedRecord, held: list[Held]) -> Iterator[Violation]:
    settled = [str(one) for one in held if any(ack.is_final for ack in one.proofs)]
    if len(settled) > 1:
        yield Violation(Broken.SETTLED_TWICE, f"{record}: {'; '.join(settled)}")
