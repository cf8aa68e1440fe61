"""The results of a request about several items, or to several brokers: a value or an error for each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from barnabas.clients.admin.errors import AdminError

__all__ = ["Listings", "Results"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Results(Generic[K, V]):
    """``results[item]`` is the item's value or raises its error; ``values`` and ``errors`` are the two halves.

    One item that fails does not fail the others, and nothing is raised implicitly: call ``raise_for_errors``
    where partial success counts as failure.
    """

    __slots__ = ("errors", "values")

    def __init__(self, values: Mapping[K, V], errors: Mapping[K, AdminError]) -> None:
        self.values = dict(values)
        self.errors = dict(errors)

    @property
    def ok(self) -> bool:
        return not self.errors

    def raise_for_errors(self) -> dict[K, V]:
        """Return all values. Raise a single error directly, several as an ExceptionGroup."""
        if len(self.errors) == 1:
            raise next(iter(self.errors.values()))
        if self.errors:
            total = len(self.errors) + len(self.values)
            raise ExceptionGroup(f"{len(self.errors)} of {total} items failed", list(self.errors.values()))
        return self.values

    def outcome(self, item: K) -> V | AdminError:
        return self.errors[item] if item in self.errors else self.values[item]

    def __getitem__(self, item: K) -> V:
        if item in self.errors:
            raise self.errors[item]
        return self.values[item]

    def __contains__(self, item: object) -> bool:
        return item in self.values or item in self.errors

    def __iter__(self) -> Iterator[K]:
        yield from self.values
        yield from self.errors

    def __len__(self) -> int:
        return len(self.values) + len(self.errors)

    def __repr__(self) -> str:
        return f"Results({len(self.values)} done, {len(self.errors)} failed)"


@dataclass(frozen=True, slots=True)
class Listings(Generic[V]):
    """The joined lists of all brokers, and the errors of brokers that could not be reached."""

    items: tuple[V, ...]
    errors: Mapping[int, AdminError]

    def raise_for_errors(self) -> tuple[V, ...]:
        Results({}, self.errors).raise_for_errors()
        return self.items
