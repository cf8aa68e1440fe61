"""A dictionary of the values that were used last, up to a bound."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Without ``size_max`` values nothing is kept. Values are never None."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._values: dict[Key, Value] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value  # A dictionary keeps its order, so the first key is the one unused for longest.
        return value

    def put(self, key: Key, value: Value) -> Value:
        """Keep the value, and return it."""
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._size_max:
            del self._values[next(iter(self._values))]
        return value
