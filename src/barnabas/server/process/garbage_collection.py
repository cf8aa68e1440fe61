"""Keeps the pauses of Python's garbage collector short, however much metadata a node holds.

A full collection examines every object: 2 s with 200,000 topics, during which the node does not answer. The metadata
consists of values without cycles, which need no collection: they are freed when nothing refers to them. So objects that
survive a long full collection are frozen (``gc.freeze``), and later collections examine only newer objects. Garbage in
cycles that was frozen stays. Therefore all objects are examined again when the process has grown by half: in memory, or
in frozen objects. Growth of the metadata does not count: a cluster that grows to 200,000 partitions must not pause for
seconds, which would cost an active controller its leadership.

Memory alone is not a sufficient measure. The interpreter and the C library keep the memory that a complete collection
frees: the process does not shrink, and new garbage fills that memory without growth, so that the bound would grow by
half with each collection. Therefore memory that the C library keeps is returned afterwards, and objects are counted.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import add, mul
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from barnabas.metadata.image.metadata_image import MetadataImage

__all__ = ["BoundedPauses", "Extent", "least_extent_of"]

log = logging.getLogger(__name__)

_LONG_S: Final = 0.01
_GROWTH: Final = 1.5
_GROWTH_MIN: Final = (64 * 1024 * 1024, 500_000)
_OLDEST: Final = 2
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Extent(NamedTuple):
    memory: int
    objects: int


_OF_A_TOPIC: Final = Extent(450, 3)
_OF_A_PARTITION: Final = Extent(160, 1)
_OF_AN_ACL: Final = Extent(280, 2)


class BoundedPauses:
    """Bounds the pauses. Install it after the start-up objects are frozen. ``images`` returns the node's images."""

    def __init__(self, images: Callable[[], Iterable[MetadataImage]]) -> None:
        self._images = images
        self._began = 0.0
        self._known = self._metadata = Extent(0, 0)
        self._set_aside = 0
        """The objects frozen since the last complete collection, including those that were freed since."""
        self._is_thawed = False
        self.longest_s = 0.0

    def install(self) -> None:
        self._count_growth_from_here()
        gc.callbacks.append(self._on_collection)

    def remove(self) -> None:
        """Remove the callback. This is safe even if it was never installed."""
        with suppress(ValueError):
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._began = perf_counter()
            return
        took_s = perf_counter() - self._began
        self.longest_s = max(self.longest_s, took_s)
        if took_s < _LONG_S:
            return
        survivors = _survivor_count()
        gc.freeze()
        if self._is_thawed:
            self._is_thawed = False
            _give_back_freed_memory()
            self._count_growth_from_here()
            log.info("collected garbage in all memory, because the process has grown: %.2f s", took_s)
            return
        self._set_aside += survivors
        if self._has_grown():
            gc.unfreeze()
            self._is_thawed = True

    def _has_grown(self) -> bool:
        memory, objects = Extent(*map(add, self._known, self._growth_of_metadata()))
        grown_bytes = _resident_bytes() - memory
        if grown_bytes > max(memory * (_GROWTH - 1), _GROWTH_MIN[0]):
            return True
        may_grow = max(objects * (_GROWTH - 1), _GROWTH_MIN[1])
        if self._known.objects + self._set_aside - objects <= may_grow:
            return False
        self._set_aside = _frozen_count() - self._known.objects  # About 10 ms for a million, and rarely needed.
        return self._known.objects + self._set_aside - objects > may_grow

    def _growth_of_metadata(self) -> Iterator[int]:
        return (max(now - before, 0) for now, before in zip(self._extent_of_metadata(), self._metadata, strict=True))

    def _count_growth_from_here(self) -> None:
        self._known = Extent(_resident_bytes(), _frozen_count())
        self._metadata = self._extent_of_metadata()
        self._set_aside = 0

    def _extent_of_metadata(self) -> Extent:
        extents = [least_extent_of(image) for image in self._images()]
        return Extent(sum(extent.memory for extent in extents), sum(extent.objects for extent in extents))


def least_extent_of(image: MetadataImage) -> Extent:
    """Return the minimum memory and objects of topics, partitions and ACLs: no other growth is counted as theirs."""
    topics = image.topics
    counts = (len(topics), topics.partition_count(), len(image.acls.by_id))
    kinds = (_OF_A_TOPIC, _OF_A_PARTITION, _OF_AN_ACL)
    return Extent(*(sum(map(mul, counts, sizes)) for sizes in zip(*kinds, strict=True)))


def _survivor_count() -> int:
    return len(gc.get_objects(_OLDEST))


def _frozen_count() -> int:
    return gc.get_freeze_count()


def _give_back_freed_memory() -> None:
    with suppress(OSError, AttributeError):
        import ctypes  # Rarely needed, and importing it takes a few ms.

        ctypes.CDLL(None).malloc_trim(0)  # Only the GNU C library of Linux has it.


def _resident_bytes() -> int:
    """Return the memory without mapped files."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            resident, shared = map(int, statm.read().split()[1:3])
    except OSError:
        return 0  # On other systems than Linux frozen objects are never examined again.
    return (resident - shared) * _PAGE_BYTES
