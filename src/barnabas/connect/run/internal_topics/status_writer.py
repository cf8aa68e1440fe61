"""Write statuses until they are safe. Only the newest one of a key matters: it replaces an older one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from barnabas.connect.decide.backing_stores.status_records import StatusRecord
from barnabas.connect.errors import ConnectError

__all__ = ["StatusWriter"]

log = logging.getLogger(__name__)

_PAUSE_S = 0.25
_PAUSE_MAX_S = 30.0


class StatusWriter:
    """``write_records`` is ``TopicLog.write``, which keeps the order of calls; several writes may run concurrently."""

    def __init__(self, write_records: Callable[[Sequence[StatusRecord]], Awaitable[object]]) -> None:
        self._write_records = write_records
        self._newest: dict[bytes, StatusRecord] = {}

    async def write(self, record: StatusRecord) -> None:
        """Return when the record is safe, or when a newer one of its key has replaced it."""
        key = record[0]
        self._newest[key] = record
        pause_s = _PAUSE_S
        while self._newest.get(key) is record:
            try:
                await self._write_records([record])
            except ConnectError as error:
                if self._newest.get(key) is record:
                    log.warning("a status was not written: %s; trying again in %g s", error, pause_s)
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, _PAUSE_MAX_S)
            else:
                if self._newest.get(key) is record:
                    del self._newest[key]
                return
