"""Cuts a stream of bytes into frames: a 4-byte big-endian length, then that many bytes.

Sans-I/O: the connection requests the memory for the next bytes (``next_buffer``), reports how many it received
(``received``) and obtains the completed frames. A long frame is received directly into its own memory, which grows with
the received bytes: a length of 2 GB without further bytes costs nothing. One read receives at most 128 KB, so that
other senders are served too. A frame that is larger than its API needs is refused when its first six bytes have
arrived.
"""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct
from typing import TYPE_CHECKING, cast

from barnabas.network.receive_buffer import ReceiveMemory
from barnabas.protocol.api_keys import API_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["FrameLimits", "FrameReader", "InvalidFrameSize"]

_SIZE = Struct(">i")
_KEY = Struct(">h")
_KEY_END = _SIZE.size + _KEY.size
_NAMES = {int(key): info.name for key, info in API_TABLE.items()}
_SCRATCH_SIZE = 256 * 1024
_FIRST_ALLOCATION_MIN = 16 * 1024
_PIECE_MAX = 128 * 1024
"""Bytes of a long frame that one read receives."""
_PAGED_MIN = 128 * 1024
"""After this many bytes a longer frame is allocated with its whole size; its pages are used as they fill."""
_TLS_RECORD = 0x1603  # How the first record of a TLS handshake begins.
_SPEAKS_TLS = (
    "it speaks TLS and this listener does not; set security.protocol=PLAINTEXT (or SASL_PLAINTEXT) in the client"
)
_REQUEST_LIMIT = "socket.request.max.bytes"


_scratch = ReceiveMemory(_SCRATCH_SIZE)


class FrameLimits:
    """Returns the largest size of a frame by its API key: bytes, and the setting with this limit.

    The key of a frame that is small enough for every API is not read; other frames need their first two bytes.
    """

    __slots__ = ("_by_api", "_others", "checked_above", "largest", "smallest")

    def __init__(self, by_api: Mapping[int, tuple[int, str]], *, others: tuple[int, str], smallest: int = 0) -> None:
        self._by_api = by_api
        self._others = others
        sizes = [others[0], *(size for size, _ in by_api.values())]
        self.checked_above = min(sizes)
        self.largest = max(sizes)
        self.smallest = smallest
        """The smallest frame in bytes: a read of 128 KB could hold 32,000 empty frames."""

    def check(self, size: int, api_key: int) -> None:
        """Check a frame of which the first bytes are known. Raises InvalidFrameSize."""
        maximum, setting = self._by_api.get(api_key, self._others)
        if size > maximum:
            raise InvalidFrameSize(size, maximum, setting, api_key, minimum=self.smallest)

    def check_any(self, size: int) -> None:
        """Check a frame of which only the size is known yet. Raises InvalidFrameSize."""
        if not self.smallest <= size <= self.largest:
            maximum, setting = max(self._others, *self._by_api.values()) if self._by_api else self._others
            raise InvalidFrameSize(size, maximum, setting, minimum=self.smallest)


class InvalidFrameSize(Exception):
    """The length of a frame is smaller or larger than allowed; the connection must close."""

    def __init__(self, size: int, maximum: int, limit: str, api_key: int | None = None, *, minimum: int = 0) -> None:
        of_api = "" if api_key not in _NAMES else f" of {_NAMES[api_key]}"
        super().__init__(
            _SPEAKS_TLS
            if size >> 16 == _TLS_RECORD
            else f"frame size {size}{of_api} is not allowed; it must be between {minimum} and {maximum} ({limit})"
        )
        self.size = size


class FrameReader:
    __slots__ = ("_filled", "_frame", "_limits", "_prefix", "_size")

    def __init__(self, limits: FrameLimits | int) -> None:
        """A number as ``limit`` is the largest size of every frame."""
        self._limits = FrameLimits({}, others=(limits, _REQUEST_LIMIT)) if isinstance(limits, int) else limits
        self._prefix = b""
        self._frame: bytearray | None = None
        self._filled = 0
        self._size = 0

    def set_limits(self, limits: FrameLimits) -> None:
        """Set the limit of frames from the next bytes on."""
        self._limits = limits

    @property
    def is_idle(self) -> bool:
        """True between frames."""
        return self._frame is None and not self._prefix

    def next_buffer(self) -> memoryview:
        """Return memory for the next bytes; valid until ``received``."""
        frame = self._frame
        if frame is None:
            return _scratch.view
        if self._filled == len(frame):
            frame = self._frame = self._grown(frame)
        return memoryview(frame)[self._filled : self._filled + _PIECE_MAX]

    def _grown(self, frame: bytearray) -> bytearray:
        """Extend the memory of a long frame. A very long one moves to memory that the system allocates page by page."""
        if self._size > _PAGED_MIN <= len(frame):
            paged = mmap(-1, self._size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
            paged[: len(frame)] = frame
            return cast("bytearray", paged)
        frame.extend(bytes(min(len(frame), self._size - len(frame))))
        return frame

    def received(self, count: int) -> Iterator[bytearray]:
        """Return the frames completed by the ``count`` bytes that were put into ``next_buffer``.

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
        # Frames are cut out before the first is processed: a handler may receive on another connection meanwhile.
        frames: list[bytearray] = []
        limits = self._limits
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(data, position)
            if not limits.smallest <= size <= limits.checked_above:
                try:
                    limits.check_any(size)
                    if end - position < _KEY_END:
                        break
                    limits.check(size, _KEY.unpack_from(data, position + 4)[0])
                except InvalidFrameSize:
                    yield from frames
                    raise
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
