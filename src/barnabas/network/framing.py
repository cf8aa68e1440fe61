"""Cuts a stream of bytes into frames: a 4-byte big-endian length, then that many bytes.

Sans-I/O: the connection asks where the next bytes should go (``next_buffer``), says how many came (``received``)
and gets the frames that became complete. A long frame is received straight into its own memory, which grows
with the bytes that really arrive: a length of 2 GB that nothing follows costs nothing.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from barnabas.network.receive_memory import ReceiveMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FrameReader", "InvalidFrameSize"]

_SIZE = Struct(">i")
_SCRATCH_SIZE = 256 * 1024
_FIRST_ALLOCATION_MIN = 16 * 1024
_TLS_RECORD = 0x1603  # How the first record of a TLS handshake begins.
_SPEAKS_TLS = (
    "it speaks TLS and this listener does not; set security.protocol=PLAINTEXT (or SASL_PLAINTEXT) in the client"
)
_REQUEST_LIMIT = "socket.request.max.bytes"


_scratch = ReceiveMemory(_SCRATCH_SIZE)


class InvalidFrameSize(Exception):
    """The length in front of a frame is negative or larger than allowed; the connection must close."""

    def __init__(self, size: int, maximum: int, limit: str) -> None:
        super().__init__(
            _SPEAKS_TLS
            if size >> 16 == _TLS_RECORD
            else f"frame size {size} is not allowed; it must be between 0 and {maximum} ({limit})"
        )
        self.size = size


class FrameReader:
    __slots__ = ("_filled", "_frame", "_limit", "_maximum", "_prefix", "_size")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._limit = _REQUEST_LIMIT
        self._prefix = b""
        self._frame: bytearray | None = None
        self._filled = 0
        self._size = 0

    def set_maximum(self, maximum: int, limit: str = _REQUEST_LIMIT) -> None:
        """The largest frame from the next bytes on, and the setting that says so."""
        self._maximum = maximum
        self._limit = limit

    @property
    def is_idle(self) -> bool:
        """True between frames."""
        return self._frame is None and not self._prefix

    def next_buffer(self) -> memoryview:
        """Memory for the next bytes; valid until ``received``."""
        frame = self._frame
        if frame is None:
            return _scratch.view
        if self._filled == len(frame):
            frame.extend(bytes(min(len(frame), self._size - len(frame))))
        return memoryview(frame)[self._filled :]

    def received(self, count: int) -> Iterator[bytearray]:
        """Frames completed by the ``count`` bytes that were put into ``next_buffer``.

        Raises InvalidFrameSize; the reader must not be used afterwards.
        """
        if self._frame is not None:
            self._filled += count
            if self._filled == self._size:
                frame, self._frame = self._frame, None
                yield frame
            return
        yield from self._cut(count)

    def _cut(self, count: int) -> Iterator[bytearray]:
        data: bytes | memoryview = _scratch.view[:count]
        if self._prefix:
            data = self._prefix + bytes(data)
            self._prefix = b""
        position, end = 0, len(data)
        # Frames are cut out before the first is handed on: a handler may receive on another connection meanwhile.
        frames: list[bytearray] = []
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(data, position)
            if not 0 <= size <= self._maximum:
                yield from frames
                raise InvalidFrameSize(size, self._maximum, self._limit)
            position += 4
            if end - position >= size:
                frames.append(bytearray(data[position : position + size]))
                position += size
            else:
                self._begin_long_frame(size, data[position:])
                position = end
        self._prefix = bytes(data[position:])
        yield from frames

    def _begin_long_frame(self, size: int, start: bytes | memoryview) -> None:
        frame = bytearray(min(size, max(4 * len(start), _FIRST_ALLOCATION_MIN)))
        frame[: len(start)] = start
        self._frame, self._filled, self._size = frame, len(start), size
