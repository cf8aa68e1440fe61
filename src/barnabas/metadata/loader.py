"""Builds images from committed records and passes them to publishers.

Committed batches become a delta on the current image. A delta is published at the end of each call to
``handle_commit`` (the caller groups as many batches as it has), but never inside a transaction: records after
BeginTransaction are held back; EndTransaction applies them, AbortTransaction drops them.

A snapshot replaces everything: it is loaded as a delta that also removes what it does not name, so that
publishers see a change, not a restart.

A record that cannot be applied is a fault. The loader raises InvariantViolated, keeps the last good image
and refuses further records: a node that continued would act on a state that no controller decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from barnabas.common.errors import InvariantViolated, invariant
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.publisher import LoaderManifest, MetadataPublisher, published_in_steps
from barnabas.metadata.snapshot import records_of
from barnabas.protocol.records.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.records.end_transaction_record import EndTransactionRecord

__all__ = ["CommittedBatch", "MetadataLoader", "TransactionState"]

RECORDS_A_STEP: Final = 500
"""Some 5 ms of replaying."""


class CommittedBatch:
    """One batch of the log below the high watermark; a control batch has no ``records`` but counts offsets."""

    __slots__ = ("append_time_ms", "base_offset", "byte_count", "epoch", "last_offset", "records")

    def __init__(
        self,
        *,
        base_offset: int,
        last_offset: int,
        epoch: int,
        append_time_ms: int,
        records: Sequence[Any],
        byte_count: int = 0,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.epoch = epoch
        self.append_time_ms = append_time_ms
        self.records = records
        self.byte_count = byte_count


class TransactionState:
    """The open transaction of the log, if any; ``receive`` returns the records that may be applied now."""

    __slots__ = ("_held", "begin_offset", "name")

    def __init__(self) -> None:
        self.begin_offset: int | None = None
        self.name: str | None = None
        self._held: list[object] = []

    @property
    def is_open(self) -> bool:
        return self.begin_offset is not None

    def receive(self, record: Any, offset: int) -> Sequence[Any]:
        """Return the records that take effect with this one, in order. A misplaced marker is a fault."""
        kind = type(record)
        if kind is BeginTransactionRecord:
            invariant(not self.is_open, f"offset {offset} begins a transaction inside another")
            self.begin_offset, self.name = offset, record.name
            return ()
        if kind is EndTransactionRecord or kind is AbortTransactionRecord:
            invariant(self.is_open, f"offset {offset} ends a transaction that was not begun")
            held = self._held
            self.begin_offset, self.name, self._held = None, None, []
            return held if kind is EndTransactionRecord else ()
        if self.begin_offset is None:
            return (record,)
        self._held.append(record)
        return ()


class MetadataLoader:
    """``image`` was published last; a publisher that is installed later receives it."""

    def __init__(self) -> None:
        self.image = MetadataImage.EMPTY
        self.high_watermark: int | None = None
        self.fault: InvariantViolated | None = None
        self._publishers: list[MetadataPublisher] = []
        self._delta = MetadataDelta(self.image)
        self._provenance = self.image.provenance
        self._transaction = TransactionState()
        self._unpublished_batches = 0
        self._unpublished_bytes = 0
        self._has_published = False

    @property
    def in_transaction(self) -> bool:
        return self._transaction.is_open

    def install(self, publisher: MetadataPublisher) -> None:
        """Add a publisher; if an image exists already, the publisher receives it immediately, as a snapshot."""
        if self._has_published:
            delta = _delta_from_nothing(self.image)
            publisher.publish(delta, self.image, LoaderManifest(self.image.provenance, is_snapshot=True))
        self._publishers.append(publisher)

    def remove(self, publisher: MetadataPublisher) -> None:
        self._publishers.remove(publisher)

    def handle_commit(self, batches: Iterable[CommittedBatch]) -> None:
        """Apply batches, oldest first, and publish once unless a transaction is open at their end."""
        self._check_no_fault()
        try:
            for batch in batches:
                self._replay_batch(batch)
        except InvariantViolated as fault:
            self.fault = fault
            raise
        if self._unpublished_batches and not self._transaction.is_open:
            self._publish(is_snapshot=False)

    def handle_commit_in_steps(self, batches: Iterable[CommittedBatch]) -> Iterator[None]:
        """As ``handle_commit``, in steps, between which other work is served.

        The image is the one from before until it is published.
        """
        self._check_no_fault()
        try:
            for batch in batches:
                yield from self._replay_batch_in_steps(batch)
        except InvariantViolated as fault:
            self.fault = fault
            raise
        if self._unpublished_batches and not self._transaction.is_open:
            yield from self._publish_in_steps(is_snapshot=False)

    def load_snapshot(self, records: Iterable[object], provenance: MetadataProvenance, byte_count: int = 0) -> None:
        """Replace the state by a snapshot's; ``provenance`` is from its name and its header."""
        for _ in self.load_snapshot_in_steps(records, provenance, byte_count):
            pass

    def load_snapshot_in_steps(
        self, records: Iterable[object], provenance: MetadataProvenance, byte_count: int = 0
    ) -> Iterator[None]:
        """The image is the one from before until the snapshot's is published."""
        self._check_no_fault()
        self._transaction = TransactionState()
        delta = MetadataDelta(self.image, is_snapshot=True)
        try:
            for number, record in enumerate(records, start=1):
                delta.replay(record)
                if number % RECORDS_A_STEP == 0:
                    yield
            yield from delta.finish_snapshot_in_steps()
        except InvariantViolated as fault:
            self.fault = fault
            raise
        self._delta = delta
        self._provenance = provenance
        self._unpublished_batches, self._unpublished_bytes = 0, byte_count
        yield from self._publish_in_steps(is_snapshot=True)

    def _replay_batch(self, batch: CommittedBatch) -> None:
        for _ in self._replay_batch_in_steps(batch):
            pass

    def _replay_batch_in_steps(self, batch: CommittedBatch) -> Iterator[None]:
        offset = batch.base_offset
        invariant(offset > self._provenance.last_contained_offset, f"batch at {offset} was applied before")
        transaction = self._transaction
        for record in batch.records:
            try:
                for effective in transaction.receive(record, offset):
                    self._delta.replay(effective)
            except InvariantViolated as fault:
                raise InvariantViolated(f"{type(record).__name__} at offset {offset}: {fault}") from fault
            offset += 1
            if (offset - batch.base_offset) % RECORDS_A_STEP == 0:
                yield
        self._provenance = MetadataProvenance(batch.last_offset, batch.epoch, batch.append_time_ms)
        self._unpublished_batches += 1
        self._unpublished_bytes += batch.byte_count

    def _publish(self, *, is_snapshot: bool) -> None:
        image = self._delta.apply(self._provenance)
        delta, manifest = self._replaced_by(image, is_snapshot)
        for publisher in self._publishers:
            publisher.publish(delta, image, manifest)

    def _publish_in_steps(self, *, is_snapshot: bool) -> Iterator[None]:
        """Publish to each publisher in order. One that is installed meanwhile has the new image already."""
        is_long = self._delta.change_count() > RECORDS_A_STEP
        if is_long:
            image = yield from self._delta.apply_in_steps(self._provenance)
        else:
            image = self._delta.apply(self._provenance)
        delta, manifest = self._replaced_by(image, is_snapshot)
        for publisher in list(self._publishers):
            yield from published_in_steps(publisher, delta, image, manifest)
            if is_long:
                yield

    def _replaced_by(self, image: MetadataImage, is_snapshot: bool) -> tuple[MetadataDelta, LoaderManifest]:
        delta = self._delta
        manifest = LoaderManifest(self._provenance, is_snapshot, self._unpublished_batches, self._unpublished_bytes)
        self.image = image
        self._delta = MetadataDelta(image)
        self._unpublished_batches = self._unpublished_bytes = 0
        self._has_published = True
        return delta, manifest

    def _check_no_fault(self) -> None:
        if self.fault is not None:
            raise InvariantViolated("the metadata loader stopped at an earlier fault") from self.fault


def _delta_from_nothing(image: MetadataImage) -> MetadataDelta:
    delta = MetadataDelta(MetadataImage.EMPTY, is_snapshot=True)
    if image.features.metadata_version is not None:
        for record, _ in records_of(image):
            delta.replay(record)
    return delta
