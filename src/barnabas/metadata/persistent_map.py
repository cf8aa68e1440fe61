"""An immutable mapping whose changed copies share what did not change.

An image must be a value: a reader that holds one sees the same cluster until it lets go. Copying a
dict of all topics for each new topic would make ten thousand creations quadratic, so the entries
are spread over buckets. A change copies the row of buckets and only those buckets that are touched.
With n entries there are about sqrt(n) buckets of about sqrt(n) entries, so one change costs
O(sqrt(n)) pointer copies (some microseconds at 100,000 entries) and a lookup is one hash, one index
and one dict probe.

The order of iteration is not defined. Whoever needs an order (a snapshot, an election) sorts.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

__all__ = ["PersistentMap", "in_order"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_SMALLEST_ROW = 8
_NOTHING: dict[Any, Any] = {}
_SORTED_MAX = 4_096
"""A sort that takes a millisecond or two."""


class PersistentMap(Generic[K, V]):
    __slots__ = ("_buckets", "_mask", "_size")

    _buckets: list[dict[K, V]]
    _mask: int
    _size: int

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._buckets = [_NOTHING] * _SMALLEST_ROW
        self._mask = _SMALLEST_ROW - 1
        self._size = 0
        if entries:
            self._fill(entries.items(), len(entries))

    @classmethod
    def of(cls, items: Iterable[tuple[K, V]], count: int) -> "PersistentMap[K, V]":
        """A map of so many items, made without a dict of all of them; the last one with a key wins."""
        result: PersistentMap[K, V] = cls()
        result._fill(items, count)
        return result

    def _fill(self, items: Iterable[tuple[K, V]], count: int) -> None:
        row = _SMALLEST_ROW
        while count > row * row:
            row *= 2
        mask = row - 1
        buckets: list[dict[K, V]] = [{} for _ in range(row)]
        for key, value in items:
            buckets[hash(key) & mask][key] = value
        self._buckets, self._mask, self._size = buckets, mask, sum(map(len, buckets))

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: T) -> V | T: ...
    def get(self, key: K, default: T | None = None) -> V | T | None:
        return self._buckets[hash(key) & self._mask].get(key, default)

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) & self._mask][key]

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & self._mask]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        for bucket in self._buckets:
            yield from bucket

    def keys(self) -> Iterator[K]:
        return iter(self)

    def values(self) -> Iterator[V]:
        for bucket in self._buckets:
            yield from bucket.values()

    def items(self) -> Iterator[tuple[K, V]]:
        for bucket in self._buckets:
            yield from bucket.items()

    def buckets(self) -> Iterator[Mapping[K, V]]:
        """All entries in pieces of some sqrt(n)."""
        return iter(self._buckets)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PersistentMap):
            return NotImplemented
        if self is other:
            return True
        if self._size != other._size:
            return False
        missing = object()
        return all(other.get(key, missing) == value for key, value in self.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self.items())!r})"

    def updated(self, entries: Mapping[K, V], removed: Iterable[K] = ()) -> "PersistentMap[K, V]":
        """The map without ``removed``, then with ``entries`` put in; this one stays as it is."""
        size_bound = self._size + len(entries)
        row = len(self._buckets)
        if size_bound > row * row:
            while size_bound > row * row:
                row *= 2
            result = self._spread(row)
            owned = set(range(row))
        else:
            result = _raw(list(self._buckets), self._mask, self._size)
            owned = set()
        for key in removed:
            result._remove(key, owned)
        buckets, mask, size = result._buckets, result._mask, result._size
        for key, value in entries.items():
            index = hash(key) & mask
            bucket = buckets[index]
            if index not in owned:
                bucket = buckets[index] = bucket.copy()
                owned.add(index)
            before = len(bucket)
            bucket[key] = value
            size += len(bucket) - before
        result._size = size
        return result

    def keys_not_shared_with(self, older: "PersistentMap[K, V]") -> Iterator[K]:
        """The keys of all entries that are not in ``older``, and some of those that are.

        What was not touched between the two is not looked at; that costs O(sqrt(n)) while neither grew much.
        """
        if self._mask != older._mask:
            yield from self
            return
        for bucket, before in zip(self._buckets, older._buckets, strict=True):
            if bucket is not before:
                yield from bucket

    def _remove(self, key: K, owned: set[int]) -> None:
        index = hash(key) & self._mask
        bucket = self._buckets[index]
        if key not in bucket:
            return
        if index not in owned:
            bucket = self._buckets[index] = bucket.copy()
            owned.add(index)
        del bucket[key]
        self._size -= 1

    def _spread(self, row: int) -> "PersistentMap[K, V]":
        """The same entries in ``row`` fresh buckets, none of them shared."""
        mask = row - 1
        buckets: list[dict[K, V]] = [{} for _ in range(row)]
        for bucket in self._buckets:
            for key, value in bucket.items():
                buckets[hash(key) & mask][key] = value
        return _raw(buckets, mask, self._size)


def in_order(keyed: PersistentMap[K, Any]) -> Iterator[K]:
    """The keys, sorted; those of a large map are sorted bucket by bucket only.

    A sort can't be interrupted, and one of 200,000 keys takes a tenth of a second. What is asked for key by key may be
    taken from this bit by bit.
    """
    if len(keyed) <= _SORTED_MAX:
        yield from sorted(keyed)  # type: ignore[type-var]
        return
    for bucket in keyed.buckets():
        yield from sorted(bucket)  # type: ignore[type-var]


def _raw(buckets: list[dict[K, V]], mask: int, size: int) -> PersistentMap[K, V]:
    result: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
    result._buckets = buckets
    result._mask = mask
    result._size = size
    return result
