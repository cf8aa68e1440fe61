"""Checks of share groups, by what their members receive and acknowledge.

Under one leader of a partition a record belongs to one member, from its delivery until its lock ends, or until the
member acknowledges it or loses its session. A record whose acceptance or rejection was acknowledged is never delivered
again, by any leader. The counts of deliveries grow, up to the limit. The start offset never moves back, and no record
before it is delivered. In the end every record was delivered, and none waits for another delivery.

More lost replicas than a partition has void what depends on it: a partition of records, of ``__share_group_state``, or
of ``__consumer_offsets``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.coordinator.partitioner import coordinator_partition
from tests.simulation.cluster.broker_data import OFFSETS_PARTITIONS
from tests.simulation.cluster.data_watch import PartitionName
from tests.simulation.cluster.share_shape import SHARE_STATE_TOPIC

if TYPE_CHECKING:
    from tests.simulation.cluster.checks import Checks
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.observed_client import Attempt
    from tests.simulation.cluster.share_shape import ShareShape

__all__ = ["Delivery", "Leadership", "ShareChecks", "SharePartition"]

DATA_TOPIC = "data"
OFFSETS_TOPIC = "__consumer_offsets"
MARGIN_S = 0.01
"""Clocks have milliseconds."""


class SharePartition(NamedTuple):
    topic_id: Any
    partition: int


class Leadership(NamedTuple):
    """A process of a broker, and the epoch in which it leads."""

    broker: int
    life: int
    leader_epoch: int


class Delivery:
    """One delivery of a record, as its member knows it."""

    def __init__(self, member: object, count: int, attempt: Attempt, leadership: Leadership, lock_s: float) -> None:
        assert attempt.decided_s is not None
        self.member = member
        self.count = count
        self.leadership = leadership
        self.received_s = 0.0
        self.locked_until_s = attempt.decided_s + lock_s
        """It was acquired later than the request arrived."""
        self.is_held = True
        """Whether the member has it, as far as its session and its acknowledgements show."""
        self.is_timed_out_only = True
        """Whether nothing but the end of its lock can have ended it."""


class _Record:
    """A record as its members have seen it."""

    __slots__ = ("done_s", "last", "may_be_done", "released")

    def __init__(self) -> None:
        self.last: Delivery | None = None
        self.done_s: float | None = None
        """When its acceptance or rejection was acknowledged."""
        self.may_be_done = False
        """Whether an acceptance or rejection has an unknown outcome."""
        self.released = 0
        """The greatest count of a delivery whose release was acknowledged."""


class ShareChecks:
    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._records: dict[tuple[str, SharePartition], dict[int, _Record]] = {}
        self._lost: set[PartitionName] = set()
        self._unknown_s: dict[tuple[str, SharePartition], list[float]] = {}
        """When fetches were given up: each may have acquired records."""
        self._starts: dict[tuple[str, SharePartition], list[tuple[float, int]]] = {}
        """The greatest start offsets that members have received, and when."""

    @property
    def _shape(self) -> ShareShape:
        shape = self._checks.world.shape.share_groups
        assert shape is not None
        return shape

    @property
    def _now_s(self) -> float:
        return self._checks.world.loop.now_s

    # --- what is not checked any more

    def excused(self, name: PartitionName) -> None:
        self._lost.add(name)

    def is_lost(self, group: str, partition: SharePartition) -> bool:
        key = f"{group}:{partition.topic_id}:{partition.partition}"
        return not self._lost.isdisjoint(
            (
                PartitionName(DATA_TOPIC, partition.partition),
                PartitionName(SHARE_STATE_TOPIC, coordinator_partition(key, self._shape.state_partitions)),
                PartitionName(OFFSETS_TOPIC, coordinator_partition(group, OFFSETS_PARTITIONS)),
            )
        )

    def has_lost_group(self, group: str) -> bool:
        return PartitionName(OFFSETS_TOPIC, coordinator_partition(group, OFFSETS_PARTITIONS)) in self._lost

    # --- what members see

    def leadership(self, node: SimulatedNode, index: int) -> Leadership:
        """Return the leadership of a broker as it knows it: call this when it decides a request."""
        states = self._checks.model.partition_since(DATA_TOPIC, index, node.applied.offset)
        return Leadership(node.id, node.lives, states[0][3] if states else -1)

    def _of(self, group: str, partition: SharePartition, offset: int) -> _Record:
        return self._records.setdefault((group, partition), {}).setdefault(offset, _Record())

    def delivered(
        self, group: str, partition: SharePartition, offset: int, delivery: Delivery, attempt: Attempt
    ) -> None:
        if self.is_lost(group, partition):
            return
        record, count, limit = self._of(group, partition, offset), delivery.count, self._shape.delivery_count_limit
        what = f"{delivery.member} receives record {offset} of {DATA_TOPIC}-{partition.partition}"
        if offset < (start := self.start_at(group, partition, attempt.sent_s)):
            self._checks.fail(f"{what}, but the start offset was {start} before")
        if record.done_s is not None and record.done_s < attempt.sent_s:
            self._checks.fail(f"{what}, which was acknowledged before")
        if count > limit:
            self._checks.fail(f"{what} for the {count}th time; the limit is {limit}")
        if count <= record.released:
            self._checks.fail(f"{what} for the {count}th time, but was released after {record.released} deliveries")
        last = record.last
        if last is not None and last.is_held and last.leadership == delivery.leadership:
            if self._now_s < last.locked_until_s - MARGIN_S:
                self._checks.fail(f"{what}, which {last.member} has")
            if last.is_timed_out_only and count <= last.count:
                self._checks.fail(f"{what} for the {count}th time, after {last.count} deliveries")
        delivery.received_s = self._now_s
        record.last, record.may_be_done = delivery, False
        self._checks.counts["share group deliveries"] += 1

    def renewed(self, delivery: Delivery, attempt: Attempt) -> None:
        """Note that the lock of a record has begun again."""
        assert attempt.decided_s is not None
        delivery.locked_until_s = max(delivery.locked_until_s, attempt.decided_s + self._shape.lock_ms / 1000)

    def start_at(self, group: str, partition: SharePartition, at_s: float) -> int:
        """Return the greatest start offset that a member had received at that time."""
        return max((start for since_s, start in self._starts.get((group, partition), ()) if since_s < at_s), default=0)

    def started(self, group: str, partition: SharePartition, start: int, attempt: Attempt) -> None:
        """Check a start offset that a member has received."""
        if self.is_lost(group, partition):
            return
        before = self.start_at(group, partition, attempt.sent_s)
        if start < before:
            self._checks.fail(
                f"the start offset of {DATA_TOPIC}-{partition.partition} for {group} is {start}, but was {before}"
            )
        if start > self.start_at(group, partition, self._now_s):
            self._starts.setdefault((group, partition), []).append((self._now_s, start))
        self._checks.counts["share group start offsets"] += 1

    def given_up(self, group: str, partitions: Iterable[SharePartition]) -> None:
        """Note a fetch whose outcome is unknown."""
        for partition in partitions:
            self._unknown_s.setdefault((group, partition), []).append(self._now_s)

    def acknowledged(
        self, group: str, partition: SharePartition, offset: int, count: int, *, is_final: bool, is_release: bool
    ) -> None:
        """Note an acknowledgement that the broker has stored."""
        record = self._of(group, partition, offset)
        if is_final:
            record.done_s = self._now_s
        elif is_release:
            record.released = max(record.released, count)
        self._checks.counts["share group acknowledgements"] += 1

    def may_be_done(self, group: str, partition: SharePartition, offset: int) -> None:
        """Note an acceptance or rejection whose outcome is unknown."""
        self._of(group, partition, offset).may_be_done = True

    def refused(
        self, group: str, partition: SharePartition, deliveries: Sequence[Delivery], attempt: Attempt, at: Leadership
    ) -> None:
        """Check that acknowledgements are refused only if a lock may have ended, or another leader was elected."""
        if self.is_lost(group, partition) or attempt.decided_s is None:
            return
        if all(found.leadership == at and attempt.decided_s < found.locked_until_s - MARGIN_S for found in deliveries):
            self._checks.fail(
                f"{deliveries[0].member} may not acknowledge records of {DATA_TOPIC}-{partition.partition}, "
                "but its locks have not ended"
            )

    # --- the end

    def unfinished(self) -> str | None:
        """Return a problem while a record was not delivered, or must be delivered again."""
        shape = self._checks.world.shape.share_groups
        for group in shape.groups if shape is not None else ():
            for topic_id, (name, partitions) in self._checks.model.now["topics"].items():
                for index in partitions if name == DATA_TOPIC else ():
                    problem = self._unfinished(group, SharePartition(topic_id, index))
                    if problem is not None:
                        return problem
        return None

    def _unfinished(self, group: str, partition: SharePartition) -> str | None:
        if self.is_lost(group, partition):
            return None
        records = self._records.get((group, partition), {})
        end = self._checks.records.committed_end(PartitionName(DATA_TOPIC, partition.partition))
        for offset in range(end):
            record = records.get(offset, _Record())
            what = f"record {offset} of {DATA_TOPIC}-{partition.partition}"
            if self._is_finished(record, self._unknown_s.get((group, partition), [])):
                continue
            if record.last is None:
                return f"{group} has not received {what}"
            return f"{group} does not receive {what} again, after {record.last.count} deliveries"
        return None

    def _is_finished(self, record: _Record, unknown_s: list[float]) -> bool:
        """Return whether no other delivery is due. Those in answers that were lost count, too."""
        if record.done_s is not None or record.may_be_done:
            return True
        count, since_s = (0, -1.0) if record.last is None else (record.last.count, record.last.received_s)
        return count + sum(at_s > since_s for at_s in unknown_s) >= self._shape.delivery_count_limit
