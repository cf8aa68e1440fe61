"""Checks of records: once acknowledged by all replicas, they keep their offset and content on every replica.

The bytes below a high watermark are kept here, as stored by the first broker that advanced it. Every log is compared
with these bytes, never with another log. Records that were lost to more failures than a partition tolerates are not
expected (``excused``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.errors import ApiException
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.errors import CorruptRecordError
from barnabas.protocol.record_batch import iter_batches
from tests.simulation.cluster.data_rot import is_sound
from tests.simulation.cluster.data_watch import PartitionName, WatchedPartition

if TYPE_CHECKING:
    from barnabas.protocol.record_batch import BatchView
    from barnabas.storage.partition_log import PartitionLog
    from tests.simulation.cluster.checks import Checks
    from tests.simulation.cluster.node import SimulatedNode

__all__ = ["Acknowledged", "DataChecks", "log_batches"]

RECORDS_TOPIC = "data"
READ_BYTES = 1 << 20


class Acknowledged(NamedTuple):
    offset: int
    value: bytes


class _Partition:
    def __init__(self) -> None:
        self.losses = 0
        self.forget()

    def forget(self) -> None:
        self.batches: dict[int, bytes] = {}
        """The batches below a high watermark, by their base offset."""
        self.committed_end = 0
        self.acknowledged: dict[int, bytes] = {}
        self.read: dict[int, bytes] = {}


class DataChecks:
    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._partitions: dict[PartitionName, _Partition] = {}

    def _of(self, name: PartitionName) -> _Partition:
        return self._partitions.setdefault(name, _Partition())

    def excused(self, name: PartitionName) -> None:
        known = self._of(name)
        known.forget()
        known.losses += 1

    def losses(self, name: PartitionName) -> int:
        """Return the number of excused losses. Call this before a request: a loss since then voids its answer."""
        return self._of(name).losses

    def has_gap(self, name: PartitionName) -> bool:
        """Return whether the last replica has lost records: the others cannot copy what follows, nor readers pass it.

        It happens only after more failures than replicas.
        """
        watched = self._checks.data.watched(name)
        if watched is None or len(watched.isr) != 1 or not self._of(name).losses:
            return False
        return self.is_damaged(next(iter(watched.isr)), name)

    def is_damaged(self, broker: int, name: PartitionName) -> bool:
        """Return whether the broker has found damage in its log of the partition."""
        node = self._checks.world.nodes.get(broker)
        log = node.data.logs.get(TopicPartition(*name)) if node is not None and node.data is not None else None
        return log is not None and bool(log.damaged)

    def committed_end(self, name: PartitionName) -> int:
        return self._of(name).committed_end

    # --- what brokers count as committed

    def committed(self, node: SimulatedNode, log: PartitionLog, before: int) -> None:
        """Check an advanced high watermark: below it all logs are equal, and all in-sync replicas have the records."""
        name = PartitionName(*log.topic_partition)
        known, end = self._of(name), log.high_watermark
        watched = self._checks.data.watched(name)
        if known.losses and (watched is None or node.id not in watched.isr or not self.is_counted(node)):
            return  # Its log may have excused records until it has truncated them.
        if watched is not None and not watched.whole and self._counts_on_the_lost(watched):
            return
        what = f"{node.name} commits {name.topic}-{name.partition} up to {end}"
        has_rotted = self._checks.data_rot.has(node, name)
        start = max(before, log.log_start_offset, self._start_at_leader(name, watched))
        for batch in log_batches(log, start, end, stops_at_damage=has_rotted):
            data = bytes(batch.buf[batch.position : batch.position + batch.size])
            if has_rotted and not is_sound(data):
                continue
            other = known.batches.setdefault(batch.base_offset, data)
            if other != data:
                self._checks.fail(f"{what}, but has different bytes at {batch.base_offset} than were committed")
        self._checks.transactions.committed(name, known.batches)
        if end > known.committed_end:
            known.committed_end = end
            self._checks.counts["records committed"] += end - max(before, 0)
            self._check_in_sync(name, what)
            self._check_enough(node, name, what)

    def _start_at_leader(self, name: PartitionName, watched: WatchedPartition | None) -> int:
        """Return where the leader's log starts. A follower deletes older records after it has moved its high watermark:
        they may be others than those that the leader has deleted.
        """
        leader = None if watched is None else self._checks.world.nodes.get(watched.leader)
        log = leader.data.logs.get(TopicPartition(*name)) if leader is not None and leader.data is not None else None
        return 0 if log is None else log.log_start_offset

    def _counts_on_the_lost(self, watched: WatchedPartition) -> bool:
        """Return whether an in-sync replica has lost records and the controller has not noticed yet."""
        nodes = self._checks.world.nodes
        return any(broker in watched.damaged and not self.is_counted(nodes[broker]) for broker in watched.isr)

    def _check_enough(self, node: SimulatedNode, name: PartitionName, what: str) -> None:
        """Check that enough replicas were in sync for a commit (``min.insync.replicas``).

        The ISR is any of those that the leader may know at this moment.
        """
        states = self._checks.model.partition_since(*name, node.applied.offset)
        most = max((len(isr) for _, isr, *_ in states), default=None)
        required = min(self._checks.world.shape.min_in_sync, max((len(replicas) for replicas, *_ in states), default=0))
        if most is not None and most < required:
            self._checks.fail(f"{what} with {most} of the {required} required in-sync replicas")

    def truncated(self, node: SimulatedNode, log: PartitionLog) -> None:
        """Check a truncation: in-sync replicas, and eligible ones of an empty ISR, keep all committed records."""
        name = PartitionName(*log.topic_partition)
        watched, known = self._checks.data.watched(name), self._of(name)
        if watched is None or node.id not in watched.members or not self.is_counted(node):
            return
        if log.log_end_offset < known.committed_end:
            self._checks.fail(
                f"{node.name} truncates {name.topic}-{name.partition} to {log.log_end_offset} while it is in sync, "
                f"but {known.committed_end} is committed"
            )

    def in_sync(self, name: PartitionName) -> None:
        """Check the partition after a record of the log has changed its ISR or leader."""
        self._check_in_sync(name, f"{name.topic}-{name.partition} is committed up to {self._of(name).committed_end}")

    def _check_in_sync(self, name: PartitionName, what: str) -> None:
        known, watched = self._of(name), self._checks.data.watched(name)
        for broker in watched.isr if watched is not None else ():
            node = self._checks.world.nodes[broker]
            if not self.is_counted(node) or node.data is None:
                continue
            log = node.data.logs.get(TopicPartition(*name))
            if log is None and node.misses_directories:
                continue  # The controller learns of it with the next heartbeat.
            end = 0 if log is None else log.log_end_offset
            if end < known.committed_end:
                self._checks.fail(f"{what}, but {node.name} of its ISR {sorted(watched.isr)} has only {end}")

    def is_counted(self, node: SimulatedNode) -> bool:
        """Return whether the controller's registration of the broker is that of its current process."""
        registered = self._checks.model.now["brokers"].get(node.id)
        return (
            node.is_up
            and node.is_serving
            and node.lifecycle is not None
            and registered is not None
            and registered[0] == node.lifecycle.broker_epoch
        )

    # --- answers to clients

    def acknowledged(self, name: PartitionName, records: list[Acknowledged], losses: int) -> None:
        known = self._of(name)
        if losses != known.losses:
            return
        for offset, value in records:
            other = known.acknowledged.setdefault(offset, value)
            if other != value:
                self._checks.fail(
                    f"{name.topic}-{name.partition} has {value!r} at {offset}, but {other!r} was acknowledged there"
                )
            self._check_value(name, offset, value)
            self._check_committed(name, offset, "acknowledged")
        self._checks.counts["records acknowledged"] += len(records)

    def read(self, name: PartitionName, records: list[Acknowledged], losses: int) -> None:
        """Check records that a consumer has received."""
        known = self._of(name)
        if losses != known.losses:
            return
        for offset, value in records:
            known.read.setdefault(offset, value)
            self._check_value(name, offset, value)
            self._check_committed(name, offset, "read")
        self._checks.counts["records read"] += len(records)

    def _check_value(self, name: PartitionName, offset: int, value: bytes) -> None:
        known = self._of(name)
        for earlier in (known.acknowledged.get(offset, value), known.read.get(offset, value)):
            if earlier != value:
                self._checks.fail(
                    f"{name.topic}-{name.partition} has {value!r} at {offset}, but {earlier!r} was returned before"
                )

    def _check_committed(self, name: PartitionName, offset: int, what: str) -> None:
        """Check that the record is committed. After an excused loss the end of the committed records is unknown."""
        known = self._of(name)
        if not known.losses and offset >= known.committed_end:
            self._checks.fail(f"{name} is {what} at {offset}, but is committed only up to {known.committed_end}")

    # --- the end

    def check_all(self) -> None:
        """Check that every replica's log equals the committed one and has each acknowledged record once, in order.

        A corrupt place that was not read since may remain in one of them, if another replica is intact there.
        """
        for name, known in self._partitions.items():
            watched = self._checks.data.watched(name)
            nodes = [self._checks.world.nodes[broker] for broker in sorted(watched.isr)] if watched is not None else []
            logs = [(node, node.data.logs.get(TopicPartition(*name))) for node in nodes if node.data is not None]
            sound = [(node, log) for node, log in logs if not self._checks.data_rot.remains(node, name)]
            if logs and not sound and not known.losses:
                self._checks.fail(f"all in-sync replicas of {name.topic}-{name.partition} are corrupt")
            for node, log in sound:
                if log is not None and not self.has_gap(name):
                    self._check_log(node, name, known, log)

    def _check_log(self, node: SimulatedNode, name: PartitionName, known: _Partition, log: PartitionLog) -> None:
        what = f"the log of {name.topic}-{name.partition} at {node.name}"
        values: dict[int, bytes] = {}
        # A follower learns of a high watermark with its next fetch, but must have the committed records before.
        for batch in log_batches(log, log.log_start_offset, max(log.high_watermark, known.committed_end)):
            data = bytes(batch.buf[batch.position : batch.position + batch.size])
            if known.batches.get(batch.base_offset, data) != data:
                self._checks.fail(f"{what} has different bytes at {batch.base_offset} than were committed")
            if not batch.is_control:
                values.update((record.offset, bytes(record.value or b"")) for record in batch.records())
        for offset, value in known.acknowledged.items():
            if values.get(offset) != value:
                self._checks.fail(f"{what} has {values.get(offset)!r} at {offset}, but {value!r} was acknowledged")
        # A backup restores records that the broker did not have when their producer sent them again.
        if name.topic == RECORDS_TOPIC and name not in self._checks.data_rot.restored:
            self._check_order(what, values)

    def _check_order(self, what: str, values: dict[int, bytes]) -> None:
        """Check that each number of the records ``name:number`` of an idempotent producer exists once, in order."""
        last: dict[bytes, int] = {}
        for offset in sorted(values):
            producer, colon, number = values[offset].partition(b":")
            if not colon:
                continue
            if int(number) <= last.get(producer, -1):
                self._checks.fail(f"{what} has {values[offset]!r} at {offset}, after {last[producer]}")
            last[producer] = int(number)


def log_batches(log: PartitionLog, start: int, end: int, *, stops_at_damage: bool = False) -> Iterator[BatchView]:
    while start < end:
        try:
            records = log.read(start, READ_BYTES, max_offset=end, min_one_message=True).records
        except ApiException:
            if not stops_at_damage:
                raise
            return
        found = start
        try:
            for batch in iter_batches(records):
                if batch.next_offset > found:
                    yield batch
                    found = batch.next_offset
        except CorruptRecordError:
            if not stops_at_damage:
                raise
            return
        if found == start:
            return
        start = found
