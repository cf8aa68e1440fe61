"""``spark.read.format("kafka-access-audit")``: audits of access decisions in one schema, from files.

It reads JSON lines and log lines of barnabas, authorizer lines of Kafka 3.x and 4.x, all of them also compressed, and
the segments of the topic ``__access_audit`` as a node has them in its log directory. A line that can't be read becomes
a row with the line and the reason. Long uncompressed files are divided among partitions.

A stream reads each line once. It knows a file by its first line, so a log that is renamed when it is rolled is not
read again. A compressed file is read as a whole when it appears.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from zoneinfo import ZoneInfo

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from barnabas.pipelines.sources.audit_files import may_be_audit, segment_base
from barnabas.pipelines.sources.audit_rows import AUDIT_SCHEMA, AuditRows
from barnabas.pipelines.sources.errors import DamagedLog, InvalidOption, SourceUnavailable
from barnabas.pipelines.sources.log_batches import Damage, SegmentEnds, read_batches
from barnabas.pipelines.sources.source_options import SourceOptions
from barnabas.pipelines.sources.stored_files import FileStore, StoredFile
from barnabas.pipelines.sources.text_lines import (
    COMPRESSED,
    decompressed_lines,
    lines_between,
    whole_lines,
    whole_lines_end,
)
from barnabas.protocol.errors import DecodeError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["AccessAudit"]

NAME = "kafka-access-audit"
OPTIONS = ("path", "timeZone", "maxPartitionBytes", "onCorruption")
_SPLIT_BYTES: Final = 128 * 1024 * 1024
_FIRST_LINE_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Options:
    path: str
    file_system: Mapping[str, str]
    zone: tzinfo
    split_bytes: int
    refuses_corruption: bool

    @staticmethod
    def parse(values: Mapping[str, str]) -> _Options:
        options = SourceOptions(NAME, values, known=OPTIONS, prefixes=("fs.",))
        path = options.text("path")
        if path is None:
            raise InvalidOption(f"{NAME} needs a path: a file or a directory of audit lines")
        return _Options(
            path,
            options.with_prefix("fs."),
            _zone(options.text("timeZone")),
            options.number("maxPartitionBytes", default=_SPLIT_BYTES, minimum=1),
            options.choice("onCorruption", ("report", "refuse")) == "refuse",
        )

    def store(self) -> FileStore:
        return FileStore(self.path, self.file_system)


class AccessAudit(DataSource):
    """The data source. ``docs/analytics/sources.md`` documents options and columns."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        _Options.parse(self.options)
        return AUDIT_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _AuditReader(_Options.parse(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _AuditStreamReader(_Options.parse(self.options))


@dataclass
class _Part(InputPartition):
    """A range of a file, of positions in bytes (segments of a topic: offsets). ``end`` None: to the end."""

    file: StoredFile
    start: int = 0
    end: int | None = None


class _AuditReader(DataSourceReader):
    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        parts: list[InputPartition] = []
        for file in _audit_files(self._options.store()):
            if _is_whole_only(file):
                parts.append(_Part(file))
                continue
            step = self._options.split_bytes
            parts += [_Part(file, start, min(start + step, file.size)) for start in range(0, file.size, step)]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition, is_stream=False)


class _AuditStreamReader(DataSourceStreamReader):
    """The offset maps the key of each file to where its whole lines end."""

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._store = options.store()
        self._segment_ends = SegmentEnds(self._store)

    def initialOffset(self) -> dict[str, int]:
        return {}

    def latestOffset(self) -> dict[str, int]:
        return {key: self._end(file) for key, file in self._files_by_key().items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        files = self._files_by_key()
        parts = []
        for key, last in sorted(end.items()):
            first = int(start.get(key, 0))
            if int(last) <= first:
                continue
            if key not in files:
                raise SourceUnavailable(
                    f"{self._options.path}: the file known as {key} was removed before the stream had read it"
                )
            parts.append(_Part(files[key], first, int(last)))
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition, is_stream=True)

    def _end(self, file: StoredFile) -> int:
        if file.name.endswith(COMPRESSED):
            return file.size
        base_offset = segment_base(file.name)
        if base_offset is not None:
            return self._segment_ends.next_offset(file.path, file.size, base_offset)
        with self._store.open(file.path) as opened:
            return whole_lines_end(opened, file.size)

    def _files_by_key(self) -> dict[str, StoredFile]:
        found: dict[str, StoredFile] = {}
        for file in _audit_files(self._store):
            key = self._key(file)
            if key is not None and key in found:
                raise SourceUnavailable(
                    f"{found[key].path} and {file.path} begin with the same line, so a stream can't tell them apart: "
                    "remove the copy, or put it into another directory"
                )
            if key is not None:
                found[key] = file
        return found

    def _key(self, file: StoredFile) -> str | None:
        """Return what names the file after it was renamed; None if it has no whole line yet."""
        if _is_whole_only(file):
            return file.path
        with self._store.open(file.path) as opened:
            first, line_break, _ = opened.read(_FIRST_LINE_MAX).partition(b"\n")
        if not line_break and len(first) < _FIRST_LINE_MAX:
            return None
        folder = file.path.rpartition("/")[0]
        return f"{folder}#{hashlib.sha256(first).hexdigest()[:32]}"


def _audit_files(store: FileStore) -> list[StoredFile]:
    """Return the files to read. Raises SourceUnavailable if the path does not exist."""
    single = store.file(store.root)
    if single is not None:
        return [single]
    if not store.is_folder(store.root):
        raise SourceUnavailable(f"{store.root} does not exist: name a file or a directory of audit lines")
    return [file for file in store.files_below(store.root) if may_be_audit(file.name)]


def _is_whole_only(file: StoredFile) -> bool:
    return file.name.endswith(COMPRESSED) or segment_base(file.name) is not None


def _read(options: _Options, partition: InputPartition, *, is_stream: bool) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, _Part):
        raise TypeError(f"{partition!r} is not a partition of {NAME}")
    file, store = partition.file, options.store()
    rows = AuditRows(file.path, options.zone)
    base_offset = segment_base(file.name)
    with store.open(file.path) as opened:
        if base_offset is not None:
            yield from _read_segment(options, rows, opened, base_offset, partition)
        elif file.name.endswith(COMPRESSED):
            yield from _read_compressed(options, rows, opened, file)
        else:
            read = whole_lines if is_stream else lines_between
            end = file.size if partition.end is None else partition.end
            for position, line in read(opened, partition.start, end):
                yield from rows.add(position, line)
    yield from rows.rest()


