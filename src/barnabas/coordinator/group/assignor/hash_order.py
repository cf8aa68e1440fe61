"""The order in which Java's hash tables iterate, because Kafka's assignments depend on it.

A ``HashMap`` iterates its bins by number. The hash of a key and the capacity of the table determine its bin, and the
keys of one bin keep the order of their insertion. The capacity is the one given or 16, and doubles when more than three
quarters of it are used. Removals change neither the capacity nor the order. So the insertion order of a dict and a
capacity determine Java's order. ``computeIfAbsent`` inserts a key before the others of its bin, and the table grows
only with the next call. Two more rules concern bins with many keys:

- With eight keys in its bin, another key doubles a table of less than 64 bins (``filled_capacity``, ``PartitionSet``).
- In a larger table Java makes a tree of such a bin, which iterates in another order. This is not reproduced.

Kafka's records of a group keep the order of partitions. ``ordered`` turns such a list into a set that ``in_order``
iterates in the same order; an ordinary ``frozenset`` stands for the ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, TypeVar

from barnabas.common.stepped_sort import sorted_in_steps
from barnabas.common.uuid import Uuid
from barnabas.coordinator.partitioner import java_string_hash

__all__ = [
    "DEFAULT_CAPACITY",
    "OrderedFrozenSet",
    "PartitionSet",
    "SpreadHashes",
    "apparent_size",
    "capacity_of_copy",
    "capacity_of_map",
    "filled_capacity",
    "grown_capacity",
    "hash_order",
    "hash_order_in_steps",
    "in_order",
    "in_partition_order",
    "in_table_order",
    "in_timeline_order",
    "java_sort_key",
    "names_in_order",
    "ordered",
    "single",
    "table_size",
    "uuid_hash",
]

K = TypeVar("K")
T_co = TypeVar("T_co", covariant=True)

DEFAULT_CAPACITY: Final = 16
_TREEIFY_KEYS: Final = 8
_TREEIFY_CAPACITY: Final = 64
_KEYS_A_STEP: Final = 2_000
_PLACES_A_STEP: Final = 20_000
_INDEX_BITS: Final = 32
_SHARED_BELOW: Final = 1_024
_SPREAD_FROM: Final = 1 << 16
"""The bin of a smaller number is that number, in a table with enough bins."""
_GOLDEN_RATIO: Final = 0x9E3779B97F4A7C15
"""The factor with which Kafka's timeline tables spread hashes."""
_WORDS: Final = Struct(">4I")


def uuid_hash(topic_id: Uuid) -> int:
    """Return ``Uuid.hashCode`` as an unsigned number."""
    first, second, third, fourth = _WORDS.unpack(topic_id)
    hashed: int = first ^ second ^ third ^ fourth
    return hashed


class SpreadHashes(dict[K, int]):
    """The hash of each key as ``HashMap`` uses it: the upper half also decides the bin. Computed on first use."""

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        super().__init__()
        self._hash_of = hash_of

    def __missing__(self, key: K) -> int:
        hashed = self._hash_of(key)
        self[key] = spread = (hashed ^ (hashed >> 16 & 0xFFFF)) & 0xFFFFFFFF
        return spread


# -- capacities


def table_size(expected: int) -> int:
    """Return the capacity of ``new HashMap(expected)``: the next power of two."""
    return 1 << max(expected - 1, 0).bit_length()


def grown_capacity(size: int, capacity: int = DEFAULT_CAPACITY) -> int:
    """Return the capacity of a table that once had ``size`` keys."""
    while size > capacity * 3 // 4:
        capacity *= 2
    return capacity


def filled_capacity(keys: Collection[K], spread: Mapping[K, int]) -> int:
    """Return the capacity of a table with these keys, inserted in this order, where many may share a bin."""
    capacity = DEFAULT_CAPACITY
    if len(keys) > _TREEIFY_KEYS:
        inserted: list[int] = []
        for key in keys:
            hashed = spread[key]
            if capacity < _TREEIFY_CAPACITY and _is_full_bin(inserted, hashed, capacity):
                capacity *= 2
            inserted.append(hashed)
            capacity = grown_capacity(len(inserted), capacity)
            if capacity >= _TREEIFY_CAPACITY:
                break
    return grown_capacity(len(keys), capacity)


