"""A thread that prints fetched records and writes them to the standard output.

The event loop only fetches: neither a slow reader of the pipe nor a schema registry delays the heartbeats of a group.
``room`` closes while too much waits. A record counts as read when it was written.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import stat
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from barnabas.common.printable import printable
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.cli.records.printers import Printed, Printer
    from barnabas.clients.consumer.completed_fetch import Fetched

__all__ = ["Output", "RecordSink", "StandardOutput", "harmless"]

_WAITING_BYTES_MAX = 8 * 1024 * 1024


class Output(Protocol):
    """Where records go."""

    def write(self, data: bytes) -> None:
        """Write everything at once. Raise OSError."""

    def watch(self, closed: Callable[[], None]) -> None:
        """Call ``closed``, from any thread, when the reader has closed its end of a pipe."""


class StandardOutput:
    """The standard output.

    It bypasses the buffer of ``sys.stdout``, whose lock a thread that waits for a slow reader would keep at the exit.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._is_terminal = sys.stdout.isatty()
        self._descriptor: int | None = None
        try:
            self._descriptor = sys.stdout.fileno()
        except (OSError, ValueError):
            pass  # A replaced standard output, without a file.

    def write(self, data: bytes) -> None:
        if self._is_terminal:
            data = harmless(data)
        if self._descriptor is None:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
            return
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def watch(self, closed: Callable[[], None]) -> None:
        descriptor = self._descriptor
        if descriptor is None or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return

        def wait() -> None:
            poll = select.poll()
            poll.register(descriptor, 0)  # No event but the end: POLLERR.
            poll.poll()
            closed()

        threading.Thread(target=wait, name="reader of the output", daemon=True).start()


def harmless(data: bytes) -> bytes:
    """Return lines that can't control a terminal: all control characters but line ends and tabs are escaped."""
    text = data.decode(errors="backslashreplace")
    lines = ("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
    return "\n".join(lines).encode()


class RecordSink:
    """``put`` hands over fetched records; ``written`` is called on the loop when they are written."""

    def __init__(
        self,
        printer: Printer,
        output: Output,
        written: Callable[[TopicPartition, Printed], None],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        limit: int | None = None,
    ) -> None:
        """``until`` are end offsets of partitions, ``limit`` is the maximum number of records."""
        self.room = asyncio.Event()
        self.room.set()
        self.ended = asyncio.Event()
        """Set when the limit is reached, or when ``failure`` says why nothing more is written."""
        self.failure: Exception | None = None
        self._printer = printer
        self._output = output
        self._written = written
        self._until = {} if until is None else until
        self._left = limit
        self._loop = asyncio.get_running_loop()
        self._waiting_bytes = 0
        self._queue: SimpleQueue[Fetched | asyncio.Event | None] = SimpleQueue()
        threading.Thread(target=self._run, name="record sink", daemon=True).start()
        output.watch(lambda: self._fail(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))))

    def put(self, fetched: Fetched) -> None:
        self._waiting_bytes += _size_of(fetched)
        if self._waiting_bytes > _WAITING_BYTES_MAX:
            self.room.clear()
        self._queue.put(fetched)

    async def drain(self) -> None:
        """Wait until everything is written, or an error occurs."""
        drained = asyncio.Event()
        self._queue.put(drained)
        await drained.wait()

    def close(self) -> None:
        """End the thread after what it does now; what waits is dropped if it is after an error."""
        self._queue.put(None)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if isinstance(work, asyncio.Event):
                self._call(work.set)
            elif self.failure is None:
                self._print(work)

    def _print(self, fetched: Fetched) -> None:
        if self._left == 0:
            return
        try:
            end = self._until.get(TopicPartition(fetched.topic, fetched.partition))
            printed = self._printer.print(fetched, end, self._left)
            if printed.data:
                self._output.write(printed.data)
        except Exception as error:
            self._fail(error)
            return
        if self._left is not None:
            self._left -= printed.records
        self._call(self._done, fetched, printed)
        if self._left == 0:
            self._call(self.ended.set)

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self._call(self.ended.set)

    def _done(self, fetched: Fetched, printed: Printed) -> None:
        self._waiting_bytes -= _size_of(fetched)
        if self._waiting_bytes <= _WAITING_BYTES_MAX // 2:
            self.room.set()
        self._written(TopicPartition(fetched.topic, fetched.partition), printed)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # The loop has ended: the command was stopped while this thread waited for a reader.


def _size_of(fetched: Fetched) -> int:
    return sum(batch.size for batch in fetched.batches)
