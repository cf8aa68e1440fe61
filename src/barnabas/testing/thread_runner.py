"""Runs a node on a thread of this process, with its own event loop: quicker to start, and with fewer faults.

The node shares the interpreter with the test: while the test computes, the node waits. All nodes of the process write
to the same loggers, so the log of such a node also contains lines of the others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading

from barnabas.common.settings.problem import InvalidSettings
from barnabas.server.node import Node
from barnabas.server.process.event_loop_turns import measured_loop
from barnabas.server.start_errors import NodeStartError
from barnabas.server.storage_tool.formatter import FormatError
from barnabas.storage.errors import StorageError
from barnabas.testing.errors import NodeFailed, NotPossible
from barnabas.testing.full_disk import fill_disk, free_disk
from barnabas.testing.launch import Launch
from barnabas.testing.node_log import NodeLog
from barnabas.testing.preparation import prepare

__all__ = ["ThreadRunner"]

_LOGGER = logging.getLogger("barnabas")
_END_TIMEOUT_S = 10.0
_FORMAT = "%(asctime)s %(levelname)s %(message)s (%(name)s)"


class ThreadRunner:
    def __init__(self, log: NodeLog) -> None:
        self._log = log
        self._launch: Launch | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._settled = threading.Event()
        """Set when the node serves or has failed."""
        self._may_run = threading.Event()
        self._may_run.set()
        self._failure: str | None = None

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def launch(self, launch: Launch) -> None:
        self._launch = launch
        if launch.is_disk_full:
            fill_disk(launch.folder)
        self._thread = threading.Thread(target=self._run, args=(launch,), name=launch.name, daemon=True)
        self._thread.start()

    def await_ready(self, timeout_s: float) -> None:
        assert self._launch is not None
        if not self._settled.wait(timeout_s):
            raise NodeFailed(
                f"{self._launch.name} was not ready after {timeout_s:g} s; give it more time with timeout_s=...\n"
                f"{self._log.tail()}"
            )
        if self._failure is not None:
            self._join(_END_TIMEOUT_S)
            raise NodeFailed(f"{self._launch.name} can't start: {self._failure}")

    def stop(self, timeout_s: float) -> None:
        if self._launch is None:
            return
        was_running = self.is_running
        self.resume()
        free_disk(self._launch.folder)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._join(timeout_s)
        if self.is_running:
            raise NodeFailed(f"{self._launch.name} did not stop in {timeout_s:g} s\n{self._log.tail()}")
        if was_running and self._failure is not None:
            raise NodeFailed(f"{self._launch.name} did not stop in order: {self._failure}")

    def _join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def kill(self) -> None:
        raise NotPossible("kill() needs a node in its own process: omit in_process=True")

    def pause(self) -> None:
        """Block the event loop, so that the node answers nothing and sends nothing."""
        if self._loop is not None and self._may_run.is_set():
            self._may_run.clear()
            self._loop.call_soon_threadsafe(self._may_run.wait)

    def resume(self) -> None:
        self._may_run.set()

    def set_disk_full(self, *, is_full: bool) -> None:
        if self._launch is not None:
            (fill_disk if is_full else free_disk)(self._launch.folder)

    def _run(self, launch: Launch) -> None:
        with _LoggedTo(self._log):
            try:
                with asyncio.Runner(loop_factory=measured_loop) as runner:
                    runner.run(self._serve(launch))
            except (InvalidSettings, FormatError, NodeStartError, StorageError, OSError) as error:
                self._failure = str(error)
            except BaseException as error:
                _LOGGER.exception("the test node %s failed", launch.name)
                self._failure = f"{type(error).__name__}: {error}"
            finally:
                self._settled.set()

    async def _serve(self, launch: Launch) -> None:
        self._loop = asyncio.get_running_loop()
        node = Node(prepare(launch))
        ends = [asyncio.create_task(event.wait()) for event in (self._stop, node.core.stopping)]
        try:
            starting = asyncio.create_task(node.start())
            await asyncio.wait([starting, *ends], return_when=asyncio.FIRST_COMPLETED)
            if node.core.failure is not None or not starting.done():  # It has failed while it started.
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
                self._failure = str(node.core.failure or "it was stopped")
                return
            starting.result()
            self._settled.set()
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
            await node.stop()


class _LoggedTo:
    """Writes the lines of barnabas to a file, from the level INFO on."""

    _open = 0
    """How many nodes need the level. The test's own level is kept."""

    def __init__(self, log: NodeLog) -> None:
        self._handler = logging.FileHandler(log.path, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter(_FORMAT))

    def __enter__(self) -> None:
        _LOGGER.addHandler(self._handler)
        if _LOGGER.level == logging.NOTSET or _LoggedTo._open:
            _LoggedTo._open += 1
            _LOGGER.setLevel(logging.INFO)

    def __exit__(self, *error: object) -> None:
        _LOGGER.removeHandler(self._handler)
        self._handler.close()
        if _LoggedTo._open:
            _LoggedTo._open -= 1
            if not _LoggedTo._open:
                _LOGGER.setLevel(logging.NOTSET)
