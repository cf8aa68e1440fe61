"""Rows that several actions use are read from their source once: Spark keeps them in its memory, or on its disks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["kept"]


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Return the same rows, kept until the end of the context. The first action on them reads them."""
    held = frame.persist()
    try:
        yield held
    finally:
        with suppress(Exception):  # Its JVM may have ended.
            held.unpersist()
