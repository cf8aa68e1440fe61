"""Checks of transactions: each is seen as a whole or not at all, and as its producer ended it.

Clients report what they send and which answers they receive. The committed bytes of the partitions (``TransactionLog``)
tell what became of it. A value ``t<number>.<position>`` belongs to the transaction of that number; a copied one ends
with the number of the record that it is a copy of.

A loss of more replicas than a partition has (``excused``) ends the checks of that partition, and those of all
transactional ids or groups whose state it held.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.storage.batch_header import TRANSACTIONAL_FLAG
from tests.simulation.cluster.broker_data import OFFSETS_PARTITIONS
from tests.simulation.cluster.data_checks import log_batches
from tests.simulation.cluster.data_watch import PartitionName
from tests.simulation.cluster.producer_fences import ProducerFences
from tests.simulation.cluster.transaction_log import Span, TransactionLog
from tests.simulation.cluster.transaction_shape import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from barnabas.protocol.record_batch import BatchView
    from barnabas.storage.partition_log import PartitionLog
    from barnabas.storage.produced_batch import ProducedBatch
    from tests.simulation.cluster.checks import Checks
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.transaction_shape import TransactionalClient

__all__ = ["Transaction", "TransactionChecks"]

DATA_TOPIC = "data"
OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(slots=True)
class Transaction:
    """A transaction as its client knows it."""

    number: int
    client: TransactionalClient
    producer_id: int
    epoch: int
    began_s: float
    acknowledged: dict[PartitionName, list[bytes]] = field(default_factory=dict)
    """The values that brokers have acknowledged."""
    outcomes: dict[PartitionName, bool] = field(default_factory=dict)
    """Whether the marker in each partition was a commit."""
    upto: int | None = None
    """The offset of the group that is committed with the records."""
    has_offsets: bool = False
    """Whether the group's coordinator has acknowledged the offset."""
    is_committed: bool = False
    is_aborted: bool = False
    unknown_commits: int = 0
    """Requests to commit whose outcome the client does not know."""
    has_ended: bool = False
    """Whether the client has asked for its end."""

    @property
    def may_be_committed(self) -> bool:
        return self.is_committed or self.unknown_commits > 0

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.client.transactional_id}"


