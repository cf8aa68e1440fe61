"""Tracks transactions while the cleaner walks through a log: which batches are aborted, which markers are obsolete.

Records of an aborted transaction are removed immediately. Its marker is removed only when none of its records is left,
and a commit marker when the log has no records of its transaction; until then consumers inside the transaction need it.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from barnabas.storage.producer_state import EndTransactionMarker
from barnabas.storage.transaction_index import AbortedTransaction

__all__ = ["CleanedTransactions"]


class CleanedTransactions:
    __slots__ = ("_coming", "_ongoing_aborted", "_ongoing_committed", "retained_aborted")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """``aborted`` are the aborted transactions of the part of the log to clean, in offset order."""
        self._coming = [(transaction.first_offset, transaction) for transaction in aborted]
        heapify(self._coming)
        # Producer id -> its aborted transaction, and whether a batch of it was seen.
        self._ongoing_aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._ongoing_committed: set[int] = set()
        self.retained_aborted: list[AbortedTransaction] = []
        """Return the aborted transactions whose marker stays, for the index of the new segment."""

    def read_data_batch(self, producer_id: int, last_offset: int, *, is_transactional: bool) -> bool:
        """Process a batch; true if it belongs to an aborted transaction."""
        self._begin_up_to(last_offset)
        if not is_transactional:
            return False
        aborted = self._ongoing_aborted.get(producer_id)
        if aborted is not None:
            self._ongoing_aborted[producer_id] = (aborted[0], True)
            return True
        self._ongoing_committed.add(producer_id)
        return False

    def read_control_batch(self, producer_id: int, last_offset: int, marker: EndTransactionMarker | None) -> bool:
        """Process a marker (None: one without content); true if consumers no longer need it."""
        self._begin_up_to(last_offset)
        if marker is None:
            return True
        if not marker.is_abort:
            seen = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not seen
        aborted = self._ongoing_aborted.pop(producer_id, None)
        if aborted is not None and aborted[1]:
            self.retained_aborted.append(aborted[0])
            return False
        return True

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            transaction = heappop(self._coming)[1]
            self._ongoing_aborted.setdefault(transaction.producer_id, (transaction, False))
