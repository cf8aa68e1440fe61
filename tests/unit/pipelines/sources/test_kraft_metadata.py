"""The metadata log as rows: whole, cut at every byte, damaged, with snapshots, and as a stream."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.pipelines.sources.errors import DamagedLog, InvalidOption, SourceUnavailable
from barnabas.pipelines.sources.kraft_metadata import KraftMetadata
from barnabas.pipelines.sources.record_types import known_types
from barnabas.protocol.record_batch import BATCH_HEADER_SIZE, Record, iter_batches
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.record_serde import encode_metadata_record
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from tests.unit.pipelines.sources.read_source import read_partitions, read_rows
from tests.unit.written_log import Log


def acl(number: int) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid.from_int(1000 + number), resource_type=2, resource_name=f"t{number}", pattern_type=3,
        principal="User:alice", host="*", operation=3, permission_type=3,
    )  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Log:
    written = Log(tmp_path)
    written.append(acl(0), acl(1), time_ms=1_700_000_000_123)
    written.append(NoOpRecord())
    written.append(RemoveAccessControlEntryRecord(id=acl(0).id))
    return written


def read(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    return read_rows(KraftMetadata, path=path, **options)


def test_each_record_is_a_row_with_its_place_and_fields(log: Log, tmp_path: Path) -> None:
    rows = read(tmp_path)
    assert [(row["offset"], row["epoch"], row["type"], row["version"]) for row in rows] == [
        (0, 1, "AccessControlEntryRecord", 0),
        (1, 1, "AccessControlEntryRecord", 0),
        (2, 1, "NoOpRecord", 0),
        (3, 1, "RemoveAccessControlEntryRecord", 0),
    ]
    first = rows[0]
    assert first["timestamp"].timestamp() == 1_700_000_000.123
    assert json.loads(first["record"])["resourceName"] == "t0"
    assert json.loads(first["record"])["id"] == str(acl(0).id)
    assert first["raw"][:3] == b"\x01\x12\x00"
    assert (first["problem"], first["file"], first["snapshot_offset"]) == (None, str(log.path), None)
    assert read(log.log.directory) == read(log.path) == read(f"file://{tmp_path}/") == rows


def test_a_record_can_be_a_typed_struct(log: Log, tmp_path: Path) -> None:
    rows = read(tmp_path, recordFormat="struct", types="AccessControlEntry, removeAccessControlEntryRecord", raw=False)
    assert [row["offset"] for row in rows] == [0, 1, 3]
    assert list(rows[0]["record"]) == ["AccessControlEntryRecord", "RemoveAccessControlEntryRecord"]
    assert rows[1]["record"]["AccessControlEntryRecord"]["principal"] == "User:alice"
    assert rows[1]["record"]["RemoveAccessControlEntryRecord"] is None
    assert rows[2]["record"]["RemoveAccessControlEntryRecord"] == {"id": str(acl(0).id)}
    assert {row["raw"] for row in rows} == {None}


def test_structs_hold_arrays_uuids_and_nested_fields(tmp_path: Path) -> None:
    written = Log(tmp_path)
    written.append(PartitionRecord(partition_id=3, topic_id=Uuid.from_int(7), replicas=[1, 2], isr=[1]))
    (row,) = read(tmp_path, recordFormat="struct")
    partition = row["record"]["PartitionRecord"]
    assert (partition["partitionId"], partition["replicas"], partition["isr"]) == (3, [1, 2], [1])
    assert partition["topicId"] == str(Uuid.from_int(7))
    assert set(row["record"]) == set(known_types())
    written.append(NoOpRecord())
    assert read(tmp_path, recordFormat="struct")[1]["record"]["NoOpRecord"] is True


def test_secrets_are_hidden_unless_they_are_requested(tmp_path: Path) -> None:
    written = Log(tmp_path)
    scram = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"salt", stored_key=b"key", server_key=b"server", iterations=4096
    )
    password = ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="geheim")
    harmless = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="77")
    written.append(scram, password, harmless)
    for form in ("json", "struct"):
        hidden = read(tmp_path, recordFormat=form)
        assert [row["raw"] is None for row in hidden] == [True, True, False]
        text = repr([row["record"] for row in hidden])
        assert "geheim" not in text
        assert "salt'" not in text.replace("'salt'", "") or form == "json"
        assert base64.b64encode(b"key").decode() not in text
        assert "77" in text
        assert "4096" in text
    shown = read(tmp_path, showSecrets=True)
    assert json.loads(shown[0]["record"])["storedKey"] == base64.b64encode(b"key").decode()
    assert json.loads(shown[1]["record"])["value"] == "geheim"
    assert None not in [row["raw"] for row in shown]


def test_the_bytes_of_a_credential_that_cannot_be_decoded_are_hidden(tmp_path: Path) -> None:
    value = encode_metadata_record(
        UserScramCredentialRecord(
            name="alice", mechanism=1, salt=b"salt", stored_key=b"key", server_key=b"server", iterations=4096
        ),
        0,
    )
    longer = value + b"\0"
    config = encode_metadata_record(ConfigRecord(resource_type=4, resource_name="1", name="x", value="geheim"), 0)
    topic = b"\x01\x02\x7f"
    values = [longer, value[:-1], config[:-1], topic]
    records = [Record(number, 5, None, damaged) for number, damaged in enumerate(values)]
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch(records, base_offset=0))
    rows = read(path, onCorruption="report")
    assert ["can't be decoded" in str(row["problem"]) for row in rows] == [True] * 4
    assert [row["raw"] for row in rows] == [None, None, None, topic]
    shown = read(path, onCorruption="report", showSecrets=True)
    assert [row["raw"] for row in shown] == values


def test_a_log_cut_at_any_byte_is_read_to_its_last_whole_batch(log: Log, tmp_path: Path) -> None:
    data = log.path.read_bytes()
    ends = [batch.position + batch.size for batch in iter_batches(data)]
    counts = {0: 0, **{end: batch.last_offset + 1 for end, batch in zip(ends, iter_batches(data), strict=True)}}
    copy = tmp_path / "copy"
    copy.mkdir()
    for size in range(len(data)):
        (copy / log.path.name).write_bytes(data[:size])
        rows = read(copy) if size else []
        whole = max(end for end in counts if end <= size)
        assert len([row for row in rows if row["problem"] is None]) == counts[whole]
        assert [row["offset"] for row in rows if row["problem"]] == ([] if size == whole else [counts[whole]])
    with pytest.raises(DamagedLog, match="onTornTail to report"):
        read(copy, onTornTail="refuse")


def test_preallocated_zeros_are_a_torn_tail(log: Log, tmp_path: Path) -> None:
    log.path.write_bytes(log.path.read_bytes() + bytes(5000))
    assert [row["offset"] for row in read(tmp_path) if row["problem"]] == [4]


def test_a_damaged_batch_is_refused_or_passed_over(log: Log, tmp_path: Path) -> None:
    data = bytearray(log.path.read_bytes())
    data[BATCH_HEADER_SIZE + 5] ^= 1
    log.path.write_bytes(data)
    with pytest.raises(DamagedLog, match="from offset 0: record batch is corrupt"):
        read(tmp_path)
    rows = read(tmp_path, onCorruption="report")
    assert [(row["offset"], row["problem"] is None) for row in rows] == [(0, False), (2, True), (3, True)]


@pytest.mark.parametrize("position", [8, 16])
def test_after_an_impossible_header_nothing_can_be_found(log: Log, tmp_path: Path, position: int) -> None:
    data = bytearray(log.path.read_bytes())
    second = next(iter_batches(bytes(data))).size
    data[second + position] = 0x7F
    log.path.write_bytes(data)
    with pytest.raises(DamagedLog):
        read(tmp_path)
    rows = read(tmp_path, onCorruption="report")
    assert [row["offset"] for row in rows][:3] == [0, 1, 2]
    assert rows[2]["problem"] is not None


def test_a_record_of_an_unknown_type_is_kept_as_bytes(tmp_path: Path) -> None:
    written = Log(tmp_path)
    written.append(NoOpRecord())
    data = bytearray(written.path.read_bytes())
    place = data.rindex(b"\x01\x14\x00")
    data[place + 1] = 99
    written.path.write_bytes(_with_checksum(data))
    with pytest.raises(DamagedLog, match="unknown metadata record type 99"):
        read(tmp_path)
    (row,) = read(tmp_path, onCorruption="report")
    assert (row["offset"], row["type"], row["raw"][:2]) == (0, None, b"\x01\x63")
    assert "unknown metadata record type 99" in row["problem"]


def _with_checksum(data: bytearray) -> bytes:
    from barnabas.common.crc32c import crc32c

    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


def test_a_missing_segment_is_damage(log: Log, tmp_path: Path) -> None:
    folder = Path(log.log.directory)
    (folder / f"{9:020d}.log").write_bytes(b"")
    with pytest.raises(DamagedLog, match="offsets 4 to 8 are missing"):
        read(tmp_path)
    assert [row["offset"] for row in read(tmp_path, onCorruption="report")] == [0, 1, 2, 3, 4]


def test_a_log_that_begins_later_starts_with_its_snapshot(log: Log, tmp_path: Path) -> None:
    path = log.snapshot([acl(1)], time_ms=77)
    log.append(acl(2))
    folder = tmp_path / "rolled"
    folder.mkdir()
    (folder / path.name).write_bytes(path.read_bytes())
    tail = b"".join(batch.tobytes() for batch in iter_batches(log.path.read_bytes()) if batch.base_offset >= 4)
    (folder / f"{4:020d}.log").write_bytes(tail)
    rows = read(folder, types="SnapshotHeaderRecord,AccessControlEntryRecord")
    assert [(row["snapshot_offset"], row["offset"]) for row in rows] == [(4, 0), (4, 1), (None, 4)]
    assert json.loads(rows[0]["record"])["lastContainedLogTimestamp"] == 77
    assert [row["snapshot_offset"] for row in read(folder, snapshots="none")] == [None]
    assert {row["snapshot_offset"] for row in read(tmp_path)} == {None}
    assert {row["snapshot_offset"] for row in read(tmp_path, snapshots="all")} == {None, 4}
    (folder / path.name).unlink()
    with pytest.raises(SourceUnavailable, match="begins at offset 4, and no snapshot"):
        read(folder)


def test_a_snapshot_without_its_end_is_damage(log: Log) -> None:
    path = log.snapshot([acl(1)])
    data = path.read_bytes()
    *_, footer = iter_batches(data)
    path.chmod(0o600)
    path.write_bytes(data[: footer.position])
    with pytest.raises(DamagedLog, match="does not end with a footer"):
        read(path)


def stream(path: Path, **options: str) -> Any:
    source = KraftMetadata({"path": str(path), **options})
    return source.streamReader(source.schema())


def test_a_stream_has_each_offset_once_while_the_log_grows_and_restarts(log: Log, tmp_path: Path) -> None:
    reader = stream(tmp_path)
    start = reader.initialOffset()
    offsets: list[int] = []
    for number in range(6):
        log.append(acl(10 + number), acl(20 + number))
        if number % 2:
            reader = stream(tmp_path)
        end = reader.latestOffset()
        offsets += [row["offset"] for row in read_partitions(reader, reader.partitions(start, end))]
        assert reader.partitions(end, end) == []
        start = end
    assert offsets == list(range(16))


def test_a_batch_that_is_being_written_is_left_for_later(log: Log, tmp_path: Path) -> None:
    data = log.path.read_bytes()
    reader = stream(tmp_path)
    seen = []
    for size in range(len(data) + 1):
        log.path.write_bytes(data[:size])
        seen.append(reader.latestOffset()["offset"])
    assert sorted(set(seen)) == [0, 2, 3, 4]
    assert seen == sorted(seen)
    log.path.write_bytes(data[:-1] + b"\7")
    assert stream(tmp_path).latestOffset() == {"offset": 3}


def test_a_stream_begins_with_the_snapshot_or_where_it_is_told(log: Log, tmp_path: Path) -> None:
    assert stream(tmp_path, startingOffset="latest").initialOffset() == {"offset": 4}
    reader = stream(tmp_path, startingOffset="1")
    rows = read_partitions(reader, reader.partitions(reader.initialOffset(), {"offset": 3}))
    assert [row["offset"] for row in rows] == [1, 2]
    path = log.snapshot([acl(1)])
    log.append(acl(2))
    tail = b"".join(batch.tobytes() for batch in iter_batches(log.path.read_bytes()) if batch.base_offset >= 4)
    folder = tmp_path / "rolled"
    folder.mkdir()
    (folder / path.name).write_bytes(path.read_bytes())
    (folder / f"{4:020d}.log").write_bytes(tail)
    reader = stream(folder)
    assert reader.initialOffset() == {"offset": -1}
    rows = read_partitions(reader, reader.partitions({"offset": -1}, reader.latestOffset()))
    assert [(row["snapshot_offset"], row["offset"]) for row in rows if row["type"] == "AccessControlEntryRecord"] == [
        (4, 1), (None, 4)
    ]  # fmt: skip
    with pytest.raises(SourceUnavailable, match="begins at offset 4, after startingOffset 2"):
        stream(folder, startingOffset="2").initialOffset()
    with pytest.raises(SourceUnavailable, match="no longer has offset 2"):
        reader.partitions({"offset": 2}, {"offset": 5})
    with pytest.raises(SourceUnavailable, match="have been replaced"):
        reader.partitions({"offset": 9}, {"offset": 5})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a path"),
        ({"path": "x", "type": "NoOp"}, "did you mean types"),
        ({"path": "x", "types": "AccessControl"}, "did you mean AccessControlEntryRecord"),
        ({"path": "x", "onTornTail": "ignore"}, "must be one of report, refuse"),
        ({"path": "x", "startingOffset": "-3"}, "earliest, latest or a number"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        read_rows(KraftMetadata, **options)


def test_a_directory_without_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="holds no metadata log"):
        read(tmp_path)
    with pytest.raises(SourceUnavailable, match="does not exist"):
        read(tmp_path / "none")
