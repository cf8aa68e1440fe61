"""A registry beside a node or a worker, in its process, on a thread with an event loop of its own.

It begins when the cluster can be reached, which may be after its own node has started, and ends with the process. If
it can't run, the log says why, and the node or worker goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from barnabas.registry.registry import RegistryFailed, start_registry
from barnabas.registry.settings.registry_config import RegistryConfig, load_registry_config

__all__ = ["registry_beside"]

log = logging.getLogger(__name__)

_PAUSE_S = 5.0
_STOP_TIMEOUT_S = 20.0


def registry_beside(path: str) -> AbstractContextManager[None]:
    """Return the registry of a file, which runs while its context does. Raise InvalidRegistryConfig, OSError."""
    return _running(load_registry_config(path))


@contextmanager
def _running(config: RegistryConfig) -> Iterator[None]:
    for warning in config.warnings:
        log.warning("%s", warning)
    beside = _Beside(config)
    beside.start()
    try:
        yield
    finally:
        beside.stop()


class _Beside:
    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_TIMEOUT_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._until_stopped())
        except Exception as error:
            log.error("the registry beside this process does not run: %s", error)

    async def _until_stopped(self) -> None:
        stopped = asyncio.create_task(self._stopping.wait())
        while not stopped.done():
            starting = asyncio.create_task(start_registry(self._config))
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
                return
            try:
                running = starting.result()
            except RegistryFailed as error:  # The cluster can't be reached yet.
                log.warning("the registry waits: %s", error)
                await asyncio.wait({stopped}, timeout=_PAUSE_S)
                continue
            await stopped
            await running.stop()