def _read_compressed(
    options: _Options, rows: AuditRows, opened: BinaryIO, file: StoredFile
) -> Iterator[pa.RecordBatch]:
    position = 0
    try:
        for position, line in decompressed_lines(opened, file.name):
            yield from rows.add(position, line)
    except (OSError, EOFError, ValueError) as error:
        text = f"the file can't be decompressed after position {position}: {error}"
        _refuse_or_report(options, rows, file.path, position, text)


def _read_segment(
    options: _Options, rows: AuditRows, opened: BinaryIO, base_offset: int, part: _Part
) -> Iterator[pa.RecordBatch]:
    for found in read_batches(opened, base_offset, has_gaps=True):
        if isinstance(found, Damage):
            _refuse_or_report(options, rows, part.file.path, found.offset, found.text)
            continue
        if part.end is not None and found.base_offset >= part.end:
            return
        if found.is_control:
            continue
        try:
            for record in found.records():
                if record.offset >= part.start:
                    yield from rows.add(record.offset, record.value or b"")
        except DecodeError as error:
            _refuse_or_report(options, rows, part.file.path, found.base_offset, str(error))


def _refuse_or_report(options: _Options, rows: AuditRows, path: str, position: int, text: str) -> None:
    if options.refuses_corruption:
        raise DamagedLog(f"{path}: {text}. Set option onCorruption to report to read the rest.")
    rows.add_problem(position, text)


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidOption(f"{NAME}: option timeZone is {name!r}; it must be a name such as Europe/Berlin") from error
