"""Defects in the records and offsets of transactions: their verification, stable offsets, aborted records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster.defects import defect, replace_in

NEEDS = "transactions"
STATE = "storage.producer_state"
VERIFICATION = "broker.produce_verification"
SHARD = "coordinator.transaction.transaction_coordinator_shard"


# --- what may be written


@defect("records-are-not-verified", "records of a transaction are appended without its coordinator's consent", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        async def verify_partitions(broker: Any, request: Any, version: int, *others: Any) -> Any:
            return {} if version < 12 else await original(broker, request, version, *others)

        return verify_partitions

    replace_in("broker.apis.produce", "verify_partitions", make)


@defect("every-partition-is-verified", "the coordinator confirms each partition, whether it was added or not", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def verify(self: Any, transactional_id: str, producer: Any, partitions: Any) -> Any:
            return dict.fromkeys(partitions, ErrorCode.NONE)

        return verify

    replace_in(SHARD, "TransactionCoordinatorShard.verify", make)


@defect("verified-before-the-marker", "records are appended although a marker came after their verification", NEEDS)
def _() -> None:
    replace_in(VERIFICATION, "TransactionGuard.check", lambda original: lambda self: None)


@defect("fenced-epoch-is-accepted", "neither coordinator nor partition compares the epoch of records", NEEDS)
def _() -> None:
    async def verify_partitions(*arguments: Any) -> dict[Any, Any]:
        return {}

    replace_in("broker.apis.produce", "verify_partitions", lambda original: verify_partitions)
    replace_in(STATE, "ProducerState._check_epoch", lambda original: staticmethod(lambda *arguments: None))


@defect("offsets-are-not-verified", "offsets of a transaction are accepted without its coordinator's consent", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        async def commit(broker: Any, request: Any, version: int) -> Any:
            settings = SimpleNamespace(transaction_partition_verification_enable=version >= 5)
            return await original(SimpleNamespace(**{**vars(broker), "settings": settings}), request, version)

        return commit

    replace_in("broker.apis.txn_offset_commit", "_commit", make)


# --- the last stable offset


@defect("stable-up-to-the-high-watermark", "the last stable offset is the high watermark", NEEDS)
def _() -> None:
    replace_in(STATE, "ProducerState.first_unstable_offset", lambda original: property(lambda self: None))


@defect("stable-before-the-marker-is-committed", "the last stable offset does not wait for uncommitted markers", NEEDS)
def _() -> None:
    replace_in(
        STATE,
        "ProducerState.first_unstable_offset",
        lambda original: property(lambda self: next(iter(self._ongoing), None)),
    )


@defect("stable-behind-the-newest", "the last stable offset is that of the newest open transaction", NEEDS)
def _() -> None:
    replace_in(
        STATE,
        "ProducerState.first_unstable_offset",
        lambda original: property(lambda self: max((*self._ongoing, *self._unreplicated), default=None)),
    )


@defect("stable-offset-never-moves-on", "an ended transaction holds the last stable offset back", NEEDS)
def _() -> None:
    replace_in(STATE, "ProducerState.high_watermark_advanced", lambda original: lambda self, high_watermark: None)


@defect("markers-end-no-transaction", "a marker does not end the transaction in the partition", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def append_marker(self: Any, producer_id: int, *arguments: Any, **options: Any) -> Any:
            open_ones = dict(self._ongoing)
            completed = original(self, producer_id, *arguments, **options)
            self._ongoing = open_ones
            return completed

        return append_marker

    replace_in(STATE, "ProducerState.append_marker", make)


@defect("snapshots-without-open-transactions", "a snapshot of producers does not contain open transactions", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def to_snapshot(self: Any) -> Any:
            return original(self)._replace(current_txn_first_offset=-1)

        return to_snapshot

    replace_in(STATE, "ProducerEntry.to_snapshot", make)


@defect("recovery-skips-markers", "recovery reads the batches after the last snapshot, but not the markers", NEEDS)
def _() -> None:
    replace_in("storage.producer_recovery", "_replay_marker", lambda original: lambda *arguments: None)


# --- aborted records


@defect("aborted-transactions-are-not-listed", "readers of committed records learn of no aborted transaction", NEEDS)
def _() -> None:
    replace_in(
        "storage.log_reader", "aborted_transactions", lambda original: lambda *arguments: ([], original(*arguments)[1])
    )


@defect("aborted-in-this-segment-only", "aborted transactions that end in a later segment are not listed", NEEDS)
def _() -> None:
    replace_in(
        "storage.aborted_transactions",
        "_from_indexes",
        lambda original: lambda segments, *offsets: original(segments[:1], *offsets),
    )


@defect("followers-index-no-aborts", "a follower does not index the transactions that were aborted", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def append(self: Any, records: Any, **others: Any) -> int:
            from barnabas.storage.transaction_index import TransactionIndex

            add = TransactionIndex.append
            TransactionIndex.append = lambda *arguments: None  # type: ignore[method-assign]
            try:
                return int(original(self, records, **others))
            finally:
                TransactionIndex.append = add  # type: ignore[method-assign]

        return append

    replace_in("storage.partition_log", "PartitionLog.append_as_follower", make)


@defect("aborted-index-is-not-cut", "the index of aborted transactions keeps entries of records that were cut", NEEDS)
def _() -> None:
    replace_in(
        "storage.transaction_index", "TransactionIndex.truncate_to", lambda original: lambda self, *arguments: None
    )


@defect("aborted-from-the-last-batch", "an aborted transaction is listed from its last batch on", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def append_marker(self: Any, producer_id: int, *arguments: Any, **options: Any) -> Any:
            entry = self.producers.get(producer_id)
            last = entry.batches[-1].first_offset if entry is not None and entry.batches else None
            completed = original(self, producer_id, *arguments, **options)
            return completed and completed._replace(first_offset=last or completed.first_offset)

        return append_marker

    replace_in(STATE, "ProducerState.append_marker", make)


# --- offsets


@defect("pending-offsets-count", "offsets count before their transaction is committed", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def replay(self: Any, record: Any, record_offset: int, producer_id: int, now_ms: int) -> None:
            original(self, record, record_offset, -1, now_ms)

        return replay

    replace_in("coordinator.group.group_coordinator_shard", "GroupCoordinatorShard.replay", make)


@defect("aborted-offsets-count", "the offsets of an aborted transaction take effect", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, producer_id, *, committed: original(self, producer_id, committed=True)

    replace_in("coordinator.group.committed_offsets", "CommittedOffsets.end_transaction", make)


@defect("committed-offsets-are-dropped", "the offsets of a committed transaction are dropped", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, producer_id, *, committed: original(self, producer_id, committed=False)

    replace_in("coordinator.group.committed_offsets", "CommittedOffsets.end_transaction", make)


@defect("unstable-offsets-are-returned", "an offset that a transaction may still change is returned as stable", NEEDS)
def _() -> None:
    replace_in(
        "coordinator.group.committed_offsets",
        "CommittedOffsets.is_pending",
        lambda original: lambda self, *arguments: False,
    )


@defect("loaded-offsets-stay-pending", "a new group coordinator does not read the markers of transactions", NEEDS)
def _() -> None:
    replace_in(
        "coordinator.coordinator_loader",
        "CoordinatorLoader._replay_control",
        lambda original: lambda self, *arguments: None,
    )


@defect("loaded-offsets-count-at-once", "a new group coordinator takes pending offsets for committed ones", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def replay_records(self: Any, batch: Any, now_ms: int) -> None:
            shard, replay = self._shard, self._shard.replay
            shard.replay = lambda record, offset, producer_id, at_ms: replay(record, offset, -1, at_ms)
            try:
                original(self, batch, now_ms)
            finally:
                del shard.replay

        return replay_records

    replace_in("coordinator.coordinator_loader", "CoordinatorLoader._replay_records", make)
