"""An immutable mapping whose changed copies share unchanged parts.

An image must be a value: a reader that holds one sees the same cluster until it drops it. Copying a
dict of all topics for each new topic would make ten thousand creations quadratic, so the entries
are spread over buckets. A change copies the row of buckets and only those buckets that are touched.
A bucket has some tens of entries: a hundred changes together copy a hundred small buckets, and not the
whole map. Beyond 250,000 entries buckets grow with the row, so that copying the row costs O(sqrt(n)) pointers
(some microseconds at 100,000 entries). A lookup is one hash, one index and one dict probe.

A map that outgrows its row receives one that is twice as long, in which each old bucket occurs twice: at its index and
half a row further. Both places hold the same dict until one of them changes; then it is split. So growing costs a row,
and never a pass over all entries. A bucket that occurs twice has entries of both places, and readers of whole buckets
skip those of the other place.

The order of iteration is not defined. Users that need an order (a snapshot, an election) sort.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

__all__ = ["PersistentMap", "in_order"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_SMALLEST_ROW = 8
_BUCKET_ENTRIES = 48
_ROW_PER_ENTRY = 64
"""How many buckets a row has for each entry of a bucket, at least, once buckets are larger than the smallest."""
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
        """Build a map of ``count`` items without a dict of all of them; the last item with a key wins."""
        result: PersistentMap[K, V] = cls()
        result._fill(items, count)
        return result

    def _fill(self, items: Iterable[tuple[K, V]], count: int) -> None:
        row = _row_for(count, _SMALLEST_ROW)
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
        for bucket in self.buckets():
            yield from bucket

    def keys(self) -> Iterator[K]:
        return iter(self)

    def values(self) -> Iterator[V]:
        for bucket in self.buckets():
            yield from bucket.values()

    def items(self) -> Iterator[tuple[K, V]]:
        for bucket in self.buckets():
            yield from bucket.items()

    def buckets(self) -> Iterator[Mapping[K, V]]:
        """Yield all entries in small pieces."""
        return map(self._bucket, range(len(self._buckets)))

    def _bucket(self, index: int) -> Mapping[K, V]:
        """Return the entries that belong at this index."""
        buckets = self._buckets
        bucket = buckets[index]
        if not bucket or buckets[index ^ (len(buckets) >> 1)] is not bucket:
            return bucket
        mask = self._mask
        return {key: value for key, value in bucket.items() if hash(key) & mask == index}

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
        """Return the map without ``removed``, then with ``entries`` added; this map is unchanged."""
        row = _row_for(self._size + len(entries), len(self._buckets))
        buckets = self._buckets * (row // len(self._buckets))
        mask = row - 1
        owned: set[int] = set()
        size = self._size
        for key in removed:
            index = hash(key) & mask
            if key in buckets[index]:
                del _owned(buckets, index, owned)[key]
                size -= 1
        for key, value in entries.items():
            index = hash(key) & mask
            bucket = buckets[index] if index in owned else _owned(buckets, index, owned)
            before = len(bucket)
            bucket[key] = value
            size += len(bucket) - before
        return _raw(buckets, mask, size)

    def keys_not_shared_with(self, older: "PersistentMap[K, V]") -> Iterator[K]:
        """Yield the keys of all entries that are not in ``older``, and some of those that are.

        Unchanged nodes are not visited; that costs O(sqrt(n)) while neither grew much.
        """
        if self._mask != older._mask:
            yield from self
            return
        for index, (bucket, before) in enumerate(zip(self._buckets, older._buckets, strict=True)):
            if bucket is not before:
                yield from self._bucket(index)


def _owned(buckets: list[dict[K, V]], index: int, owned: set[int]) -> dict[K, V]:
    """Return the bucket, no longer shared with another map; one that occurs twice is split."""
    bucket = buckets[index]
    if index in owned:
        return bucket
    twin = index ^ (len(buckets) >> 1)
    owned.add(index)
    if not bucket or buckets[twin] is not bucket:
        mine = buckets[index] = bucket.copy()
        return mine
    mask = len(buckets) - 1
    mine, rest = {}, {}
    for key, value in bucket.items():
        place = hash(key) & mask
        if place == index:
            mine[key] = value
        elif place == twin:
            rest[key] = value
    buckets[index], buckets[twin] = mine, rest
    owned.add(twin)
    return mine


def _row_for(count: int, row: int) -> int:
    while count > row * max(_BUCKET_ENTRIES, row // _ROW_PER_ENTRY):
        row *= 2
    return row


def in_order(keyed: PersistentMap[K, Any]) -> Iterator[K]:
    """Yield the keys, sorted; those of a large map are only sorted bucket by bucket.

    A sort can't be interrupted, and one of 200,000 keys takes a tenth of a second. This iterator can be consumed in
    steps.
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
