"""``.txnindex``: the aborted transactions whose end lies in a segment, in the order of their end markers.

A consumer with isolation level read_committed receives them with the records and skips the records that they cover. The
file exists only where a transaction was aborted. Entries are 34 bytes: version 0, producer id, first offset, last
offset (that of the marker), and the last stable offset at that moment, at which a reader can stop.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.file_io import naming, pwrite_all
from barnabas.storage.file_permissions import FILE_MODE

__all__ = ["AbortedTransaction", "TransactionIndex"]

_log = logging.getLogger(__name__)

_ENTRY = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("_inherited_count", "_transactions", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._transactions: list[AbortedTransaction] | None = None
        self._inherited_count = 0
        """The number of first entries that were read from the file. A power failure may have left any bytes there."""

    @property
    def transactions(self) -> list[AbortedTransaction]:
        if self._transactions is None:
            self._transactions = list(self._read())
            self._inherited_count = len(self._transactions)
        return self._transactions

    def append(self, transaction: AbortedTransaction) -> None:
        """Write immediately: markers of aborted transactions are rare, and the index is the only record of them."""
        transactions = self.transactions
        if transactions and transactions[-1].last_offset >= transaction.last_offset:
            raise ValueError(f"{transaction} ends before the last one of {self.path}, {transactions[-1]}")
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            with naming(self.path):
                pwrite_all(fd, _ENTRY.pack(0, *transaction), len(transactions) * _ENTRY.size)
        finally:
            os.close(fd)
        transactions.append(transaction)

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return those that overlap [fetch_offset, upper_bound_offset), and whether later segments have no further
        ones. Only a last stable offset that this process wrote tells that."""
        found: list[AbortedTransaction] = []
        for number, transaction in enumerate(self.transactions):
            if transaction.last_offset >= fetch_offset and transaction.first_offset < upper_bound_offset:
                found.append(transaction)
            if number >= self._inherited_count and transaction.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions that end at ``offset`` or after it; begin anew if the file cannot be read."""
        self.begin_anew_if_corrupt()
        kept = [transaction for transaction in self.transactions if transaction.last_offset < offset]
        if len(kept) < len(self.transactions):
            os.truncate(self.path, len(kept) * _ENTRY.size)
            self._transactions = kept
            self._inherited_count = min(self._inherited_count, len(kept))

    def clear(self) -> None:
        """Remove all entries and the file."""
        self._transactions = []
        self._inherited_count = 0
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def begin_anew_if_corrupt(self, base_offset: int = 0) -> None:
        """Clear an invalid index. The batches tell what an earlier process has aborted."""
        try:
            self.sanity_check(base_offset)
        except CorruptIndexError as error:
            _log.warning("the index begins anew: %s", error)
            self.clear()

    def sanity_check(self, base_offset: int) -> None:
        """Raise CorruptIndexError unless the entries are whole and end in order inside the segment."""
        last_offset = base_offset - 1
        for transaction in self.transactions:
            if transaction.last_offset <= last_offset or transaction.first_offset > transaction.last_offset:
                raise CorruptIndexError(self.path, f"{transaction} is out of order")
            last_offset = transaction.last_offset

    def _read(self) -> Iterator[AbortedTransaction]:
        try:
            with naming(self.path), open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
        if len(data) % _ENTRY.size:
            raise CorruptIndexError(self.path, f"its size {len(data)} is not a multiple of {_ENTRY.size}")
        for version, *fields in _ENTRY.iter_unpack(data):
            if version != 0:
                raise CorruptIndexError(self.path, f"version {version} of an entry is not 0")
            yield AbortedTransaction(*fields)
