"""The state of a controller: the committed image, and the image that its own appended records lead to.

An image is created only by replaying records. A standby replays committed records. The active controller also
replays its own decisions immediately, onto a second image that runs ahead of the committed one: the next decision
must see the topic that the previous one created, although the disk (or a majority) has not confirmed it yet. Images
share unchanged parts, so running ahead costs only the change. When records are committed, the image after them
becomes the committed one. When leadership is lost first, the images ahead are dropped without a trace. No client
receives an answer from the image ahead: an answer waits until its records are committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from barnabas.common.errors import invariant
from barnabas.controller import decision_steps
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.loader import CommittedBatch, TransactionState
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.records.unregister_broker_record import UnregisterBrokerRecord

__all__ = ["ControllerState"]


class _Ahead:
    """A decision that is appended, or is about to be, but not committed."""

    __slots__ = ("committed", "image", "last_offset")

    def __init__(self, last_offset: int, image: MetadataImage, committed: Callable[[], None]) -> None:
        self.last_offset = last_offset
        self.image = image
        self.committed = committed


class ControllerState:
    """Decisions read ``image``; answers show only ``committed``."""

    def __init__(self) -> None:
        self.committed = MetadataImage.EMPTY
        self.image = MetadataImage.EMPTY
        self.transaction = TransactionState()
        self.registration_offsets: dict[int, int] = {}
        self._ahead: deque[_Ahead] = deque()
        self._delta = MetadataDelta(self.committed)

    @property
    def has_uncommitted(self) -> bool:
        return bool(self._ahead)

    def replayed_in_steps(self, records: Sequence[ApiMessageAndVersion]) -> Steps[MetadataImage]:
        """Return the image after these records, for ``move_ahead``. No other decision may move ahead meanwhile."""
        delta = MetadataDelta(self.image)
        pace = Pace()
        for message, _ in records:
            delta.replay(message)
            if pace.is_reached():
                yield
        if len(records) < decision_steps.UNITS_A_STEP:
            return delta.apply(self.image.provenance)
        image = yield from delta.apply_in_steps(self.image.provenance)
        return image

    def move_ahead(self, image: MetadataImage, last_offset: int, committed: Callable[[], None]) -> None:
        """Let decisions read ``image``, which results from our own records up to an offset.

        ``committed`` is called when the records are.
        """
        provenance = MetadataProvenance(last_offset, self.image.provenance.last_contained_epoch)
        self.image = image.with_provenance(provenance)
        self._ahead.append(_Ahead(last_offset, self.image, committed))

    def wait_for_uncommitted(self, committed: Callable[[], None]) -> None:
        """Call back when all pending records are committed: immediately if none are pending.

        An answer without records may depend on records of other decisions that are still in flight, such as
        "exists already", and must not be sent before their commit.
        """
        if self._ahead:
            last = self._ahead[-1]
            self._ahead.append(_Ahead(last.last_offset, last.image, committed))
        else:
            committed()

    def shift_ahead_from(self, first_offset: int, offset_change: int) -> None:
        """Move the offsets: the log appended the decisions from ``first_offset`` on elsewhere than expected."""
        for ahead in self._ahead:
            if ahead.last_offset >= first_offset:
                ahead.last_offset += offset_change

    def handle_commit_of_own(self, batches: Iterable[CommittedBatch], first_unwritten: int) -> None:
        """Commit on the active controller, which decided and replayed the records.

        Decisions from the offset ``first_unwritten`` on are not in the log yet. Control records may have taken the
        offsets at which they were expected, so these batches commit none of them.
        """
        for batch in batches:
            self._remember_registrations(batch)
            provenance = MetadataProvenance(batch.last_offset, batch.epoch, batch.append_time_ms)
            done: list[_Ahead] = []
            end = min(batch.last_offset + 1, first_unwritten)
            while self._ahead and self._ahead[0].last_offset < end:
                done.append(self._ahead.popleft())
            if done and done[-1].last_offset == batch.last_offset:
                self.committed = done[-1].image.with_provenance(provenance)
            else:
                # A decision that is not atomic continues in the next batch: its image is not committed yet.
                self.committed = _replayed(self.committed, batch.records, provenance)
            self._delta = MetadataDelta(self.committed)
            if not self._ahead:
                self.image = self.committed
            for ahead in done:
                ahead.committed()

    def handle_commit(self, batches: Iterable[CommittedBatch]) -> None:
        """Replay another controller's decisions, on a standby.

        All batches lead to one image: with a long log, as at the start, most of the time would be spent on
        intermediate images.
        """
        provenance = self.committed.provenance
        changes = False
        for batch in batches:
            self._remember_registrations(batch)
            invariant(
                batch.base_offset > provenance.last_contained_offset,
                f"batch at {batch.base_offset} was replayed before",
            )
            offset = batch.base_offset
            for record in batch.records:
                for effective in self.transaction.receive(record, offset):
                    self._delta.replay(effective)
                    changes = True
                offset += 1
            provenance = MetadataProvenance(batch.last_offset, batch.epoch, batch.append_time_ms)
        if changes:
            self._apply(provenance)
        else:
            self.committed = self.image = self.committed.with_provenance(provenance)

    def follow(self, batches: Iterable[CommittedBatch], image: MetadataImage) -> None:
        """Adopt the image after these batches, on a standby; they begin and end outside a transaction."""
        for batch in batches:
            self._remember_registrations(batch)
        self.committed = self.image = image
        self._delta = MetadataDelta(image)

    def load_snapshot(self, image: MetadataImage) -> None:
        """Replace everything by a snapshot, whose brokers count as registered at its end."""
        self.transaction = TransactionState()
        self._ahead.clear()
        self.committed = self.image = image
        self._delta = MetadataDelta(image)
        end = image.provenance.last_contained_offset
        self.registration_offsets = dict.fromkeys(image.cluster.brokers, end)

    def revert(self) -> None:
        """Drop uncommitted state: if it is committed after all, another controller's log delivers it."""
        self._ahead.clear()
        self.image = self.committed

    def abort_open_transaction(self) -> None:
        """Drop the open transaction: a new leader found the log inside it and is about to write its abort."""
        self.transaction = TransactionState()

    def _apply(self, provenance: MetadataProvenance) -> None:
        """An open transaction is harmless: its records are not in the delta."""
        self.committed = self.image = self._delta.apply(provenance)
        self._delta = MetadataDelta(self.committed)

    def _remember_registrations(self, batch: CommittedBatch) -> None:
        for index, record in enumerate(batch.records):
            if type(record) is RegisterBrokerRecord:
                self.registration_offsets[record.broker_id] = batch.base_offset + index
            elif type(record) is UnregisterBrokerRecord:
                self.registration_offsets.pop(record.broker_id, None)


def _replayed(image: MetadataImage, records: Sequence[Any], provenance: MetadataProvenance) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(provenance)
