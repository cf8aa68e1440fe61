"""A part of the image whose entries are the records themselves, each under its key.

ACLs, SCRAM credentials and delegation tokens are put and removed as a whole, so the record that
put an entry is its value. Records in an image are never changed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Generic, TypeVar

from barnabas.common.stepped_sort import sorted_in_pieces
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.metadata.persistent_map import PersistentMap

__all__ = ["KeyedRecordsDelta", "KeyedRecordsImage"]

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class KeyedRecordsImage(Generic[K, R]):
    __slots__ = ("by_key",)

    LOSS: ClassVar[str] = ""
    """The name of these entries in warnings when the metadata.version is too low for them."""

    def __init__(self, by_key: PersistentMap[K, R] | None = None) -> None:
        self.by_key: PersistentMap[K, R] = PersistentMap() if by_key is None else by_key

    def __len__(self) -> int:
        return len(self.by_key)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and self.by_key == other.by_key)

    __hash__ = None  # type: ignore[assignment]

    def is_supported(self, writer: RecordWriter) -> bool:
        return True

    def write(self, writer: RecordWriter) -> None:
        if len(self.by_key) and not self.is_supported(writer):
            writer.lose(self.LOSS)
            return
        for key in sorted_in_pieces(self.by_key):
            writer.write(self.by_key[key], 0)


class KeyedRecordsDelta(Generic[K, R]):
    """``changes`` maps a key to its new record, or to None when it was deleted."""

    __slots__ = ("changes", "image")

    def __init__(self, image: Any) -> None:
        self.image = image
        self.changes: dict[K, R | None] = {}

    def put(self, key: K, record: R) -> None:
        self.changes[key] = record

    def remove(self, key: K) -> None:
        self.changes[key] = None

    def get(self, key: K) -> R | None:
        if key in self.changes:
            return self.changes[key]
        found: R | None = self.image.by_key.get(key)
        return found

    def finish_snapshot(self) -> None:
        for key in self.image.by_key:
            self.changes.setdefault(key, None)

    def applied(self) -> PersistentMap[K, R]:
        put = {key: record for key, record in self.changes.items() if record is not None}
        gone = [key for key, record in self.changes.items() if record is None]
        result: PersistentMap[K, R] = self.image.by_key.updated(put, gone)
        return result
