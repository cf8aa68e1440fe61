"""Defects in what the metadata log writes, flushes, recovers and delivers."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in


@defect("flush-says-too-much", "a flush also counts for records that were appended while it ran")
def _() -> None:
    def make(original: Any) -> Any:
        return lambda driver, end_offset: original(driver, driver.log.end_offset)

    replace_in("server.quorum.raft_driver", "RaftDriver._flushed", make)


@defect("flush-skipped", "the log reports a flush that it did not execute")
def _() -> None:
    from tests.simulation.cluster.disk import Disk

    replace_in("storage.metadata_log", "PendingFlush.run", lambda original: lambda self: None)
    Disk.make_durable = lambda self, taken: None  # type: ignore[method-assign]


@defect("checksum-not-checked", "recovery accepts batches with a wrong checksum")
def _() -> None:
    replace_in("storage.metadata_log_check", "crc_matches", lambda original: lambda data, crc: True)


@defect("torn-batch-kept", "recovery leaves a torn batch at the end of the file")
def _() -> None:
    def make(original: Any) -> Any:
        def cut(self: Any, bad: Any) -> None:
            import os

            segment = self.segments[bad.segment_index]
            with open(segment.path, "rb") as file:
                data = file.read()
            original(self, bad)
            with open(segment.path, "wb") as file:
                file.write(data)
            segment.size = os.path.getsize(segment.path)

        return cut

    replace_in("storage.metadata_log_opening", "LogOpening._cut_torn_tail", make)


@defect("recovered-not-synced", "records that a killed process wrote count as durable without a sync")
def _() -> None:
    replace_in("storage.metadata_log", "MetadataLog._make_recovered_durable", lambda original: lambda self: None)


@defect("epoch-of-the-snapshot-forgotten", "a log that ends with its snapshot does not know its last epoch")
def _() -> None:
    replace_in("storage.metadata_log_opening", "LogOpening._prepare_epochs", lambda original: lambda self, latest: True)


@defect("old-snapshots-come-back", "a snapshot from before the log's start is used again after a power failure")
def _() -> None:
    replace_in(
        "storage.metadata_log", "MetadataLog._drop_snapshots_before", lambda original: lambda self, start_offset: None
    )
    replace_in(
        "storage.metadata_log_opening",
        "drop_snapshots_before",
        lambda original: lambda directory, snapshots, start_offset: None,
    )


@defect("truncation-in-memory-only", "the driver does not truncate the file")
def _() -> None:
    def make(original: Any) -> Any:
        def carry_out(driver: Any, ready: Any) -> None:
            ready.truncate_to = None
            original(driver, ready)

        return carry_out

    replace_in("server.quorum.raft_driver", "RaftDriver._carry_out", make)


@defect("commit-handed-out-twice", "after a delivery from disk the same batches are delivered from memory, too")
def _() -> None:
    def make(original: Any) -> Any:
        def deliver(self: Any, subscription: Any) -> None:
            before = subscription.next_offset
            original(self, subscription)
            if self._recent and before < self._recent[0].base_offset:
                list(self._delivery_steps(subscription.listener, list(self._recent)))

        return deliver

    replace_in("server.quorum.commit_delivery", "CommitDelivery._take_turn", make)


@defect("commit-skipped", "records that were in the log before the start are not delivered")
def _() -> None:
    def make(original: Any) -> Any:
        def due(self: Any, offset: int, end_offset: int) -> Any:
            first_in_memory = self._recent[0].base_offset if self._recent else end_offset
            for subscription in self._subscriptions:
                subscription.next_offset = max(subscription.next_offset, first_in_memory)
            return original(self, first_in_memory, end_offset)

        return due

    replace_in("server.quorum.commit_delivery", "CommitDelivery._due", make)


@defect("leadership-before-commits", "the listener learns that this node leads before it receives the earlier commits")
def _() -> None:
    def make(original: Any) -> Any:
        def carry_out(driver: Any, ready: Any) -> None:
            leader = ready.leader_and_epoch
            if leader is not None and leader.is_leader(driver.config.node_id):
                driver._set_leader(leader)
            original(driver, ready)

        return carry_out

    replace_in("server.quorum.raft_driver", "RaftDriver._carry_out", make)


@defect("snapshot-off-by-one", "a snapshot's name states one record less than it contains")
def _() -> None:
    def make(original: Any) -> Any:
        async def save(self: Any, image: Any) -> Any:
            provenance = image.provenance
            one_less = provenance._replace(last_contained_offset=provenance.last_contained_offset - 1)
            return await original(self, image.with_provenance(one_less))

        return save

    replace_in("server.metadata_log.snapshots", "MetadataSnapshots.save", make)


@defect("log-cleaned-beyond-its-snapshot", "cleaning deletes records that no snapshot holds")
def _() -> None:
    def make(original: Any) -> Any:
        def delete_before(self: Any, keep: Any) -> None:
            log = self._driver.log
            last = log.end_offset
            original(self, keep)
            log.delete_before(last)

        return delete_before

    replace_in("server.metadata_log.snapshots", "MetadataSnapshots._delete_before", make)


@defect("closing-takes-messages-for-faults", "a driver that is closing fails if it has a message to send")
def _() -> None:
    def make(original: Any) -> Any:
        def carry_out(driver: Any, ready: Any) -> None:
            if driver._is_closed and ready.requests:
                raise RuntimeError("This replica exchanges no messages")
            original(driver, ready)

        return carry_out

    replace_in("server.quorum.raft_driver", "RaftDriver._carry_out", make)
