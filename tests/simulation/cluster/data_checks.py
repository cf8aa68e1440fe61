"""What must hold of records: acknowledged by all replicas, they stay, unchanged and in their place, for everybody.

The bytes below a high watermark are kept here as the first broker had them that moved it there; every log is compared
with them, never with another log. What more failures have taken than a partition can stand is owed by nobody
(``excused``).
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

__all__ = ["Acknowledged", "DataChecks"]

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
        """Those below a high watermark, by their base offset."""
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
        """To be taken before something is asked: what is told of an earlier time counts no more."""
        return self._of(name).losses

    def committed_end(self, name: PartitionName) -> int:
        return self._of(name).committed_end

    # --- what brokers hold for committed

    def committed(self, node: SimulatedNode, log: PartitionLog, before: int) -> None:
        """A high watermark has moved: below it all logs are the same, and everybody in sync has it."""
        name = PartitionName(*log.topic_partition)
        known, end = self._of(name), log.high_watermark
        watched = self._checks.data.watched(name)
        if known.losses and (watched is None or node.id not in watched.isr or not self.is_counted(node)):
            return  # It tells of what is owed no more, until it has cut that off.
        if watched is not None and not watched.whole and self._counts_on_the_lost(watched):
            return
        what = f"{node.name} commits {name.topic}-{name.partition} up to {end}"
        has_rotted = self._checks.data_rot.has(node, name)
        for batch in _batches(log, max(before, log.log_start_offset), end, stops_at_damage=has_rotted):
            data = bytes(batch.buf[batch.position : batch.position + batch.size])
            if has_rotted and not is_sound(data):
                continue
            other = known.batches.setdefault(batch.base_offset, data)
            if other != data:
                self._checks.fail(f"{what}, and has other bytes at {batch.base_offset} than were committed")
        if end > known.committed_end:
            known.committed_end = end
            self._checks.counts["records committed"] += end - max(before, 0)
            self._check_in_sync(name, what)
            self._check_enough(node, name, what)

    def _counts_on_the_lost(self, watched: WatchedPartition) -> bool:
        """Whether somebody in sync has lost something, and nobody knows yet."""
        nodes = self._checks.world.nodes
        return any(broker in watched.damaged and not self.is_counted(nodes[broker]) for broker in watched.isr)

    def _check_enough(self, node: SimulatedNode, name: PartitionName, what: str) -> None:
        """Nothing is committed by fewer than ``min.insync.replicas``, as far as its leader may know who is in sync."""
        states = self._checks.model.partition_since(*name, node.applied.offset)
        most = max((len(isr) for _, isr, *_ in states), default=None)
        required = min(self._checks.world.shape.min_in_sync, max((len(replicas) for replicas, *_ in states), default=0))
        if most is not None and most < required:
            self._checks.fail(f"{what} with {most} in sync, of the {required} that it takes")

    def cut(self, node: SimulatedNode, log: PartitionLog) -> None:
        """A log has become shorter: who is in sync, or may lead when they are gone, keeps what is committed."""
        name = PartitionName(*log.topic_partition)
        watched, known = self._checks.data.watched(name), self._of(name)
        if watched is None or node.id not in watched.members or not self.is_counted(node):
            return
        if log.log_end_offset < known.committed_end:
            self._checks.fail(
                f"{node.name} cuts {name.topic}-{name.partition} at {log.log_end_offset}, is in sync, "
                f"and {known.committed_end} is committed"
            )

    def in_sync(self, name: PartitionName) -> None:
        """The log tells another ISR, or another leader."""
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
                self._checks.fail(f"{what}, and {node.name} of its ISR {sorted(watched.isr)} has {end} only")

    def is_counted(self, node: SimulatedNode) -> bool:
        """Whether the controller speaks of this very process when it speaks of the broker."""
        registered = self._checks.model.now["brokers"].get(node.id)
        return (
            node.is_up
            and node.is_serving
            and node.lifecycle is not None
            and registered is not None
            and registered[0] == node.lifecycle.broker_epoch
        )

    # --- what clients are told

    def acknowledged(self, name: PartitionName, records: list[Acknowledged], losses: int) -> None:
        known = self._of(name)
        if losses != known.losses:
            return
        for offset, value in records:
            other = known.acknowledged.setdefault(offset, value)
            if other != value:
                self._checks.fail(
                    f"{name.topic}-{name.partition} has {value!r} at {offset}, where {other!r} is acknowledged"
                )
            self._check_value(name, offset, value)
            self._check_committed(name, offset, "acknowledged")
        self._checks.counts["records acknowledged"] += len(records)

    def read(self, name: PartitionName, records: list[Acknowledged], losses: int) -> None:
        """A consumer was given these."""
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
        for told in (known.acknowledged.get(offset, value), known.read.get(offset, value)):
            if told != value:
                self._checks.fail(
                    f"{name.topic}-{name.partition} has {value!r} at {offset}, and {told!r} was told before"
                )

    def _check_committed(self, name: PartitionName, offset: int, what: str) -> None:
        """Where something was excused it is not known how much of the rest is committed."""
        known = self._of(name)
        if not known.losses and offset >= known.committed_end:
            self._checks.fail(f"{name} is {what} at {offset}, and is committed up to {known.committed_end} only")

    # --- the end

    def check_all(self) -> None:
        """Every log of a replica is the committed one, and has all that was acknowledged, once and in its order.

        What rotted in one of them and was not read since is still there, if another replica has it.
        """
        for name, known in self._partitions.items():
            watched = self._checks.data.watched(name)
            nodes = [self._checks.world.nodes[broker] for broker in sorted(watched.isr)] if watched is not None else []
            logs = [(node, node.data.logs.get(TopicPartition(*name))) for node in nodes if node.data is not None]
            sound = [(node, log) for node, log in logs if not self._checks.data_rot.remains(node, name)]
            if logs and not sound and not known.losses:
                self._checks.fail(f"all replicas of {name.topic}-{name.partition} that are in sync have rotted")
            for node, log in sound:
                if log is not None:
                    self._check_log(node, name, known, log)

    def _check_log(self, node: SimulatedNode, name: PartitionName, known: _Partition, log: PartitionLog) -> None:
        what = f"the log of {name.topic}-{name.partition} at {node.name}"
        values: dict[int, bytes] = {}
        # A follower hears of a high watermark with its next fetch: what is committed must be there before.
        for batch in _batches(log, log.log_start_offset, max(log.high_watermark, known.committed_end)):
            data = bytes(batch.buf[batch.position : batch.position + batch.size])
            if known.batches.get(batch.base_offset, data) != data:
                self._checks.fail(f"{what} has other bytes at {batch.base_offset} than were committed")
            if not batch.is_control:
                values.update((record.offset, bytes(record.value or b"")) for record in batch.records())
        for offset, value in known.acknowledged.items():
            if values.get(offset) != value:
                self._checks.fail(f"{what} has {values.get(offset)!r} at {offset}, where {value!r} was acknowledged")
        if name.topic == RECORDS_TOPIC:
            self._check_order(what, values)

    def _check_order(self, what: str, values: dict[int, bytes]) -> None:
        """Idempotent producers call their records ``name:number``: each number once, in order."""
        last: dict[bytes, int] = {}
        for offset in sorted(values):
            producer, colon, number = values[offset].partition(b":")
            if not colon:
                continue
            if int(number) <= last.get(producer, -1):
                self._checks.fail(f"{what} has {values[offset]!r} at {offset}, after {last[producer]}")
            last[producer] = int(number)


def _batches(log: PartitionLog, start: int, end: int, *, stops_at_damage: bool = False) -> Iterator[BatchView]:
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
