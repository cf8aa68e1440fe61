"""``spark.read.format("kraft-metadata")``: the metadata log of a KRaft cluster, from files.

A batch read has a partition for each segment and snapshot. A stream reads each offset of the log once, up to the last
whole batch; its offset is the next offset of the log. Both stop at the last batch that is whole: what a running node
has not written completely yet is left for later.

The files of one node don't say what the quorum has committed. If it has several controllers, the last records may be
replaced; a log that has become shorter than what a stream has read ends the stream with an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from barnabas.pipelines.sources.errors import DamagedLog, InvalidOption, SourceUnavailable
from barnabas.pipelines.sources.log_batches import Damage, DamageKind, SegmentEnds, read_batches
from barnabas.pipelines.sources.log_layout import LogFiles, SegmentFile, SnapshotFile, find_log, needed_snapshot
from barnabas.pipelines.sources.metadata_rows import MetadataRows, RowOptions, metadata_schema
from barnabas.pipelines.sources.record_types import parse_types
from barnabas.pipelines.sources.source_options import SourceOptions
from barnabas.pipelines.sources.stored_files import FileStore
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["KraftMetadata"]

NAME = "kraft-metadata"
OPTIONS = (
    "path",
    "snapshots",
    "types",
    "recordFormat",
    "raw",
    "showSecrets",
    "onCorruption",
    "onTornTail",
    "startingOffset",
)
_BEFORE_THE_LOG = -1
"""The offset of a stream that has not read the snapshot from which the log continues."""


@dataclass(frozen=True, slots=True)
class _Options:
    path: str
    file_system: Mapping[str, str]
    rows: RowOptions
    snapshots: str
    refuses_corruption: bool
    refuses_torn_tail: bool
    starting_offset: str

    @staticmethod
    def parse(values: Mapping[str, str]) -> _Options:
        options = SourceOptions(NAME, values, known=OPTIONS, prefixes=("fs.",))
        path = options.text("path")
        if path is None:
            raise InvalidOption(f"{NAME} needs a path: the directory of a metadata log, or one of its files")
        starting = options.text("startingOffset") or "earliest"
        if starting not in ("earliest", "latest") and not (starting.isascii() and starting.isdigit()):
            raise InvalidOption(
                f"{NAME}: option startingOffset is {starting!r}; it must be earliest, latest or a number"
            )
        return _Options(
            path,
            options.with_prefix("fs."),
            RowOptions(
                parse_types(options.names("types")),
                options.choice("recordFormat", ("json", "struct")) == "struct",
                options.flag("raw", default=True),
                options.flag("showSecrets", default=False),
            ),
            options.choice("snapshots", ("needed", "all", "none")),
            options.choice("onCorruption", ("refuse", "report")) == "refuse",
            options.choice("onTornTail", ("report", "refuse")) == "refuse",
            starting,
        )

    def store(self) -> FileStore:
        return FileStore(self.path, self.file_system)


class KraftMetadata(DataSource):
    """The data source. ``docs/analytics/sources.md`` documents options and columns."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return metadata_schema(_Options.parse(self.options).rows)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _FilesReader(_Options.parse(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _FilesStreamReader(_Options.parse(self.options))


@dataclass
class _SegmentPart(InputPartition):
    """The batches of a segment from offset ``start`` to ``end`` (exclusive; None: to its end)."""

    segment: SegmentFile
    start: int = 0
    end: int | None = None


@dataclass
class _SnapshotPart(InputPartition):
    snapshot: SnapshotFile