class TransactionChecks:
    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self.fences = ProducerFences()
        self.all: list[Transaction] = []
        self._logs: dict[PartitionName, TransactionLog] = {}
        self._lost: set[PartitionName] = set()
        self._stable: dict[tuple[int, int, PartitionName], int] = {}
        """The last stable offset of each replica in its present life."""
        self._loaded: dict[tuple[int, int, PartitionName], int] = {}
        """The log end up to which a replica's producers were loaded from its disk, not appended."""
        self._offsets: dict[str, int] = {}
        """The greatest offset of each copying group whose commit was acknowledged."""
        self._values: dict[tuple[PartitionName, bytes], int] = {}
        self._appended: set[tuple[PartitionName, int, int, int]] = set()
        self._late: dict[tuple[PartitionName, int, int, int], str] = {}

    @property
    def is_active(self) -> bool:
        return self._checks.world.shape.transactions is not None

    # --- what is not checked any more

    def excused(self, name: PartitionName) -> None:
        self._lost.add(name)

    def is_lost(self, name: PartitionName) -> bool:
        return name in self._lost

    @property
    def _has_lost_coordinator(self) -> bool:
        return any(name.topic == TRANSACTIONS_TOPIC for name in self._lost)

    def has_lost_id(self, client: TransactionalClient) -> bool:
        """Return whether the coordinator's state of the id was lost with its disks."""
        shape = self._checks.world.shape.transactions
        assert shape is not None
        return (
            PartitionName(TRANSACTIONS_TOPIC, coordinator_partition(client.transactional_id, shape.partitions))
            in self._lost
        )

    def has_lost_group(self, client: TransactionalClient) -> bool:
        return PartitionName(OFFSETS_TOPIC, coordinator_partition(client.group, OFFSETS_PARTITIONS)) in self._lost

    # --- what clients do

    def begun(self, client: TransactionalClient, producer_id: int, epoch: int) -> Transaction:
        begun = Transaction(len(self.all), client, producer_id, epoch, self._checks.world.loop.now_s)
        self.all.append(begun)
        self._checks.counts["transactions begun"] += 1
        return begun

    def acknowledged(self, found: Transaction, name: PartitionName, values: list[bytes]) -> None:
        found.acknowledged.setdefault(name, []).extend(values)

    def ended(self, found: Transaction, *, is_commit: bool) -> None:
        """Record the answer of the coordinator, after which the outcome is certain."""
        if (is_commit and found.is_aborted) or (not is_commit and found.is_committed):
            self._checks.fail(f"{found} is acknowledged as committed and as aborted")
        found.is_committed, found.is_aborted = is_commit, not is_commit
        self._checks.counts["transactions committed" if is_commit else "transactions aborted"] += 1
        if is_commit and found.upto is not None:
            group = found.client.group
            self._offsets[group] = max(self._offsets.get(group, -1), found.upto)

    # --- offsets of groups

    def floor(self, group: str) -> int:
        return self._offsets.get(group, -1)

    def surely_pending(self, client: TransactionalClient) -> Transaction | None:
        """Return a transaction that is certainly open now, and whose offset its group's coordinator has.

        Clocks that jump may end a transaction early, because its beginning is a time of another broker's clock.
        """
        world = self._checks.world
        if any(step.kind == "clock" for step in world.plan.steps) or self.has_lost_id(client):
            return None
        shape = world.shape.transactions
        assert shape is not None
        for found in self.all:
            is_open = found.has_offsets and not found.has_ended and found.client.group == client.group
            is_young = world.loop.now_s < found.began_s + shape.timeout_ms / 1000
            if is_open and is_young and not self.fences.is_asked_since(client.transactional_id, found.began_s):
                return found
        return None

    def fetched(self, client: TransactionalClient, offset: int, floor: int) -> None:
        """Check an offset that was fetched as a stable one."""
        if self.has_lost_group(client) or self.has_lost_id(client):
            return
        group = client.group
        if offset < floor:
            self._checks.fail(f"{group} has offset {offset}, but {floor} was committed before")
        if offset >= 0 and not any(
            found.upto == offset and found.may_be_committed and found.client.group == group for found in self.all
        ):
            self._checks.fail(f"{group} has offset {offset}, which no committed transaction contains")
        self._checks.counts["stable offsets fetched"] += 1

    # --- what partitions contain

    def appended(self, log: PartitionLog, batch: ProducedBatch) -> None:
        """Note a batch that a leader has written, and whether its producer was fenced before."""
        if not self.is_active or batch.marker is not None or not batch.attributes & TRANSACTIONAL_FLAG:
            return
        name = PartitionName(*log.topic_partition)
        key = (name, batch.producer_id, batch.producer_epoch, batch.base_sequence)
        if not self.fences.is_fenced(batch.producer_id, batch.producer_epoch):
            self._appended.add(key)
        elif key not in self._appended and batch.base_sequence >= 0:
            self._late[key] = f"producer {batch.producer_id} writes to {name} in epoch {batch.producer_epoch}"

    def committed(self, name: PartitionName, batches: dict[int, bytes]) -> None:
        """Follow the committed batches of a partition, and check those that were not known before."""
        if not self.is_active or name in self._lost:
            return
        log = self._logs.setdefault(name, TransactionLog())
        for batch, span in log.follow(batches):
            late = self._late.get((name, batch.producer_id, batch.producer_epoch, batch.base_sequence))
            if late is not None and not batch.is_control and not self._has_lost_coordinator:
                self._checks.fail(f"{late} after it was fenced, and the records at {batch.base_offset} are committed")
            if span is not None and name.topic == DATA_TOPIC:
                self._check_span(name, batch, span)

    def _check_span(self, name: PartitionName, batch: BatchView, span: Span) -> None:
        if not batch.is_control:
            for record in batch.records():
                value = bytes(record.value or b"")
                known = self._values.setdefault((name, value), record.offset)
                if known != record.offset:
                    self._checks.fail(f"{name} has {value!r} at {known} and again at {record.offset}")
            return
        ended = [self.all[number] for number in sorted({_number(value) for value in span.records.values()})]
        # A coordinator that lost the state of an id does not know that the partition is in its open transaction.
        if len(ended) > 1 and not self.has_lost_id(ended[0].client):
            what = f"{' and '.join(map(str, ended))} together"
            self._checks.fail(f"the marker at {span.marker_offset} of {name} ends {what}")
        for found in ended:
            self._ended_in(found, name, span)

    def _ended_in(self, found: Transaction, name: PartitionName, span: Span) -> None:
        if self.has_lost_id(found.client):
            return
        what = f"{found} is {'committed' if span.is_commit else 'aborted'} in {name} at {span.marker_offset}"
        if span.is_commit and not found.may_be_committed:
            self._checks.fail(f"{what}, but its producer has not committed it")
        if not span.is_commit and found.is_committed:
            self._checks.fail(f"{what}, but its commit was acknowledged")
        other = next((where for where, is_commit in found.outcomes.items() if is_commit is not span.is_commit), None)
        if other is not None:
            self._checks.fail(f"{what}, but not in {other}")
        found.outcomes[name] = span.is_commit
        self._checks.counts["markers"] += 1

    # --- the last stable offset

    def loaded(self, node: SimulatedNode) -> None:
        """Note the ends of a starting broker's logs."""
        if self.is_active and node.logs is not None:
            for log in node.logs.logs():
                self._load(node, log)

    def truncated(self, node: SimulatedNode, log: PartitionLog) -> None:
        if self.is_active:
            self._load(node, log)

    def _load(self, node: SimulatedNode, log: PartitionLog) -> None:
        key = (node.id, node.lives, PartitionName(*log.topic_partition))
        self._loaded[key] = log.log_end_offset
        self._stable.pop(key, None)

    def high_watermark_moved(self, node: SimulatedNode, log: PartitionLog) -> None:
        """Check the last stable offset of a replica against the committed transactions."""
        if not self.is_active:
            return
        name = PartitionName(*log.topic_partition)
        stable, high_watermark = log.last_stable_offset, log.high_watermark
        key = (node.id, node.lives, name)
        before, self._stable[key] = self._stable.get(key, -1), stable
        what = f"the last stable offset of {name} at {node.name}"
        if stable < before:
            self._checks.fail(f"{what} returns from {before} to {stable}")
        known = self._logs.get(name)
        if name in self._lost or known is None or known.next_offset < high_watermark:
            return
        expected = known.last_stable_offset(high_watermark)
        if stable == expected:
            return
        if stable > expected and self._has_markers(node, log, known, stable):
            return
        self._checks.fail(f"{what} is {stable} instead of {expected}, with the high watermark {high_watermark}")

    def _has_markers(self, node: SimulatedNode, log: PartitionLog, known: TransactionLog, stable: int) -> bool:
        """Return whether the replica was loaded with the markers of these transactions, above its high watermark.

        A snapshot of producers contains no ended transactions, in Kafka as well. Their outcome is decided.
        """
        name = PartitionName(*log.topic_partition)
        end = self._loaded.get((node.id, node.lives, name), 0)
        if node.data is None:
            end = log.log_end_offset  # The broker is starting.
        ended = {batch.producer_id for batch in log_batches(log, log.high_watermark, end) if batch.is_control}
        spans = [span for span in known.unstable(log.high_watermark) if span.first_offset < stable]
        return all(span.producer_id in ended for span in spans)

    # --- readers of committed records

    def read(self, name: PartitionName, start: int, end: int, records: list[tuple[int, bytes]], stable: int) -> None:
        """Check what a reader has received from ``start`` to before ``end``; ``stable`` is the answer's offset."""
        known = self._logs.get(name)
        if name in self._lost or known is None:
            return
        for offset, value in records:
            if value.startswith(b"t") and not self.all[_number(value)].may_be_committed:
                found = self.all[_number(value)]
                if not self.has_lost_id(found.client):
                    self._checks.fail(
                        f"a reader of {name} receives {value!r} at {offset}, but {found} was not committed"
                    )
        if known.next_offset < end:
            return
        expected = known.seen(start, end)
        if records != expected:
            different = sorted(set(records) ^ set(expected))[0]
            has = "receives" if different in records else "does not receive"
            self._checks.fail(f"a reader of {name} {has} {different[1]!r} at {different[0]}")
        self._checks.counts["committed records read"] += len(records)

    def is_read(self, name: PartitionName, position: int) -> bool:
        """Return whether a reader at this position has read all, as it must in the end: no transaction stays open."""
        return self.may_hang(name) or position >= self._checks.records.committed_end(name)

    def may_hang(self, name: PartitionName) -> bool:
        """Return whether a transaction may stay open: its marker, or the coordinator's state of it, was lost."""
        if name in self._lost:
            return True
        known = self._logs.get(name)
        for span in known.open.values() if known is not None else ():
            numbers = {_number(value) for value in span.records.values()}
            if any(self.has_lost_id(self.all[number].client) for number in numbers):
                return True
        return False

    # --- the end

    def check_all(self) -> None:
        """Check at the end that each acknowledged outcome is in all partitions, and that copies are complete."""
        for found in self.all:
            if found.is_committed and not self.has_lost_id(found.client):
                self._check_complete(found)
        for client in self._checks.world.shape.transactions.copies if self.is_active else ():
            self._check_copies(client)

    def _check_complete(self, found: Transaction) -> None:
        for name, values in found.acknowledged.items():
            if name in self._lost:
                continue
            seen = set(self._logs[name].visible.values()) if name in self._logs else set()
            missing = [value for value in values if value not in seen]
            if missing:
                self._checks.fail(f"{found} is committed, but {name} lacks {missing[0]!r}")

    def _check_copies(self, client: TransactionalClient) -> None:
        """Check that the records up to the group's offset were copied once each, and no others."""
        if self.has_lost_group(client) or self.has_lost_id(client):
            return
        partitions = [PartitionName(DATA_TOPIC, index) for index in range(self._checks.world.shape.data_partitions)]
        if any(name in self._lost for name in partitions):
            return
        copies: Counter[int] = Counter()
        for name in partitions:
            for value in self._logs[name].visible.values() if name in self._logs else ():
                parts = value.split(b".")
                if len(parts) == 3 and self.all[_number(value)].client.group == client.group:
                    copies[int(parts[2])] += 1
        ends = [
            found.upto or 0 for found in self.all if found.client.group == client.group and any(found.outcomes.values())
        ]
        expected = Counter(range(max(ends, default=0)))
        if copies != expected:
            wrong = min((copies - expected) + (expected - copies))
            self._checks.fail(
                f"{client.group}: record {wrong} was copied {copies[wrong]} times, of {max(ends, default=0)}"
            )
        self._checks.counts["records copied"] += sum(copies.values())


def _number(value: bytes) -> int:
    """Return the number of the transaction of a value."""
    return int(value[1:].split(b".")[0])
