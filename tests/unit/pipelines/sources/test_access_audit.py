"""Files of audits: every line once, however they are divided, compressed or rolled."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from barnabas.pipelines.sources import text_lines
from barnabas.pipelines.sources.access_audit import AccessAudit
from barnabas.pipelines.sources.audit_files import local_decisions
from barnabas.pipelines.sources.errors import DamagedLog, InvalidOption, SourceUnavailable
from barnabas.pipelines.sources.log_batches import SegmentEnds
from barnabas.pipelines.sources.stored_files import FileStore
from barnabas.protocol.compression import Compression
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.unit.pipelines.sources.read_source import read_partitions, read_rows


def line(number: int, *, name: str = "orders") -> str:
    return (
        f"[2026-01-31 12:30:00,{number % 1000:03d}] INFO Principal = User:u{number} is Denied operation = READ "
        f"from host = 10.0.0.7 on resource = Topic:LITERAL:{name} for request = Fetch with resourceRefCount = 1 "
        "based on rule DefaultDeny (kafka.authorizer.logger)\n"
    )


def principals(rows: list[dict[str, Any]]) -> list[str]:
    return [row["principal"] for row in rows if row["problem"] is None]


def decided(count: int) -> list[str]:
    return [f"User:u{number}" for number in range(count)]


@pytest.mark.parametrize("size", [1, 7, 250, 251, 1_000_000])
def test_ranges_of_a_file_have_each_line_once(tmp_path: Path, size: int) -> None:
    (tmp_path / "authorizer.log").write_text("".join(map(line, range(4))).rstrip("\n"))
    rows = read_rows(AccessAudit, path=tmp_path, maxPartitionBytes=size)
    assert principals(rows) == decided(4)
    assert len({row["position"] for row in rows}) == 4


def test_lines_that_cannot_be_read_are_kept_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(line(0).encode() + b"\n\xff\xfe trace\n" + line(1).encode())
    rows = read_rows(AccessAudit, path=tmp_path)
    assert principals(rows) == decided(2)
    (kept,) = [row for row in rows if row["problem"]]
    assert (kept["line"], kept["kind"], kept["principal"]) == ("\ufffd\ufffd trace", None, None)
    assert kept["position"] == len(line(0)) + 1


def test_a_line_of_any_length_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "LINE_MAX", 1000)
    monkeypatch.setattr(text_lines, "_CHUNK", 64)
    (tmp_path / "a.log").write_text("x" * 5000 + "\n" + line(0))
    rows = read_rows(AccessAudit, path=tmp_path)
    assert principals(rows) == decided(1)
    assert max(len(row["line"] or "") for row in rows) <= 1000


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zstd)]
)
def test_compressed_files_are_read_and_damaged_ones_reported(tmp_path: Path, suffix: str, compress: Any) -> None:
    data = compress("".join(map(line, range(3000))).encode())
    path = tmp_path / f"a.log{suffix}"
    path.write_bytes(data)
    assert principals(read_rows(AccessAudit, path=path)) == decided(3000)
    path.write_bytes(data[: len(data) // 2])
    rows = read_rows(AccessAudit, path=path)
    assert "can't be decompressed" in rows[-1]["problem"]
    with pytest.raises(DamagedLog, match="onCorruption"):
        read_rows(AccessAudit, path=path, onCorruption="refuse")


@pytest.mark.parametrize(
    ("suffix", "compress", "position"),
    [(".gz", gzip.compress, 200), (".bz2", bz2.compress, 200), (".xz", lzma.compress, 200)],
)
def test_damage_inside_a_compressed_file_is_reported(tmp_path: Path, suffix: str, compress: Any, position: int) -> None:
    data = bytearray(compress("".join(map(line, range(3000))).encode()))
    data[position : position + 40] = b"\xff" * 40
    path = tmp_path / f"a.log{suffix}"
    path.write_bytes(data)
    assert "can't be decompressed" in read_rows(AccessAudit, path=path)[-1]["problem"]
    assert "can't be read to its end" in str(list(local_decisions(str(path)))[-1])


def test_the_segments_of_the_topic_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "__access_audit-0"
    folder.mkdir()
    events = [
        b'{"version":1,"type":"decision","node_id":1,"last_ms":%d,"decisions":2,"allowed":true,"principal":"User:u%d",'
        b'"operation":"READ","resource_type":"TOPIC","resource_name":"t"}' % (number, number)
        for number in range(3)
    ]
    batch = build_batch(
        [Record(40 + number, number, None, event) for number, event in enumerate(events)],
        base_offset=40,
        compression=Compression.LZ4,
    )
    (folder / f"{40:020d}.log").write_bytes(batch + batch[:50])
    (folder / f"{40:020d}.index").write_bytes(b"\0" * 8)
    (folder / "leader-epoch-checkpoint").write_text("0\n")
    rows = read_rows(AccessAudit, path=tmp_path)
    assert principals(rows) == decided(3)
    assert [row["position"] for row in rows] == [40, 41, 42, 43]
    assert "ends inside a batch" in rows[3]["problem"]


def audit_batch(offset: int) -> bytes:
    event = (
        b'{"version":1,"type":"decision","last_ms":1,"decisions":1,"allowed":true,"principal":"User:u%d",'
        b'"operation":"READ","resource_type":"TOPIC","resource_name":"t"}' % offset
    )
    return build_batch([Record(offset, 1, None, event)], base_offset=offset)


def test_a_stream_of_segments_has_each_record_once_also_after_a_gap(tmp_path: Path) -> None:
    """Compaction leaves gaps."""
    segment = tmp_path / f"{0:020d}.log"
    source = AccessAudit({"path": str(tmp_path)})
    reader: Any = source.streamReader(source.schema())
    start, found = reader.initialOffset(), []
    data = b""
    for offset in (0, 1, 5):
        data += audit_batch(offset)
        segment.write_bytes(data + audit_batch(6)[:70])
        end = reader.latestOffset()
        found += principals(read_partitions(reader, reader.partitions(start, end)))
        start = end
    assert found == ["User:u0", "User:u1", "User:u5"]


def test_a_stream_reads_each_line_once_while_the_log_grows_and_rolls(tmp_path: Path) -> None:
    log = tmp_path / "kafka-authorizer.log"
    log.write_text(line(0) + line(1)[:30])
    source = AccessAudit({"path": str(tmp_path)})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    found: list[str] = []

    def advance(reader: Any) -> None:
        nonlocal start
        end = reader.latestOffset()
        found.extend(principals(read_partitions(reader, reader.partitions(start, end))))
        start = end

    advance(reader)
    assert found == decided(1)
    with log.open("a") as file:
        file.write(line(1)[30:] + line(2))
    advance(reader)
    log.rename(tmp_path / "kafka-authorizer.log.2026-01-31-12")
    log.write_text(line(3))
    (tmp_path / "old.log.gz").write_bytes(gzip.compress(line(4).encode()))
    advance(source.streamReader(source.schema()))
    advance(reader)
    assert sorted(found) == decided(5)


def test_a_file_that_vanishes_before_it_was_read_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(line(0))
    source = AccessAudit({"path": str(tmp_path)})
    reader = source.streamReader(source.schema())
    end = reader.latestOffset()
    log.unlink()
    with pytest.raises(SourceUnavailable, match="was removed before"):
        reader.partitions({}, end)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a path"),
        ({"path": "x", "timezone": "Mars/Base"}, "timeZone is 'Mars/Base'"),
        ({"path": "x", "timezon": "UTC"}, "did you mean timeZone"),
        ({"path": "x", "maxpartitionbytes": "0"}, "a number from 1"),
        ({"path": "ftp://x"}, "has the scheme ftp"),
        ({"path": "x", "fs.region": "y"}, "options that begin with fs."),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        read_rows(AccessAudit, **{name.replace(".", "__"): value for name, value in options.items()})


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="does not exist"):
        read_rows(AccessAudit, path=tmp_path / "none")


def test_the_end_of_a_segment_is_not_searched_from_its_beginning_each_time(tmp_path: Path) -> None:
    class CountingStore(FileStore):
        opened = 0

        def open(self, path: str) -> BinaryIO:
            CountingStore.opened += 1
            return super().open(path)

    path = tmp_path / f"{0:020d}.log"
    ends = SegmentEnds(CountingStore(str(tmp_path), {}))
    data = audit_batch(0) + audit_batch(1)
    found = []
    for written in (data, data, data + audit_batch(2), data[:-1]):
        path.write_bytes(written)
        found.append((ends.next_offset(str(path), len(written), 0), CountingStore.opened))
    assert found == [(2, 1), (2, 1), (3, 2), (1, 3)]


def test_a_store_that_refuses_is_named_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def get_file_info(self, path: str) -> Any:
            raise OSError(f"AWS Error ACCESS_DENIED for {path}")

    store = FileStore(str(tmp_path), {})
    monkeypatch.setattr(store, "_files", Refusing())
    for ask in (store.file, store.is_folder):
        with pytest.raises(SourceUnavailable, match=f"{tmp_path} can't be read: AWS Error ACCESS_DENIED"):
            ask(store.root)
