"""The state of a log after a crash, and how start-up handles it."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.record_batch import Record, iter_batches
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.segment import Segment, segment_path
from tests.unit.storage.log_driver import (
    NOW_MS,
    all_records,
    append,
    batch,
    config,
    killed,
    new_log,
    offsets_and_values,
    reload,
)

SMALL = config(segment_bytes=1000, index_interval_bytes=200)
COMPACTED = config(segment_bytes=1000, index_interval_bytes=200, cleanup_policy="compact")


def filled(path: Path, count: int = 30) -> PartitionLog:
    log = new_log(path, SMALL)
    for index in range(count):
        append(log, batch(b"value %d" % index, timestamp=NOW_MS + index), epoch=index // 10)
    return log


def index_contents(log: PartitionLog) -> list[tuple[bytes, bytes]]:
    return [(bytes(segment.offset_index.entries), bytes(segment.time_index.entries)) for segment in log.segments]


def test_every_appended_record_survives_a_kill(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    recovered, truncation = reload(killed(log, tmp_path / "copy"), SMALL)
    assert truncation is None
    assert offsets_and_values(recovered) == offsets_and_values(log)
    assert recovered.epochs.entries == [(0, 0), (1, 10), (2, 20)]
    assert recovered.topic_id == log.topic_id


def test_after_a_kill_the_indexes_equal_those_of_a_clean_shutdown(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    recovered, _ = reload(killed(log, tmp_path / "copy"), SMALL)
    recovered.close(NOW_MS)
    log.close(NOW_MS)
    assert index_contents(recovered) == index_contents(log)
    assert {path.name: path.read_bytes() for path in (tmp_path / "copy").iterdir()} == {
        path.name: path.read_bytes() for path in Path(log.directory).iterdir()
    }


def test_a_clean_shutdown_leaves_the_files_that_kafka_leaves(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(b"a", b"b"))
    log.close(NOW_MS)
    stem = "00000000000000000000"
    assert sorted(os.listdir(log.directory)) == sorted(
        [
            f"{stem}.log",
            f"{stem}.index",
            f"{stem}.timeindex",
            "00000000000000000002.snapshot",
            "leader-epoch-checkpoint",
            "partition.metadata",
        ]
    )
    assert Path(segment_path(log.directory, 0, ".index")).stat().st_size == 0
    assert Path(segment_path(log.directory, 0, ".timeindex")).stat().st_size == 12
    assert Path(log.directory, "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_a_cleanly_closed_log_is_opened_unchanged(tmp_path: Path) -> None:
    log = filled(tmp_path)
    expected = offsets_and_values(log)
    log.close(NOW_MS)
    reopened, truncation = reload(log.directory, SMALL, is_clean=True)
    assert truncation is None
    assert offsets_and_values(reopened) == expected
    assert reopened.recovery_point == 30
    append(reopened, batch(b"more"), epoch=7)
    assert offsets_and_values(reopened) == [*expected, (30, b"more")]


def test_a_torn_tail_is_truncated_at_the_last_complete_batch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = filled(tmp_path / "log")
    copy = killed(log, tmp_path / "copy")
    last = Path(segment_path(str(copy), log.active_segment.base_offset, ".log"))
    whole = last.stat().st_size
    with last.open("ab") as file:
        file.write(batch(b"torn")[:40])
    recovered, truncation = reload(copy, SMALL)
    assert truncation is not None
    assert (truncation.position, truncation.offset, truncation.removed_bytes) == (whole, 30, 40)
    assert "cut 40 bytes" in caplog.text
    assert recovered.damaged == []
    assert last.stat().st_size == whole
    assert recovered.log_end_offset == 30


@pytest.fixture(scope="module")
def one_segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A killed log of one segment, with different kinds of batches, including an aborted transaction."""
    log = new_log(tmp_path_factory.mktemp("one"), config(index_interval_bytes=100))
    for index in range(12):
        append(log, batch(*[b"v%d" % index] * (index % 4 + 1)), epoch=index // 3)
    return Path(log.directory)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_truncation_of_the_file_recovers_to_a_batch_boundary(
    one_segment: Path, tmp_path: Path, data: st.DataObject
) -> None:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(one_segment, copy)
    path = copy / "00000000000000000000.log"
    whole, _ = reload(one_segment)
    boundaries = [0, *(position + size for position, size, _, _ in whole.active_segment.walk())]
    cut = data.draw(st.integers(0, path.stat().st_size))
    os.truncate(path, cut)
    recovered, truncation = reload(copy)
    kept = max(boundary for boundary in boundaries if boundary <= cut)
    assert path.stat().st_size == kept == recovered.size_bytes()
    assert (truncation is None) == (cut == kept)
    expected = all_records(whole)
    assert all_records(recovered) == expected[: len(all_records(recovered))]
    assert recovered.epochs.entries == [entry for entry in whole.epochs.entries if entry[1] < recovered.log_end_offset]


def kept_aside(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if ".damaged" in path.name)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damaged_byte_affects_only_its_batch(one_segment: Path, tmp_path: Path, data: st.DataObject) -> None:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(one_segment, copy)
    path = copy / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    whole, _ = reload(one_segment)
    batches = list(whole.active_segment.walk())
    start, in_batch, first, last = next(
        (position, at - position, first, last)
        for position, size, first, last in batches
        if position <= at < position + size
    )
    recovered, truncation = reload(copy, is_same_boot=True)
    if 12 <= in_batch < 16 or (in_batch < 8 and start == batches[-1][0]):
        return  # The checksum does not cover the base offset and the leader epoch.
    if start == batches[-1][0]:
        assert truncation is not None
        assert (truncation.offset, recovered.log_end_offset) == (first, first)
        assert len(kept_aside(copy)) == (0 if truncation.reason.startswith("the file ends") else 1)
    else:
        assert path.read_bytes() == content
        assert [(damage.first_offset, damage.next_offset) for damage in recovered.damaged] == [(first, last + 1)]
    expected = [record for record in all_records(whole) if not first <= record.offset <= last]
    found = [record for damage in (0, last + 1) for record in readable(recovered, damage)]
    assert list(dict.fromkeys(found)) == expected


def readable(log: PartitionLog, offset: int) -> list[Record]:
    """Return the records from an offset on, up to the first unreadable one."""
    found: list[Record] = []
    while offset < log.log_end_offset:
        try:
            views = list(iter_batches(log.read(offset, 1 << 20, min_one_message=True).records))
        except ApiException as error:
            assert error.code is ErrorCode.CORRUPT_MESSAGE
            break
        found += [record for view in views for record in view.records() if record.offset >= offset]
        offset = views[-1].next_offset
    return found


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_damage_in_the_middle_is_reported_and_nothing_is_truncated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path / "log")
    copy = killed(log, tmp_path / "copy")
    damaged, following = log.segments[1], log.segments[2]
    path = Path(segment_path(str(copy), damaged.base_offset, ".log"))
    flip(path, -1)
    sizes = {file.name: file.stat().st_size for file in copy.glob("*.log")}
    with caplog.at_level(logging.ERROR):
        recovered, truncation = reload(copy, SMALL, is_same_boot=True)
    assert truncation is None
    assert {file.name: file.stat().st_size for file in copy.glob("*.log")} == sizes
    (damage,) = recovered.damaged
    assert damage.next_offset == following.base_offset
    assert "checksum" in damage.reason
    assert f"{path} is damaged at position {damage.position}: " in caplog.text
    assert f"offset {damage.first_offset} cannot be read" in caplog.text
    assert recovered.log_end_offset == 30
    assert [record.offset for record in readable(recovered, following.base_offset)] == list(
        range(following.base_offset, 30)
    )


