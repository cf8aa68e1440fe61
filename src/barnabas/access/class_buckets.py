"""Group classes of names into buckets. Within a bucket, access is equal for a principal without its own rules there.

For a principal with a rule for every name, every class that the rules of others create would have to be examined. But
apart from that rule, only shared rules matter: those for ``User:*``, and, if the default is to allow, whether any rule
exists. So one class represents its bucket, and only classes within narrower rules of the principal are examined
individually.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from barnabas.access.class_decisions import Outcome
from barnabas.access.name_classes import NameClass, Pattern
from barnabas.common.resource import PatternType

if TYPE_CHECKING:
    from barnabas.access.proof import ClassChange

__all__ = ["Bucket", "ClassBuckets", "ClassChanges", "Segment"]


class Bucket(NamedTuple):
    classes: Sequence[NameClass]
    excluded: frozenset[NameClass]
    """The classes that are examined individually."""

    def kept(self) -> Iterator[NameClass]:
        return (name_class for name_class in self.classes if name_class not in self.excluded)

    def first(self) -> NameClass | None:
        return next(self.kept(), None)

    def __len__(self) -> int:
        return len(self.classes) - len(self.excluded)


class ClassBuckets:
    def __init__(self, classes: Iterable[NameClass], alike: Callable[[NameClass], Hashable]) -> None:
        self._buckets: dict[Hashable, list[NameClass]] = {}
        self._key_of: dict[NameClass, Hashable] = {}
        for name_class in classes:
            key = self._key_of[name_class] = alike(name_class)
            self._buckets.setdefault(key, []).append(name_class)
        for bucket in self._buckets.values():
            bucket.sort()
        self._by_example = sorted(self._key_of, key=lambda name_class: name_class.example)
        self._examples = [name_class.example for name_class in self._by_example]

    def matched_by(self, patterns: Iterable[Pattern]) -> set[NameClass]:
        """Return the classes whose examples match a pattern: all classes within it, and some that it divides."""
        found: set[NameClass] = set()
        for name, pattern_type in patterns:
            for at in range(bisect_left(self._examples, name), len(self._examples)):
                example = self._examples[at]
                if not (example.startswith(name) if pattern_type == PatternType.PREFIXED else example == name):
                    break
                found.add(self._by_example[at])
        return found

    def without(self, excluded: Iterable[NameClass]) -> Iterator[Bucket]:
        by_key: dict[Hashable, set[NameClass]] = {}
        for name_class in excluded:
            by_key.setdefault(self._key_of[name_class], set()).add(name_class)
        for key, classes in self._buckets.items():
            yield Bucket(classes, frozenset(by_key.get(key, ())))


class Segment(NamedTuple):
    """The classes and buckets where an outcome applies."""

    outcome: Outcome
    classes: list[NameClass]
    buckets: list[Bucket]

    def in_order(self) -> Iterator[tuple[NameClass, Outcome]]:
        for name_class in merge(sorted(self.classes), *map(Bucket.kept, self.buckets)):
            yield name_class, self.outcome

    def __len__(self) -> int:
        return len(self.classes) + sum(map(len, self.buckets))


class ClassChanges(Sequence["ClassChange"]):
    """The sorted classes of a change. They are created on access, because a change may have millions."""

    __slots__ = ("_make", "_segments")

    def __init__(self, make: Callable[[Outcome, NameClass], ClassChange], segments: Sequence[Segment]) -> None:
        self._make = make
        self._segments = segments

    def __len__(self) -> int:
        return sum(map(len, self._segments))

    def __iter__(self) -> Iterator[ClassChange]:
        for name_class, outcome in merge(*map(Segment.in_order, self._segments), key=itemgetter(0)):
            yield self._make(outcome, name_class)

    def __getitem__(self, index: int) -> ClassChange:  # type: ignore[override]
        return list(self)[index]
