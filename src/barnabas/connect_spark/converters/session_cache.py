"""A cache of expressions, for as long as their Spark session lives.

Creating one costs a call into the JVM for each node, a second for a wide record. The result depends only on schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SessionCache"]

_MOST = 1000
"""Kinds of records; a stream with more kinds creates some expressions again."""

Made = TypeVar("Made")


class SessionCache(Generic[Made]):
    """Not thread-safe: each task has its own."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._made: dict[Hashable, Made] = {}

    def get(self, session: SparkSession, key: Hashable, make: Callable[[], Made]) -> Made:
        if session is not self._session or len(self._made) >= _MOST:
            self._session = session
            self._made = {}
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found
