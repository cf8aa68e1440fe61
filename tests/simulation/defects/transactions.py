"""Defects in transactions: their coordinator, the producers' ids and epochs, and the markers that end them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorResult
from barnabas.coordinator.transaction.transaction_metadata import TransactionState
from barnabas.storage.produced_batch import AppendOrigin
from tests.simulation.cluster.defects import defect, replace_in

NEEDS = "transactions"
SHARD = "coordinator.transaction.transaction_coordinator_shard"
METADATA = "coordinator.transaction.transaction_metadata"
END = "coordinator.transaction.transaction_end"
MARKERS = "broker.transaction_markers"
TOPIC = "__transaction_state"


# --- the coordinator's decisions


@defect("transaction-state-answered-when-appended", "EndTxn is answered before the replicas have the decision", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def append(self: Any, partition: int, batch: bytes) -> int:
            offset: int = original(self, partition, batch)
            if self._topic == TOPIC:
                self.coordinator.runtime.on_high_watermark(partition, 1 << 60, self.now_ms())
                self.coordinator.runtime._contexts[partition].high_watermark = -1
            return offset

        return append

    replace_in("broker.coordinator_host", "CoordinatorHost.append", make)


@defect("markers-before-the-decision", "markers are sent before the decision is committed", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def end(self: Any, *arguments: Any, **options: Any) -> Any:
            result = original(self, *arguments, **options)
            for record in result.records:
                self._on_prepared(self, record.metadata)
            return result

        return end

    replace_in(SHARD, "TransactionCoordinatorShard.end", make)


@defect("time-out-aborts-a-commit", "the time-out of a transaction also aborts one whose commit is decided", NEEDS)
def _() -> None:
    def make_follow(original: Any) -> Any:
        def follow(self: Any, transactional_id: str, now_ms: int) -> None:
            timer = self._timeouts.get(transactional_id)
            original(self, transactional_id, now_ms)
            found = self._ids.get(transactional_id)
            if timer is not None and found is not None and found.state is TransactionState.PREPARE_COMMIT:
                self._timeouts[transactional_id] = timer
                self.timers.schedule(timer, found.start_ms + found.timeout_ms)

        return follow

    def make_time_out(original: Any) -> Any:
        def time_out(self: Any, transactional_id: str, now_ms: int) -> Any:
            found = self._ids.get(transactional_id)
            if found is not None and found.state is TransactionState.PREPARE_COMMIT:
                return self._change(replace(found, state=TransactionState.PREPARE_ABORT))
            return original(self, transactional_id, now_ms)

        return time_out

    replace_in(SHARD, "TransactionCoordinatorShard._follow", make_follow)
    replace_in(SHARD, "TransactionCoordinatorShard._time_out", make_time_out)


@defect("transactions-never-time-out", "a transaction without an end stays open", NEEDS)
def _() -> None:
    replace_in(
        SHARD,
        "TransactionCoordinatorShard._time_out",
        lambda original: lambda self, *arguments: CoordinatorResult(),
    )


@defect("loaded-transactions-do-not-time-out", "a new coordinator sets no time-outs for open transactions", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def on_loaded(self: Any, now_ms: int) -> Any:
            result = original(self, now_ms)
            for timer in self._timeouts.values():
                timer.cancel()
            return result

        return on_loaded

    replace_in(SHARD, "TransactionCoordinatorShard.on_loaded", make)


@defect("loaded-decisions-are-forgotten", "a new coordinator sends no markers of decided transactions", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def on_loaded(self: Any, now_ms: int) -> Any:
            on_prepared, self._on_prepared = self._on_prepared, lambda *arguments: None
            try:
                return original(self, now_ms)
            finally:
                self._on_prepared = on_prepared

        return on_loaded

    replace_in(SHARD, "TransactionCoordinatorShard.on_loaded", make)


@defect("loaded-as-aborted", "a new coordinator aborts decided transactions, whatever was decided", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def on_loaded(self: Any, now_ms: int) -> Any:
            for transactional_id, found in self._ids.items():
                if found.state is TransactionState.PREPARE_COMMIT:
                    self._ids[transactional_id] = replace(found, state=TransactionState.PREPARE_ABORT)
            return original(self, now_ms)

        return on_loaded

    replace_in(SHARD, "TransactionCoordinatorShard.on_loaded", make)


@defect("partitions-are-replaced", "the partitions added last replace the earlier ones of a transaction", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def with_partitions(self: Any, added: Any, *arguments: Any, **options: Any) -> Any:
            return original(replace(self, partitions=frozenset()), added, *arguments, **options)

        return with_partitions

    replace_in(METADATA, "TransactionMetadata.with_partitions", make)


@defect("changes-overtake-each-other", "a change of an id is decided while another one is not committed", NEEDS)
def _() -> None:
    replace_in(SHARD, "TransactionCoordinatorShard._require_settled", lambda original: lambda self, name: None)


@defect("ids-expire-in-a-transaction", "a transactional id expires although its transaction is open", NEEDS)
def _() -> None:
    replace_in(METADATA, "TransactionState.is_at_rest", lambda original: property(lambda self: True))


@defect("coordinates-before-it-has-caught-up", "a starting broker coordinates what its earlier processes led", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def publish(self: Any, *arguments: Any) -> None:
            self._is_started = True
            original(self, *arguments)

        return publish

    replace_in("broker.coordinator_host", "CoordinatorHost.publish", make)


# --- ids and epochs


@defect("epoch-is-not-compared", "the coordinator accepts partitions from producers in an old epoch", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def of_producer(self: Any, transactional_id: str, producer: Any) -> Any:
            found = self._ids.get(transactional_id)
            if found is not None and found.producer_id == producer.producer_id:
                producer = producer._replace(epoch=found.producer_epoch)
            return original(self, transactional_id, producer)

        return of_producer

    replace_in(SHARD, "TransactionCoordinatorShard._of_producer", make)


@defect("fenced-producer-ends-transactions", "a fenced producer ends the transaction of its successor", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def end(found: Any, producer_id: int, epoch: int, **options: Any) -> Any:
            is_open = found.state is TransactionState.ONGOING and found.producer_id == producer_id
            return original(found, producer_id, found.producer_epoch if is_open else epoch, **options)

        return end

    replace_in(SHARD, "decide_end", make)


@defect("init-leaves-the-transaction-open", "a new producer does not abort the transaction before it", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def init_producer(self: Any, transactional_id: str, *arguments: Any) -> Any:
            found = self._ids.get(transactional_id)
            if found is not None and found.state is TransactionState.ONGOING:
                self._ids[transactional_id] = replace(found, state=TransactionState.EMPTY)
            return original(self, transactional_id, *arguments)

        return init_producer

    replace_in(SHARD, "TransactionCoordinatorShard.init_producer", make)


@defect("init-keeps-the-epoch", "a new producer receives the epoch of the one before it", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def with_next_epoch(self: Any, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Any:
            following = original(self, timeout_ms, expected_epoch, now_ms)
            return following and replace(following, producer_epoch=self.producer_epoch)

        return with_next_epoch

    replace_in(METADATA, "TransactionMetadata.with_next_epoch", make)


@defect("epoch-stays-after-a-transaction", "a producer of version 2 keeps its epoch after a transaction", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def prepared(self: Any, **options: Any) -> Any:
            return replace(original(self, **options), producer_epoch=self.producer_epoch)

        return prepared

    replace_in(METADATA, "TransactionMetadata.prepared", make)


@defect("time-out-does-not-fence", "a transaction that times out leaves its producer the epoch", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def fenced(self: Any, now_ms: int, **options: Any) -> Any:
            return replace(original(self, now_ms, **options), producer_epoch=self.producer_epoch)

        return fenced

    replace_in(METADATA, "TransactionMetadata.fenced", make)


@defect("used-up-id-goes-on", "a producer id goes on after its last epoch", NEEDS)
def _() -> None:
    replace_in(METADATA, "TransactionMetadata.is_epoch_exhausted", lambda original: property(lambda self: False))


# --- markers


@defect("markers-are-sent-once", "a marker that was refused or not answered is not sent again", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        async def again(self: Any, ending: Any, partitions: Any) -> None:
            await asyncio.sleep(0)

        return again

    replace_in(MARKERS, "MarkerSender._again", make)


@defect("complete-with-the-first-marker", "a transaction is complete when one partition has its marker", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        async def take(self: Any, ending: Any, codes: Any) -> None:
            if ErrorCode.NONE in codes.values():
                ending.remaining.clear()
            await original(self, ending, codes)

        return take

    replace_in(MARKERS, "MarkerSender._take", make)


@defect("refused-marker-counts", "a marker that its leader refuses counts as written", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        async def take(self: Any, ending: Any, codes: Any) -> None:
            await original(self, ending, dict.fromkeys(codes, ErrorCode.NONE))

        return take

    replace_in(MARKERS, "MarkerSender._take", make)


@defect("marker-is-answered-when-appended", "a marker counts as written before the replicas have it", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        async def append(self: Any, marker: Any, partition: Any) -> ErrorCode:
            replica = self._replicas.leader_of(partition)
            if replica.leader_replica is None:
                code: ErrorCode = await original(self, marker, partition)
                return code
            from barnabas.protocol.end_transaction_batch import end_transaction_batch

            batch = end_transaction_batch(
                marker.producer_id,
                marker.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp_ms=self._clock.now_ms(),
            )
            self._replicas.append(replica, batch, requires_all_in_sync=False, origin=AppendOrigin.COORDINATOR)
            return ErrorCode.NONE

        return append

    replace_in(MARKERS, "MarkerWriter._append", make)


@defect("aborts-are-sent-as-commits", "other brokers receive a commit for each transaction", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def writable(*arguments: Any) -> Any:
            marker = original(*arguments)
            marker.transaction_result = True
            return marker

        return writable

    replace_in(MARKERS, "_writable", make)


@defect("late-markers-end-the-next", "a late marker ends the producer's next transaction", NEEDS)
def _() -> None:
    replace_in(MARKERS, "MarkerWriter._check_epoch", lambda original: lambda self, *arguments: None)
    replace_in("storage.producer_state", "ProducerState.validate_marker", lambda original: lambda self, *a, **o: None)


@defect("markers-in-the-epoch-before", "markers of version 2 carry the epoch of the records, not the next one", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def marker(self: Any) -> Any:
            found = original.fget(self)
            is_v2 = self.prepared.metadata.client_version >= 2
            return found._replace(producer_epoch=found.producer_epoch - 1) if is_v2 else found

        return property(marker)

    replace_in(MARKERS, "_Ending.marker", make)


@defect(
    "marker-bypasses-the-groups", "the marker of a group's offsets is written, but not applied to the groups", NEEDS
)
def _() -> None:
    replace_in(MARKERS, "GROUP_METADATA_TOPIC", lambda original: "none")