def _is_full_bin(hashes: Iterable[int], hashed: int, capacity: int) -> bool:
    mask = capacity - 1
    place = hashed & mask
    return sum(1 for other in hashes if other & mask == place) >= _TREEIFY_KEYS


def capacity_of_copy(size: int) -> int:
    """Return the capacity of ``new HashSet(collection)``."""
    return max(table_size(size * 4 // 3 + 1), DEFAULT_CAPACITY)


def capacity_of_map(size: int) -> int:
    """Return the capacity that Kafka's assignors give a table for ``size`` keys (``newHashMap``)."""
    return table_size((size + 1) * 4 // 3 + 1)


# -- orders


def hash_order(keys: Iterable[K], spread: Mapping[K, int], capacity: int) -> list[K]:
    """Return keys that were inserted in this order as a ``HashMap`` iterates them."""
    mask = capacity - 1
    return sorted(keys, key=lambda key: spread[key] & mask)


def hash_order_in_steps(keys: Sequence[K], spread: Mapping[K, int], capacity: int) -> Generator[None, None, list[K]]:
    """Do the same for many keys."""
    mask = capacity - 1
    places: list[int] = []
    for begin in range(0, len(keys), _KEYS_A_STEP):
        part = keys[begin : begin + _KEYS_A_STEP]
        places += [(spread[key] & mask) << _INDEX_BITS | index for index, key in enumerate(part, begin)]
        if len(part) == _KEYS_A_STEP:
            yield
    return (yield from _keys_at((yield from sorted_in_steps(places)), keys))


def in_timeline_order(keys: Sequence[str], size_max: int = 0) -> Generator[None, None, list[str]]:
    """Return keys that were inserted in this order as Kafka's ``TimelineHashMap`` iterates them.

    Later keys of a slot come first. The number of slots doubles when there are more than four thirds of a key for each,
    and never shrinks: ``size_max`` is the number of keys that the table had, if it was greater than now. A key that is
    put again counts twice at that moment, and a coordinator puts each member again with its next record.
    """
    slots = 2
    while (max(len(keys), size_max) + 1) * 3 > slots * 4:
        slots *= 2
    shift = 65 - slots.bit_length()
    places: list[int] = []
    for begin in range(0, len(keys), _KEYS_A_STEP):
        part = keys[begin : begin + _KEYS_A_STEP]
        for index, key in enumerate(part, begin):
            slot = (java_string_hash(key) * _GOLDEN_RATIO & (1 << 64) - 1) >> shift
            places.append(slot << _INDEX_BITS | len(keys) - 1 - index)
        if len(part) == _KEYS_A_STEP:
            yield
    return (yield from _keys_at((yield from sorted_in_steps(places)), keys[::-1]))


def _keys_at(places: Sequence[int], keys: Sequence[K]) -> Generator[None, None, list[K]]:
    """Return the keys whose indexes are the lower half of the places."""
    found: list[K] = []
    for begin in range(0, len(places), _PLACES_A_STEP):
        found += [keys[place & (1 << _INDEX_BITS) - 1] for place in places[begin : begin + _PLACES_A_STEP]]
        if len(found) == begin + _PLACES_A_STEP:
            yield
    return found


def names_in_order(names: Sequence[str]) -> list[str]:
    """Return names as ``new HashSet(names)`` iterates them: the topics of a subscription."""
    return hash_order(dict.fromkeys(names), SpreadHashes(java_string_hash), capacity_of_copy(len(names)))


def java_sort_key(text: str) -> bytes:
    """Return bytes that compare as Java compares the strings: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def in_partition_order(partitions: Sequence[int], capacity: int) -> list[int]:
    """Return partitions that were inserted in this order as a ``HashSet<Integer>`` iterates them."""
    if len(partitions) < 2 or max(partitions) < min(capacity, _SPREAD_FROM):
        return sorted(partitions)
    mask = capacity - 1
    return sorted(partitions, key=lambda partition: (partition ^ partition >> 16) & mask)


# -- sets with an order


class OrderedFrozenSet(frozenset[T_co]):
    """A set that Kafka iterates in another than the ascending order. ``size`` is its size in Kafka."""

    __slots__ = ("items", "size")

    items: tuple[T_co, ...]
    size: int


def single(partition: int) -> frozenset[int]:
    """Return a set of one partition. Sets of low numbers are shared, because a set takes 216 bytes."""
    return _shared_single(partition) if partition < _SHARED_BELOW else frozenset((partition,))


@lru_cache(maxsize=_SHARED_BELOW)
def _shared_single(partition: int) -> frozenset[int]:
    return frozenset((partition,))


def ordered(items: Sequence[Any], size: int | None = None) -> frozenset[Any]:
    """Return a set that ``in_order`` iterates in the given order.

    ``size`` is the number of names in a subscription: some of their topics may not exist.
    """
    if (size is None or size == len(items)) and sorted(items) == list(items):
        return frozenset(items)
    kept = OrderedFrozenSet(items)
    kept.items = tuple(items)
    kept.size = len(items) if size is None else size
    return kept


def apparent_size(items: frozenset[Any]) -> int:
    """Return the size that the set has in Kafka."""
    return items.size if isinstance(items, OrderedFrozenSet) else len(items)


def in_order(items: frozenset[T_co]) -> Sequence[T_co]:
    """Return the items of a set in its order; that of an ordinary set is the ascending one."""
    return items.items if isinstance(items, OrderedFrozenSet) else sorted(items)  # type: ignore[type-var]


class PartitionSet:
    """A ``HashSet<Integer>`` that changes."""

    __slots__ = ("_capacity", "_partitions")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._partitions: dict[int, None] = {}

    @classmethod
    def copy_of(cls, partitions: frozenset[int]) -> PartitionSet:
        """Return a copy of a set that was read from a record."""
        return cls.of(in_table_order(partitions))

    @classmethod
    def of(cls, partitions: Sequence[int]) -> PartitionSet:
        """Return ``new HashSet(partitions)``."""
        new = cls(capacity_of_copy(len(partitions)))
        if new._capacity < _TREEIFY_CAPACITY:
            for partition in partitions:
                new.add(partition)
        else:
            new._partitions = dict.fromkeys(partitions)
        return new

    def add(self, partition: int) -> None:
        partitions = self._partitions
        if partition in partitions:
            return
        if len(partitions) >= _TREEIFY_KEYS and self._capacity < _TREEIFY_CAPACITY:
            if _is_full_bin(partitions, partition, self._capacity):
                self._capacity *= 2
        partitions[partition] = None
        if len(partitions) > self._capacity * 3 // 4:
            self._capacity *= 2

    def discard(self, partition: int) -> None:
        self._partitions.pop(partition, None)

    def __contains__(self, partition: object) -> bool:
        return partition in self._partitions

    def __len__(self) -> int:
        return len(self._partitions)

    def in_order(self) -> list[int]:
        return in_partition_order(list(self._partitions), self._capacity)

    def frozen(self) -> frozenset[int]:
        partitions = self._partitions
        if len(partitions) == 1:
            return single(*partitions)
        is_ascending = not partitions or max(partitions) < min(self._capacity, _SPREAD_FROM)
        return frozenset(partitions) if is_ascending else ordered(self.in_order())


def in_table_order(partitions: frozenset[int]) -> Sequence[int]:
    """Return partitions that were read from a record as Kafka iterates them."""
    if len(partitions) < 2:
        return tuple(partitions)
    return PartitionSet.of(in_order(partitions)).in_order()