def test_after_a_restart_of_the_machine_the_unflushed_end_is_truncated_where_it_is_torn(
    one_segment: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(one_segment, copy)
    path = copy / "00000000000000000000.log"
    whole, _ = reload(one_segment)
    position, _, first, _ = list(whole.active_segment.walk())[4]
    flip(path, position + 70)
    content = path.read_bytes()
    with caplog.at_level(logging.ERROR):
        recovered, truncation = reload(copy, recovery_point=first)
    assert truncation is not None
    assert (truncation.position, truncation.offset) == (position, first)
    assert truncation.removed_bytes == len(content) - position
    assert (recovered.log_end_offset, recovered.damaged) == (first, [])
    assert path.read_bytes() == content[:position]
    assert [record.offset for record in readable(recovered, 0)] == list(range(first))
    assert recovered.epochs.entries == [entry for entry in whole.epochs.entries if entry[1] < first]
    (aside,) = kept_aside(copy)
    assert aside.read_bytes() == content
    assert f"{path}: at position {position}, offset {first}: " in caplog.text
    assert str(aside) in caplog.text
    assert append(recovered, batch(b"more"), epoch=9).first_offset == first


def test_after_a_restart_of_the_machine_a_log_with_a_torn_first_batch_starts_empty(
    one_segment: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(one_segment, copy)
    path = copy / "00000000000000000000.log"
    flip(path, 70)
    content = path.read_bytes()
    recovered, truncation = reload(copy)
    assert truncation is not None
    assert (recovered.log_start_offset, recovered.log_end_offset, recovered.damaged) == (0, 0, [])
    (aside,) = kept_aside(copy)
    assert aside.read_bytes() == content
    assert append(recovered, batch(b"more"), epoch=9).first_offset == 0


@pytest.mark.parametrize("is_empty", [False, True])
def test_after_a_restart_of_the_machine_a_log_is_truncated_in_its_first_torn_segment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_empty: bool
) -> None:
    log = filled(tmp_path / "log", 50)
    assert len(log.segments) > 3
    copy = killed(log, tmp_path / "copy")
    torn, *later = log.segments[1:]
    path = copy / f"{torn.base_offset:020d}.log"
    position, first = 0, torn.base_offset
    if is_empty:
        path.write_bytes(b"")
    else:
        position, _, first, _ = list(torn.walk())[1]
        flip(path, position + 70)
    content = path.read_bytes()
    with caplog.at_level(logging.ERROR):
        recovered, truncation = reload(copy, SMALL, recovery_point=torn.base_offset)
    assert truncation is not None
    assert (truncation.path, truncation.position, truncation.offset) == (str(path), position, first)
    assert truncation.removed_bytes == len(content) - position + sum(segment.size for segment in later)
    assert (recovered.log_end_offset, recovered.damaged) == (first, [])
    assert [record.offset for record in readable(recovered, 0)] == list(range(first))
    kept = {aside.name.partition(".")[0]: aside.stat().st_size for aside in kept_aside(copy)}
    expected = {f"{segment.base_offset:020d}": segment.size for segment in later}
    assert kept == (expected if is_empty else {f"{torn.base_offset:020d}": len(content), **expected})
    assert f"{path}: at position {position}, offset {first}: " in caplog.text
    assert append(recovered, batch(b"more"), epoch=9).first_offset == first


@pytest.mark.parametrize("is_empty", [False, True])
def test_after_a_restart_of_the_machine_a_log_is_truncated_at_missing_batches(
    tmp_path: Path, is_empty: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The machine wrote the pages of a later segment, but not those at the end of this one."""
    log = filled(tmp_path / "log", 50)
    copy = killed(log, tmp_path / "copy")
    short, *later = log.segments[1:]
    position, _, first, _ = list(short.walk())[0 if is_empty else 1]
    path = copy / f"{short.base_offset:020d}.log"
    os.truncate(path, position)
    for index in copy.glob(f"{short.base_offset:020d}.*index"):
        index.unlink()
    with caplog.at_level(logging.ERROR):
        recovered, truncation = reload(copy, SMALL, recovery_point=short.base_offset)
    assert truncation is not None
    assert (truncation.path, truncation.position, truncation.offset) == (str(path), position, first)
    assert (recovered.log_end_offset, recovered.damaged) == (first, [])
    assert [record.offset for record in readable(recovered, 0)] == list(range(first))
    assert len(kept_aside(copy)) == len(later) + (not is_empty)
    assert f"the file ends before offset {later[0].base_offset}, where the next segment begins" in caplog.text


def test_missing_batches_at_the_end_of_a_segment_are_damage_after_a_kill(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 50)
    copy = killed(log, tmp_path / "copy")
    short, following = log.segments[1:3]
    position, _, first, _ = list(short.walk())[1]
    os.truncate(copy / f"{short.base_offset:020d}.log", position)
    recovered, _ = reload(copy, SMALL, recovery_point=short.base_offset, is_same_boot=True)
    assert [(damage.first_offset, damage.next_offset) for damage in recovered.damaged] == [
        (first, following.base_offset)
    ]
    assert recovered.log_end_offset == 50
    with pytest.raises(ApiException) as refused:
        recovered.read(first, 1000, min_one_message=True)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_compacted_log_may_lack_offsets_between_its_segments(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 50)
    copy = killed(log, tmp_path / "copy")
    short = log.segments[1]
    os.truncate(copy / f"{short.base_offset:020d}.log", list(short.walk())[1][0])
    recovered, _ = reload(copy, COMPACTED, recovery_point=short.base_offset)
    assert (recovered.log_end_offset, recovered.damaged) == (50, [])


def test_after_a_crash_the_epochs_of_unflushed_records_come_from_the_batches(tmp_path: Path) -> None:
    """A power failure may restore truncated batches, while the checkpoint already names the epoch that followed."""
    log = filled(tmp_path / "log")
    log.epochs.assign(7, 26)
    log.epochs.flush()
    copy = killed(log, tmp_path / "copy")
    recovered, _ = reload(copy, SMALL, recovery_point=12)
    assert recovered.epochs.entries == [(0, 0), (1, 10), (2, 20)]


def test_a_segment_emptied_by_a_truncation_does_not_count_as_lost(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    first = log.active_segment.base_offset
    log.active_segment.complete_indexes()
    log.truncate_to(first, now_ms=NOW_MS)
    recovered, truncation = reload(killed(log, tmp_path / "copy"), SMALL, is_same_boot=True)
    assert (recovered.log_end_offset, recovered.damaged, truncation) == (first, [], None)


def test_damage_below_the_start_of_the_log_does_not_truncate_it(one_segment: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(one_segment, copy)
    whole, _ = reload(one_segment)
    position, _, _, last = list(whole.active_segment.walk())[4]
    flip(copy / "00000000000000000000.log", position + 70)
    recovered, truncation = reload(copy, log_start_offset=last + 1)
    assert truncation is None
    assert (recovered.log_start_offset, recovered.log_end_offset) == (last + 1, whole.log_end_offset)


@pytest.mark.parametrize(("is_same_boot", "is_flushed"), [(True, False), (False, True)])
def test_damage_before_a_valid_batch_is_not_truncated_if_all_writes_must_exist(
    one_segment: Path, tmp_path: Path, is_same_boot: bool, is_flushed: bool
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(one_segment, copy)
    path = copy / "00000000000000000000.log"
    whole, _ = reload(one_segment)
    position, _, first, last = list(whole.active_segment.walk())[4]
    flip(path, position + 70)
    content = path.read_bytes()
    recovered, truncation = reload(copy, recovery_point=last + 1 if is_flushed else 0, is_same_boot=is_same_boot)
    assert truncation is None
    assert path.read_bytes() == content
    assert [(damage.first_offset, damage.next_offset) for damage in recovered.damaged] == [(first, last + 1)]
    assert recovered.log_end_offset == whole.log_end_offset


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_that_ends_below_its_recovery_point_continues_there(tmp_path: Path, is_clean: bool) -> None:
    log = filled(tmp_path / "log")
    log.close(NOW_MS)
    path = Path(log.active_segment.path)
    os.truncate(path, path.stat().st_size - 3)
    recovered, truncation = reload(log.directory, SMALL, is_clean=is_clean, recovery_point=30)
    assert truncation is None
    assert [(damage.first_offset, damage.next_offset) for damage in recovered.damaged] == [(29, 30)]
    assert recovered.log_end_offset == 30
    assert append(recovered, batch(b"more")).first_offset == 30
    assert [record.offset for record in readable(recovered, 0)] == list(range(29))
    assert [record.value for record in readable(recovered, 30)] == [b"more"]
    with pytest.raises(ApiException):
        recovered.read(29, 1 << 20)


def test_the_producer_snapshot_also_names_the_end_of_a_clean_shutdown(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    log.close(NOW_MS)
    os.truncate(log.active_segment.path, 0)
    recovered, _ = reload(log.directory, SMALL, is_clean=True)
    assert (recovered.log_end_offset, recovered.damaged[0].first_offset) == (30, log.active_segment.base_offset)


def test_a_last_batch_with_a_wrong_checksum_is_kept_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = filled(tmp_path / "log")
    copy = killed(log, tmp_path / "copy")
    path = Path(segment_path(str(copy), log.active_segment.base_offset, ".log"))
    flip(path, -1)
    content = path.read_bytes()
    recovered, truncation = reload(copy, SMALL)
    assert truncation is not None
    assert recovered.log_end_offset == truncation.offset == 29
    (aside,) = kept_aside(copy)
    assert aside.read_bytes() == content[truncation.position :]
    assert str(aside) in caplog.text


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"garbage", bytes(40)])
def test_lost_leader_epochs_are_read_from_the_batches(tmp_path: Path, is_clean: bool, content: bytes | None) -> None:
    log = filled(tmp_path / "log")
    log.close(NOW_MS)
    path = Path(log.directory, "leader-epoch-checkpoint")
    path.unlink() if content is None else path.write_bytes(content)
    recovered, _ = reload(log.directory, SMALL, is_clean=is_clean, recovery_point=30)
    assert recovered.epochs.entries == [(0, 0), (1, 10), (2, 20)]


def test_segments_below_the_recovery_point_are_not_read_again(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    copy = killed(log, tmp_path / "copy")
    durable = log.segments[1]
    path = Path(segment_path(str(copy), durable.base_offset, ".log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    recovered, truncation = reload(copy, SMALL, recovery_point=log.segments[2].base_offset)
    assert truncation is None
    assert recovered.log_end_offset == 30


@pytest.mark.parametrize("damage", ["missing", "half an entry", "out of order", "preallocated"])
@pytest.mark.parametrize("extension", [".index", ".timeindex"])
def test_impossible_indexes_of_durable_segments_are_rebuilt(tmp_path: Path, extension: str, damage: str) -> None:
    log = filled(tmp_path / "log")
    expected = index_contents(log)
    copy = killed(log, tmp_path / "copy")
    path = Path(segment_path(str(copy), log.segments[0].base_offset, extension))
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "half an entry":
        path.write_bytes(content[:-5] + b"\x01")
    elif damage == "out of order":
        path.write_bytes(content + content)
    else:
        path.write_bytes(content + bytes(10_000))
    recovered, truncation = reload(copy, SMALL, recovery_point=30)
    assert truncation is None
    recovered_index = index_contents(recovered)
    assert recovered_index[:-1] == expected[:-1]
    assert len(all_records(recovered)) == 30


def test_a_missing_index_after_a_clean_shutdown_is_rebuilt(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close(NOW_MS)
    expected = index_contents(log)
    Path(segment_path(log.directory, 0, ".index")).unlink()
    reopened, _ = reload(log.directory, SMALL, is_clean=True)
    assert index_contents(reopened) == expected


def test_leftovers_of_deletions_and_unfinished_compactions_are_removed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    expected = offsets_and_values(log)
    directory = Path(log.directory)
    for name in ("00000000000000000000.log.deleted", "00000000000000000003.log.cleaned", "x.checkpoint.tmp"):
        (directory / name).write_bytes(b"rubbish")
    recovered, _ = reload(directory, SMALL)
    assert offsets_and_values(recovered) == expected
    assert not [name for name in os.listdir(directory) if name.endswith((".deleted", ".cleaned", ".tmp"))]


def test_an_index_without_its_log_is_removed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    stray = Path(segment_path(log.directory, 500, ".timeindex"))
    stray.write_bytes(bytes(24))
    reload(log.directory, SMALL)
    assert not stray.exists()


def test_a_log_that_lost_the_records_at_its_start_offset_restarts_there(tmp_path: Path) -> None:
    log = filled(tmp_path)
    recovered, _ = reload(log.directory, SMALL, log_start_offset=100)
    assert (recovered.log_start_offset, recovered.log_end_offset) == (100, 100)
    assert append(recovered, batch(b"a")).first_offset == 100


def test_the_start_offset_is_the_larger_of_checkpoint_and_first_segment(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert reload(log.directory, SMALL, log_start_offset=5)[0].log_start_offset == 5
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    copy = killed(log, tmp_path / "copy")
    Segment(str(copy), 0, log.active_segment._pool).delete()
    assert reload(copy, SMALL, log_start_offset=1)[0].log_start_offset == log.segments[1].base_offset


def test_an_empty_log_keeps_the_offset_that_its_only_segment_is_named_after(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    log.delete_oldest_segments(len(log.segments), now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (30, 30)
    for is_clean in (False, True):
        if is_clean:
            log.close(NOW_MS)
        recovered, _ = reload(killed(log, tmp_path / f"copy {is_clean}"), SMALL, is_clean=is_clean)
        assert (recovered.log_start_offset, recovered.log_end_offset) == (30, 30)


def test_a_directory_that_was_never_written_to_opens_as_an_empty_log(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for is_clean in (False, True):
        recovered, truncation = reload(log.directory, is_clean=is_clean)
        assert (recovered.log_start_offset, recovered.log_end_offset, truncation) == (0, 0, None)


def test_damaged_small_files_lose_only_their_content(tmp_path: Path) -> None:
    log = filled(tmp_path)
    directory = Path(log.directory)
    (directory / "leader-epoch-checkpoint").write_text("not a checkpoint")
    (directory / "partition.metadata").write_text("version: 9\n")
    (directory / "00000000000000000030.snapshot").write_bytes(b"short")
    recovered, _ = reload(directory, SMALL)
    assert recovered.topic_id is None
    assert len(all_records(recovered)) == 30
    assert recovered.epochs.entries == [(0, 0), (1, 10), (2, 20)]


def test_an_active_segment_has_both_indexes(tmp_path: Path) -> None:
    log = new_log(tmp_path, SMALL)
    for index in range(20):
        append(log, batch(b"value %d" % index))
        stem = f"{log.active_segment.base_offset:020d}"
        assert {f"{stem}.log", f"{stem}.index", f"{stem}.timeindex"} <= set(os.listdir(log.directory))


def test_a_time_index_that_lost_its_entries_is_rebuilt(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close(NOW_MS)
    expected = index_contents(log)
    Path(segment_path(log.directory, 0, ".timeindex")).write_bytes(b"")
    reopened, _ = reload(log.directory, SMALL, is_clean=True, recovery_point=30)
    assert index_contents(reopened) == expected


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_missing", [True, False])
@pytest.mark.parametrize("number", [0, 1])
def test_a_lost_rolled_segment_is_damage(
    tmp_path: Path, number: int, is_missing: bool, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path)
    log.close(NOW_MS)
    lost, following = log.segments[number : number + 2]
    path = Path(lost.path)
    path.unlink() if is_missing else path.write_bytes(b"")
    for _ in range(2):
        recovered, _ = reload(log.directory, SMALL, is_clean=is_clean, recovery_point=30)
        expected = [(lost.base_offset, following.base_offset)]
        assert [(damage.first_offset, damage.next_offset) for damage in recovered.damaged] == expected
        assert (recovered.log_start_offset, recovered.log_end_offset) == (0, 30)
        with pytest.raises(ApiException):
            recovered.read(lost.base_offset, 1000)
    assert str(path) in caplog.text
