"""The offset up to which this node has applied the metadata log, for requests that wait for one."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["AppliedOffset"]


class AppliedOffset:
    """A publisher. Install it last: every image that it has received is in force on this node."""

    def __init__(self) -> None:
        self.offset = -1
        self._numbers = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        self.offset = new_image.offset
        while self._waiting and self._waiting[0][0] <= self.offset:
            future = heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    async def reach(self, offset: int, timeout_s: float) -> bool:
        """Wait until this node has applied the record at ``offset``. Return False after ``timeout_s``."""
        if offset <= self.offset:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (offset, next(self._numbers), future))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        return True