class _FilesReader(DataSourceReader):
    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        files = find_log(self._options.store())
        return [
            *map(_SnapshotPart, _snapshots(files, self._options.snapshots)),
            *(_SegmentPart(segment, segment.base_offset) for segment in files.segments),
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class _FilesStreamReader(DataSourceStreamReader):
    def __init__(self, options: _Options) -> None:
        self._options = options
        self._store = options.store()
        self._ends = SegmentEnds(self._store)

    def initialOffset(self) -> dict[str, int]:
        starting = self._options.starting_offset
        if starting == "latest":
            return self.latestOffset()
        files = find_log(self._store)
        first = files.segments[0].base_offset if files.segments else 0
        if starting == "earliest":
            needs_snapshot = self._options.snapshots != "none" and needed_snapshot(files) is not None
            return {"offset": _BEFORE_THE_LOG if needs_snapshot else first}
        if int(starting) < first:
            raise SourceUnavailable(
                f"{files.folder}: the log begins at offset {first}, after startingOffset {starting}"
            )
        return {"offset": int(starting)}

    def latestOffset(self) -> dict[str, int]:
        files = find_log(self._store)
        if not files.segments:
            return {"offset": files.snapshots[-1].end_offset}
        last = files.segments[-1]
        return {"offset": self._ends.next_offset(last.path, last.size, last.base_offset)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = int(start["offset"]), int(end["offset"])
        files = find_log(self._store)
        parts: list[InputPartition] = []
        if first == _BEFORE_THE_LOG:
            snapshot = needed_snapshot(files)
            if snapshot is None or snapshot.end_offset > last:
                raise SourceUnavailable(f"{files.folder} no longer has a snapshot from before offset {last}")
            parts, first = [_SnapshotPart(snapshot)], snapshot.end_offset
        if last < first:
            raise SourceUnavailable(
                f"{files.folder}: the log ends at offset {last}, but the stream has read to {first}: records that were "
                "not committed have been replaced. Start the stream again with a new checkpoint."
            )
        inside = [
            segment
            for segment in files.segments
            if segment.base_offset < last and (segment.next_base is None or segment.next_base > first)
        ]
        if first == last:
            return parts
        if not inside or inside[0].base_offset > first:
            raise SourceUnavailable(f"{files.folder} no longer has offset {first}, which the stream has not read")
        return [*parts, *(_SegmentPart(segment, first, last) for segment in inside)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


def _snapshots(files: LogFiles, choice: str) -> Sequence[SnapshotFile]:
    if choice == "all":
        return files.snapshots
    snapshot = needed_snapshot(files) if choice == "needed" else None
    return [] if snapshot is None else [snapshot]


def _read(options: _Options, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, _SnapshotPart):
        return _read_snapshot(options, partition.snapshot)
    if isinstance(partition, _SegmentPart):
        return _read_segment(options, partition)
    raise TypeError(f"{partition!r} is not a partition of {NAME}")


def _read_segment(options: _Options, part: _SegmentPart) -> Iterator[pa.RecordBatch]:
    segment = part.segment
    rows = MetadataRows(options.rows, file=segment.path)
    next_offset = segment.base_offset
    is_whole = True
    with options.store().open(segment.path) as file:
        for found in read_batches(file, segment.base_offset):
            if part.end is not None and next_offset >= part.end:
                break
            if isinstance(found, Damage):
                _take_damage(options, rows, segment.path, found, is_last=segment.next_base is None)
                is_whole = False
                continue
            next_offset = found.next_offset
            if found.last_offset >= part.start:
                yield from _take_batch(options, rows, segment.path, found, start=part.start)
    if is_whole and segment.next_base is not None and next_offset < segment.next_base and _is_within(part, next_offset):
        text = f"offsets {next_offset} to {segment.next_base - 1} are missing"
        damage = Damage(DamageKind.CORRUPT, next_offset, segment.size, text)
        _take_damage(options, rows, segment.path, damage, is_last=False)
    yield from rows.rest()


def _is_within(part: _SegmentPart, offset: int) -> bool:
    return part.end is None or offset < part.end


def _read_snapshot(options: _Options, snapshot: SnapshotFile) -> Iterator[pa.RecordBatch]:
    rows = MetadataRows(options.rows, file=snapshot.path, snapshot_offset=snapshot.end_offset)
    has_footer = False
    with options.store().open(snapshot.path) as file:
        for found in read_batches(file, 0):
            if isinstance(found, Damage):
                _take_damage(options, rows, snapshot.path, found, is_last=False)
                has_footer = True  # Its absence is not a second problem.
                continue
            has_footer = found.is_control and found.base_offset > 0
            yield from _take_batch(options, rows, snapshot.path, found)
    if not has_footer:
        damage = Damage(DamageKind.CORRUPT, 0, snapshot.size, "the snapshot does not end with a footer")
        _take_damage(options, rows, snapshot.path, damage, is_last=False)
    yield from rows.rest()


def _take_batch(
    options: _Options, rows: MetadataRows, path: str, batch: BatchView, *, start: int = 0
) -> Iterator[pa.RecordBatch]:
    try:
        yield from rows.add_batch(batch, start=start, refuse=options.refuses_corruption)
    except DecodeError as error:
        damage = Damage(DamageKind.CORRUPT, batch.base_offset, 0, str(error))
        _take_damage(options, rows, path, damage, is_last=False)


def _take_damage(options: _Options, rows: MetadataRows, path: str, damage: Damage, *, is_last: bool) -> None:
    """Add a row with the problem, or raise DamagedLog. A torn end is damage unless it is the end of the log."""
    is_torn_tail = is_last and damage.kind is DamageKind.TORN
    if options.refuses_torn_tail if is_torn_tail else options.refuses_corruption:
        option = "onTornTail" if is_torn_tail else "onCorruption"
        raise DamagedLog(
            f"{path}: from offset {damage.offset}: {damage.text}. "
            f"Set option {option} to report to read the rest, with a row for what is damaged."
        )
    rows.add_damage(damage)
