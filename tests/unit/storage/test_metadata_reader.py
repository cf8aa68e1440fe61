"""Reading a node's metadata while it runs: which parts may be missing at the end, and which must not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.records.end_transaction_record import EndTransactionRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.storage.bootstrap_file import write_bootstrap_file
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.metadata_point_in_time import MomentNotKnown
from barnabas.storage.metadata_reader import Moment, read_metadata, read_records
from tests.unit.written_log import Log

VERSION = FeatureLevelRecord(name="metadata.version", feature_level=30)


def acl(number: int) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid.from_int(1000 + number), resource_type=2, resource_name=f"t{number}", pattern_type=3,
        principal="User:alice", host="*", operation=3, permission_type=3,
    )  # fmt: skip


def names(path: Path | str, **moment: int) -> list[str]:
    image = read_metadata(str(path), Moment(**moment) if moment else None).image
    return sorted(binding.name for binding in image.acls.by_id.values())


def test_a_log_without_a_snapshot_is_read_with_its_removals(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION)
    log.append(acl(1), acl(2))
    log.append(RemoveAccessControlEntryRecord(id=acl(1).id))
    found = read_metadata(str(tmp_path))
    assert (found.source, found.incomplete) == (log.log.directory, None)
    assert tuple(found.image.provenance) == (3, 1, 5, True)
    for path in (tmp_path, log.log.directory, log.path, f"{tmp_path}/"):
        assert names(path) == ["t2"]


def test_the_newest_snapshot_and_the_log_after_it_are_read(tmp_path: Path) -> None:
    log = Log(tmp_path, segment_bytes=200)
    log.append(VERSION)
    log.append(acl(1))
    log.snapshot([VERSION], offset=1)
    newest = log.snapshot([VERSION, acl(7)])
    log.append(acl(2), RemoveAccessControlEntryRecord(id=acl(7).id))
    log.append(acl(3))
    assert len(list(Path(log.log.directory).glob("*.log"))) > 1
    assert names(tmp_path) == ["t2", "t3"]
    assert names(newest) == ["t7"]
    assert read_metadata(str(newest)).image.offset == 1


def test_the_voters_checkpoint_does_not_count_as_a_snapshot(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.snapshot([], offset=0)
    log.append(VERSION, acl(1))
    assert names(tmp_path) == ["t1"]


def test_a_bootstrap_file_is_read(tmp_path: Path) -> None:
    records = [ApiMessageAndVersion(VERSION, 0)]
    write_bootstrap_file(str(tmp_path), records, serde=MetadataRecordSerde(), now_ms=1)
    image = read_metadata(str(tmp_path / "bootstrap.checkpoint")).image
    assert (image.features.level("metadata.version"), image.offset) == (30, -1)


def test_a_torn_tail_is_ignored_wherever_it_is_torn(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION, acl(1))
    whole = log.path.stat().st_size
    log.append(acl(2))
    data = log.path.read_bytes()
    for size in range(whole + 1, len(data)):
        log.path.write_bytes(data[:size])
        found = read_metadata(str(tmp_path))
        assert [b.name for b in found.image.acls.by_id.values()] == ["t1"]
        assert found.incomplete is not None
    broken = bytearray(data)
    broken[-3] ^= 1
    log.path.write_bytes(broken)
    assert names(tmp_path) == ["t1"]
    log.path.write_bytes(data + bytes(100))  # Preallocated space.
    assert names(tmp_path) == ["t1", "t2"]


def test_damage_in_the_middle_of_the_log_is_an_error(tmp_path: Path) -> None:
    log = Log(tmp_path, segment_bytes=150)
    log.append(VERSION)
    log.append(acl(1))
    log.append(acl(2))
    os.truncate(log.path, log.path.stat().st_size - 1)
    with pytest.raises(CorruptFileError, match="ends inside a batch"):
        read_metadata(str(tmp_path))


def test_a_log_without_its_beginning_needs_a_snapshot(tmp_path: Path) -> None:
    log = Log(tmp_path, segment_bytes=150)
    log.append(VERSION)
    log.append(acl(1))
    log.append(acl(2))
    log.path.unlink()
    with pytest.raises(StorageError, match="no snapshot covers earlier ones"):
        read_metadata(str(tmp_path))


def test_a_transaction_takes_effect_when_it_ends(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION, BeginTransactionRecord(name="x"), acl(1))
    log.append(acl(2))
    found = read_metadata(str(tmp_path))
    assert len(found.image.acls) == 0
    assert found.incomplete == "the transaction that began at offset 1 has not ended"
    log.append(EndTransactionRecord())
    assert names(tmp_path) == ["t1", "t2"]


def test_a_record_that_cannot_be_applied_is_named(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION, RemoveAccessControlEntryRecord(id=acl(1).id))
    with pytest.raises(CorruptFileError, match="record at offset 1 is invalid: no ACL has the id"):
        read_metadata(str(tmp_path))


def test_a_file_deleted_meanwhile_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path)
    log.append(VERSION, acl(1))
    old = log.snapshot([VERSION, acl(1)])
    log.append(acl(2))
    from barnabas.storage import metadata_reader

    listed = metadata_reader.list_snapshots  # type: ignore[attr-defined]

    def and_then_delete(directory: str) -> Any:
        found = listed(directory)
        old.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(metadata_reader, "list_snapshots", and_then_delete)
    assert names(tmp_path) == ["t1", "t2"]


def test_nothing_is_written(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION, acl(1))
    log.log.flush()
    with log.path.open("ab") as file:
        file.write(b"half a batch")
    before = {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in Path(log.log.directory).iterdir()}
    read_metadata(str(tmp_path))
    assert {
        path: (path.stat().st_size, path.stat().st_mtime_ns) for path in Path(log.log.directory).iterdir()
    } == before


def timed_log(folder: Path, **options: Any) -> Log:
    """Offset 0 at 1000 ms, 1 and 2 at 2000, 3 at 2000 too, 4 at 3500."""
    log = Log(folder, **options)
    log.append(VERSION, time_ms=1000)
    log.append(acl(1), acl(2), time_ms=2000)
    log.append(RemoveAccessControlEntryRecord(id=acl(1).id), time_ms=2000)
    log.append(acl(4), time_ms=3500)
    return log


STATES = [[], ["t1"], ["t1", "t2"], ["t2"], ["t2", "t4"]]


def test_the_state_after_every_offset_can_be_read(tmp_path: Path) -> None:
    timed_log(tmp_path, segment_bytes=200)
    for offset, expected in enumerate(STATES):
        found = read_metadata(str(tmp_path), Moment(offset=offset))
        assert names(tmp_path, offset=offset) == expected
        assert (found.image.offset, found.incomplete) == (offset, None)
        assert found.image.provenance.is_offset_batch_aligned == (offset != 1)


def test_the_state_at_every_time_can_be_read(tmp_path: Path) -> None:
    timed_log(tmp_path, segment_bytes=200)
    for time_ms, offset in [(1000, 0), (1999, 0), (2000, 3), (3499, 3), (3500, 4)]:
        assert read_metadata(str(tmp_path), Moment(time_ms=time_ms)).image.offset == offset
        assert names(tmp_path, time_ms=time_ms) == STATES[offset]


def test_an_unknown_offset_or_time_is_reported_with_the_known_range(tmp_path: Path) -> None:
    timed_log(tmp_path)
    known = r"it can show offsets 0 to 4 \(1970-01-01T00:00:01.000Z to 1970-01-01T00:00:03.500Z\)$"
    with pytest.raises(MomentNotKnown, match=f"__cluster_metadata-0 can't show offset 5: {known}"):
        names(tmp_path, offset=5)
    for time_ms, text in [(999, "1970-01-01T00:00:00.999Z"), (3501, "1970-01-01T00:00:03.501Z"), (10**18, "")]:
        with pytest.raises(MomentNotKnown, match=f"can't show {text}.*: {known}"):
            names(tmp_path, time_ms=time_ms)


def test_reading_starts_at_the_newest_earlier_snapshot(tmp_path: Path) -> None:
    log = timed_log(tmp_path, segment_bytes=200)
    log.snapshot([VERSION, acl(7)], offset=3, time_ms=2000)  # With a different state, to recognize its origin.
    log.snapshot([VERSION, acl(8)], offset=5, time_ms=3500)
    log.append(acl(5), time_ms=4000)
    assert [names(tmp_path, offset=offset) for offset in (1, 2, 4, 5)] == [["t1"], ["t7"], ["t8"], ["t5", "t8"]]
    assert [names(tmp_path, time_ms=time_ms) for time_ms in (1500, 3500, 4000)] == [[], ["t8"], ["t5", "t8"]]


def test_without_its_beginning_the_log_is_known_from_a_snapshot_on(tmp_path: Path) -> None:
    log = timed_log(tmp_path, segment_bytes=100)
    log.snapshot([VERSION], offset=1, time_ms=1000)
    log.snapshot([VERSION, acl(2)], offset=4, time_ms=2000)
    segments = sorted(Path(log.log.directory).glob("*.log"))
    for path in segments[:-2]:
        path.unlink()
    assert int(segments[-2].stem) == 3
    assert [names(tmp_path, offset=offset) for offset in (0, 3, 4)] == [[], ["t2"], ["t2", "t4"]]
    known = "it can show offset 0 .1970-01-01T00:00:01.000Z., and offsets 3 to 4 .1970-01-01T00:00:02.000Z to "
    for moment in (Moment(offset=1), Moment(offset=9), Moment(time_ms=1500), Moment(time_ms=10)):
        with pytest.raises(MomentNotKnown, match=known):
            read_metadata(str(tmp_path), moment)


def test_a_snapshot_file_shows_only_its_own_offset(tmp_path: Path) -> None:
    log = timed_log(tmp_path)
    path = log.snapshot([VERSION, acl(7)], time_ms=3500)
    assert names(path, offset=4) == names(path, time_ms=3500) == ["t7"]
    with pytest.raises(
        MomentNotKnown, match=r"can't show offset 3: it can show offset 4 \(1970-01-01T00:00:03.500Z\)$"
    ):
        names(path, offset=3)
    write_bootstrap_file(str(tmp_path), [ApiMessageAndVersion(VERSION, 0)], serde=MetadataRecordSerde(), now_ms=1)
    with pytest.raises(MomentNotKnown, match="it can show no moment"):
        names(tmp_path / "bootstrap.checkpoint", offset=0)


def test_a_transaction_open_at_that_offset_has_no_effect(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION, BeginTransactionRecord(name="x"), acl(1), EndTransactionRecord())
    assert names(tmp_path, offset=3) == ["t1"]
    found = read_metadata(str(tmp_path), Moment(offset=2))
    assert len(found.image.acls) == 0
    assert found.incomplete == "the transaction that began at offset 1 has not ended"


def test_an_empty_log_cannot_show_any_offset(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION)
    log.path.write_bytes(b"")
    with pytest.raises(MomentNotKnown, match="no moment"):
        names(tmp_path, offset=0)


def test_a_torn_tail_does_not_affect_earlier_offsets(tmp_path: Path) -> None:
    log = timed_log(tmp_path)
    os.truncate(log.path, log.path.stat().st_size - 1)
    found = read_metadata(str(tmp_path), Moment(offset=3))
    assert (found.image.offset, found.incomplete) == (3, None)
    with pytest.raises(MomentNotKnown, match="offsets 0 to 3 "):
        names(tmp_path, offset=4)


def test_records_after_a_snapshot_do_not_need_the_log_before_it(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION)
    log.append(acl(1))
    log.snapshot([VERSION, acl(1)])
    first = log.path.read_bytes()
    log.append(acl(2))
    second = Path(log.log.directory) / f"{2:020d}.log"
    second.write_bytes(log.path.read_bytes()[len(first) :])
    log.path.write_bytes(first[:-1] + b"\7")
    found = read_records(str(tmp_path), (AccessControlEntryRecord,), since=Moment(1))
    assert (found.image.offset, [record.offset for record in found.records]) == (1, [2])


def test_a_missing_segment_is_not_passed_over(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION)
    size = log.path.stat().st_size
    log.append(acl(1))
    kept = log.path.stat().st_size
    log.append(acl(2))
    data = log.path.read_bytes()
    log.path.write_bytes(data[:size])
    (Path(log.log.directory) / f"{2:020d}.log").write_bytes(data[kept:])
    for read in (read_metadata, lambda path: read_records(path, (AccessControlEntryRecord,))):
        with pytest.raises(CorruptFileError, match="offsets 1 to 1 are missing before it"):
            read(str(tmp_path))


def test_records_that_took_effect_are_read_with_the_state_before_them(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.append(VERSION)
    log.append(acl(1), acl(2))
    log.append(BeginTransactionRecord(name="t"), acl(3))
    log.append(acl(4), EndTransactionRecord(), RemoveAccessControlEntryRecord(id=acl(1).id))
    found = read_records(str(tmp_path), (AccessControlEntryRecord, RemoveAccessControlEntryRecord))
    assert (found.image.offset, found.incomplete) == (-1, None)
    assert [(record.change, record.effective_offset, record.offset) for record in found.records] == [
        (1, 1, 1), (1, 2, 2), (5, 6, 4), (5, 6, 5), (5, 7, 7)
    ]  # fmt: skip
    until = read_records(str(log.path), (AccessControlEntryRecord,), until=Moment(5))
    assert [record.offset for record in until.records] == [1, 2]
    with pytest.raises(MomentNotKnown):
        read_records(str(tmp_path), (AccessControlEntryRecord,), since=Moment(99))
