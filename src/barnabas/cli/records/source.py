"""A thread that reads the input and parses it: lines of text, JSON lines, or whole files.

The event loop only sends: it takes one piece after the other, and asks for the next one when its memory has room. A
piece is what one read returned, so a line of an interactive input is sent at once.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.cli.records.json_lines import InputError, parse_line
from barnabas.clients.schema_registry.errors import SchemaError

if TYPE_CHECKING:
    from barnabas.cli.records.text_lines import LineParser
    from barnabas.clients.producer.stream_batches import Pair, StreamRecord

__all__ = ["JsonFormat", "Piece", "RecordSource", "TextFormat", "UnusableInput", "WholeFormat"]

_READ_BYTES = 256 * 1024
_LINE_BYTES_MAX = 256 * 1024 * 1024


class UnusableInput(Exception):
    """The input has something that is not a record. ``where`` names file and line."""

    def __init__(self, where: str, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.where = where
        self.advice = advice


class Piece(NamedTuple):
    """Values of records without keys, or keys and values, or records by the partition that the input names, if any."""

    values: Sequence[bytes] = ()
    pairs: Sequence[Pair] = ()
    records: Sequence[tuple[int | None, Sequence[StreamRecord]]] = ()


class Format(Protocol):
    """How the bytes of an input become records. ``line_end`` is None if a whole file is one record."""

    @property
    def line_end(self) -> bytes | None: ...
    def piece(self, lines: Sequence[bytes]) -> Piece:
        """Return the records of lines. Raise BadLine."""


class BadLine(Exception):
    """``index`` is the place of the line among those of the call."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(str(error))
        self.index = index
        self.advice = error.advice if isinstance(error, SchemaError) else ""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Lines of text. ``timestamp_ms`` returns the time of a record that is read now."""

    parser: LineParser
    timestamp_ms: Callable[[], int]
    line_end: bytes | None = b"\n"

    def piece(self, lines: Sequence[bytes]) -> Piece:
        if self.parser.has_only_value:
            return Piece(lines)
        pairs = self.parser.pairs(lines)
        if pairs is not None:
            return Piece(pairs=pairs)
        timestamp_ms = self.timestamp_ms()
        records: list[StreamRecord] = []
        for index, line in enumerate(lines):
            try:
                records.append(self.parser.record(line, timestamp_ms))
            except (InputError, SchemaError) as error:
                raise BadLine(index, error) from error
        return Piece(records=[(None, records)])


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """JSON lines; empty lines are passed over. ``write_key`` and ``write_value`` encode with a schema."""

    timestamp_of: Callable[[int | str | None], int]
    keeps_partitions: bool = False
    write_key: Callable[[object], bytes] | None = None
    write_value: Callable[[object], bytes] | None = None
    line_end: bytes | None = b"\n"

    def piece(self, lines: Sequence[bytes]) -> Piece:
        by_partition: dict[int | None, list[StreamRecord]] = {}
        for index, line in enumerate(lines):
            if not line or line.isspace():
                continue
            try:
                partition, record = parse_line(line, self.timestamp_of, self.write_key, self.write_value)
            except (InputError, SchemaError) as error:
                raise BadLine(index, error) from error
            by_partition.setdefault(partition if self.keeps_partitions else None, []).append(record)
        return Piece(records=list(by_partition.items()))


@dataclass(frozen=True, slots=True)
class WholeFormat:
    """Each file is one record, by the rules of a line of text."""

    text: TextFormat
    line_end: bytes | None = field(default=None, init=False)

    def piece(self, lines: Sequence[bytes]) -> Piece:
        return self.text.piece(lines)


class RecordSource:
    """``paths`` are files; ``-`` is the standard input."""

    def __init__(self, paths: Sequence[str], format_: Format) -> None:
        self._paths = paths
        self._format = format_
        self._loop = asyncio.get_running_loop()
        self._wanted: SimpleQueue[asyncio.Future[Piece | None]] = SimpleQueue()
        threading.Thread(target=self._run, name="record source", daemon=True).start()

    async def next(self) -> Piece | None:
        """Return the next records, or None at the end. Raise UnusableInput, OSError."""
        future: asyncio.Future[Piece | None] = self._loop.create_future()
        self._wanted.put(future)
        return await future

    def _run(self) -> None:
        pieces = self._pieces()
        while True:
            future = self._wanted.get()
            try:
                piece = next(pieces, None)
            except Exception as error:
                self._call(_fail, future, error)
                return
            self._call(_give, future, piece)
            if piece is None:
                return

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # The loop has ended: the command was stopped while this thread waited for input.

    def _pieces(self) -> Iterator[Piece]:
        for path in self._paths:
            name = "standard input" if path == "-" else path
            descriptor = 0 if path == "-" else os.open(path, os.O_RDONLY)
            number = 1
            try:
                for lines in _lines_of(descriptor, self._format.line_end):
                    try:
                        piece = self._format.piece(lines)
                    except BadLine as error:
                        line = number + error.index
                        yield self._format.piece(lines[: error.index])
                        where = name if self._format.line_end is None else f"{name}, line {line}"
                        raise UnusableInput(where, str(error), error.advice) from error
                    yield piece
                    number += len(lines)
            finally:
                if path != "-":
                    os.close(descriptor)


def _lines_of(descriptor: int, line_end: bytes | None) -> Iterator[list[bytes]]:
    """Yield the lines that each read completes; at the end, a last line without an end. Raise OSError."""
    rest: list[bytes] = []
    size = 0
    while data := os.read(descriptor, _READ_BYTES):
        if line_end is None or (line_end not in data and not (rest and _is_split(rest[-1], data, line_end))):
            rest.append(data)
            size += len(data)
            if size > _LINE_BYTES_MAX:
                raise UnusableInput("the input", f"a record is longer than {_LINE_BYTES_MAX:,} bytes")
            continue
        lines = b"".join((*rest, data)).split(line_end)
        last = lines.pop()
        rest, size = [last] if last else [], len(last)
        yield lines
    if rest or line_end is None:
        yield [b"".join(rest)]


def _is_split(before: bytes, data: bytes, line_end: bytes) -> bool:
    """Return whether a line end of several bytes begins in one read and ends in the next."""
    size = len(line_end) - 1
    return size > 0 and line_end in before[-size:] + data[:size]


def _give(future: asyncio.Future[Piece | None], piece: Piece | None) -> None:
    if not future.done():
        future.set_result(piece)


def _fail(future: asyncio.Future[Piece | None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
