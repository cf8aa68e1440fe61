"""All logs of a node: start, stop, crash, deletion, checkpoints, locks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage import log_directory
from barnabas.storage.errors import StorageError
from barnabas.storage.log_cleaner import LogCleaner
from barnabas.storage.log_dir_usage import log_dir_usage
from barnabas.storage.log_directory import delete_directory_name, parse_directory_name
from barnabas.storage.log_manager import LogManager
from barnabas.storage.offset_checkpoint import read_offsets
from barnabas.storage.partition_log import PartitionLog
from tests.unit.storage.log_driver import NOW_MS, TOPIC_ID, append, batch, config, offsets_and_values

Start = Callable[..., Any]  # A started LogManager, and its report.

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b.c_d-e", 0)


@pytest.fixture
def managers() -> Iterator[list[LogManager]]:
    """Managers to be unlocked at the end, in any state."""
    opened: list[LogManager] = []
    yield opened
    for manager in opened:
        for directory in manager.directories.all:
            directory.unlock()


@pytest.fixture
def start(tmp_path: Path, managers: list[LogManager]) -> Start:
    def start(*names: str, **options: object) -> LogManager:
        for manager in managers:
            for directory in manager.directories.all:
                directory.unlock()
        manager = LogManager([str(tmp_path / name) for name in names or ("data",)], **options)  # type: ignore[arg-type]
        managers.append(manager)
        manager.report = manager.startup(now_ms=NOW_MS)  # type: ignore[attr-defined]
        return manager

    return start


def open_log(manager: LogManager, partition: TopicPartition, **settings: object) -> PartitionLog:
    return manager.get_or_create(partition, TOPIC_ID, now_ms=NOW_MS, config=config(**settings) if settings else None)


def test_a_first_start_creates_the_directories_and_finds_nothing(start: Start, tmp_path: Path) -> None:
    manager = start("one", "two")
    assert len(manager) == 0
    assert (tmp_path / "one" / ".lock").exists()
    assert manager.previous_broker_epoch == -1


def test_a_log_is_created_once_and_found_again(start: Start, tmp_path: Path) -> None:
    manager = start()
    log = open_log(manager, A0)
    assert open_log(manager, A0) is log is manager.get(A0)
    assert manager.get(A1) is None
    assert sorted(os.listdir(tmp_path / "data")) == [".lock", "a-0", "barnabas-boot-id"]


def test_new_logs_are_created_in_the_directory_with_the_fewest(start: Start, tmp_path: Path) -> None:
    manager = start("one", "two")
    for partition in range(6):
        open_log(manager, TopicPartition("a", partition))
    assert len(list((tmp_path / "one").glob("a-*"))) == len(list((tmp_path / "two").glob("a-*"))) == 3


def test_a_clean_restart_finds_every_log_unchanged(start: Start, tmp_path: Path) -> None:
    manager = start()
    for partition, values in ((A0, [b"1", b"2"]), (A1, []), (B0, [b"3"])):
        log = open_log(manager, partition)
        for value in values:
            append(log, batch(value))
    manager.shutdown(now_ms=NOW_MS, broker_epoch=28)
    data = tmp_path / "data"
    assert json.loads((data / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 28}
    assert read_offsets(str(data / "recovery-point-offset-checkpoint")) == {A0: 2, B0: 1}
    assert read_offsets(str(data / "replication-offset-checkpoint")) == {A0: 2, B0: 1}
    assert (data / "log-start-offset-checkpoint").read_text() == "0\n0\n"

    again = start()
    assert again.report.is_clean
    assert again.report.partitions == 3
    assert again.previous_broker_epoch == 28
    assert not (data / ".kafka_cleanshutdown").exists()
    assert offsets_and_values(again.get(A0)) == [(0, b"1"), (1, b"2")]
    assert again.get(A0).high_watermark == 2
    assert again.get(B0).topic_id == TOPIC_ID
    assert offsets_and_values(again.get(A1)) == []


def test_the_cleaner_checkpoint_is_written_only_when_it_changes(start: Start, tmp_path: Path) -> None:
    """A disk without space does not stop a node that cleans nothing."""
    manager = start()
    open_log(manager, A0)
    manager.shutdown(now_ms=NOW_MS, broker_epoch=28)
    checkpoint = tmp_path / "data" / "cleaner-offset-checkpoint"
    before = checkpoint.stat()
    again = start()
    again.checkpoint_cleaner_offsets()
    assert checkpoint.stat().st_ino == before.st_ino
    again.cleaner_offsets[A0] = 0
    again.checkpoint_cleaner_offsets()
    assert read_offsets(str(checkpoint)) == {A0: 0}


def test_a_marker_of_a_clean_stop_that_cannot_be_read_proves_nothing(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manager = start()
    append(open_log(manager, A0), batch(b"1"))
    manager.shutdown(now_ms=NOW_MS, broker_epoch=28)
    marker = tmp_path / "data" / ".kafka_cleanshutdown"

    def refuse_the_marker(path: str, mode: str) -> Any:
        if path == str(marker):
            raise PermissionError(13, "Permission denied", path)
        return open(path, mode)

    monkeypatch.setattr(log_directory, "open", refuse_the_marker, raising=False)
    again = start()
    assert not again.report.is_clean
    assert not marker.exists()
    assert f"{marker} is not readable" in caplog.text
    assert offsets_and_values(again.get(A0)) == [(0, b"1")]


def test_after_a_kill_every_appended_record_is_found(start: Start, tmp_path: Path) -> None:
    manager = start()
    for partition in (A0, A1, B0):
        append(open_log(manager, partition), batch(b"x", b"y"))
    again = start()
    assert not again.report.is_clean
    assert again.report.truncations == []
    assert [log.log_end_offset for log in again.logs()] == [2, 2, 2]


def test_a_torn_log_is_named_in_the_report(start: Start, tmp_path: Path) -> None:
    manager = start()
    log = open_log(manager, A0)
    append(log, batch(b"x"))
    with open(log.active_segment.path, "ab") as file:
        file.write(b"torn")
    again = start()
    assert [(item.path, item.removed_bytes) for item in again.report.truncations] == [(log.active_segment.path, 4)]


def test_the_start_offset_is_restored_from_its_checkpoint(start: Start) -> None:
    manager = start()
    log = open_log(manager, A0)
    for _ in range(3):
        append(log, batch(b"x"))
    log.delete_records_before(2, now_ms=NOW_MS)
    manager.checkpoint()
    again = start()
    assert again.get(A0).log_start_offset == 2


def test_a_deleted_log_is_removed_immediately_and_its_files_later(start: Start, tmp_path: Path) -> None:
    manager = start(new_unique_id=lambda: "0123456789abcdef0123456789abcdef")
    log = open_log(manager, A0)
    append(log, batch(b"x"))
    fetched = log.read(0, 1000).records
    assert manager.delete(A0, now_ms=NOW_MS)
    assert not manager.delete(A0, now_ms=NOW_MS)
    assert manager.get(A0) is None
    renamed = tmp_path / "data" / "a-0.0123456789abcdef0123456789abcdef-delete"
    assert renamed.exists()
    assert not (tmp_path / "data" / "a-0").exists()
    assert bytes(fetched)
    assert manager.remove_deleted(NOW_MS + 59_999) == 0
    assert manager.remove_deleted(NOW_MS + 60_000) == 1
    assert not renamed.exists()


def test_an_interrupted_deletion_is_completed_after_a_restart(start: Start, tmp_path: Path) -> None:
    manager = start()
    append(open_log(manager, A0), batch(b"x"))
    manager.delete(A0, now_ms=NOW_MS)
    again = start()
    assert len(again) == 0
    assert again.remove_deleted(NOW_MS) == 1
    assert list((tmp_path / "data").glob("*-delete")) == []


def test_a_log_of_an_earlier_topic_of_the_same_name_is_replaced(start: Start) -> None:
    manager = start()
    append(open_log(manager, A0), batch(b"old"))
    new = manager.get_or_create(A0, Uuid.from_int(999_999), now_ms=NOW_MS)
    assert new.log_end_offset == 0
    assert new.topic_id == Uuid.from_int(999_999)


def test_a_directory_is_used_by_one_process_at_a_time(start: Start, tmp_path: Path) -> None:
    manager = start()
    other = LogManager([str(tmp_path / "data")])
    with pytest.raises(StorageError, match=r"\.lock"):
        other.startup(now_ms=NOW_MS)
    manager.shutdown(now_ms=NOW_MS)
    other.startup(now_ms=NOW_MS)
    other.shutdown(now_ms=NOW_MS)


def test_one_partition_in_two_directories_is_an_error(start: Start, tmp_path: Path) -> None:
    manager = start("one")
    append(open_log(manager, A0), batch(b"value"))
    shutil.copytree(tmp_path / "one" / "a-0", tmp_path / "two" / "a-0")
    with pytest.raises(StorageError, match="Duplicate log directories"):
        start("one", "two")


@pytest.mark.parametrize("empty", ["one", "two"])
def test_a_log_without_records_does_not_block_the_one_on_another_disk(
    start: Start, tmp_path: Path, empty: str, caplog: pytest.LogCaptureFixture
) -> None:
    full = "two" if empty == "one" else "one"
    append(open_log(start(full), A0), batch(b"value"))
    (tmp_path / empty / "a-0").mkdir(parents=True)
    manager = start("one", "two")
    assert manager.get(A0).log_end_offset == 1
    assert str(tmp_path / empty / "a-0") in caplog.text
    assert not (tmp_path / empty / "a-0").exists()
    manager.remove_deleted(NOW_MS + 1_000_000)
    assert [path.name for path in (tmp_path / empty).iterdir() if path.name.startswith("a-0")] == []


def test_settings_of_a_topic_apply_only_to_its_logs(start: Start) -> None:
    manager = start()
    for partition in (A0, A1, B0):
        open_log(manager, partition)
    manager.update_config("a", config(retention_ms=5))
    assert [log.config.retention_ms for log in manager.logs()] == [5, 5, 604_800_000]


def test_retention_and_maintenance_cover_all_logs(start: Start) -> None:
    manager = start()
    for partition in (A0, B0):
        log = open_log(manager, partition, retention_ms=1000, segment_bytes=130, flush_ms=500)
        for _ in range(3):
            append(log, batch(b"x" * 50))
    assert manager.flush_due(NOW_MS + 499) == 0
    assert manager.flush_due(NOW_MS + 500) == 2
    assert manager.run_retention(NOW_MS + 5000) == 6
    assert manager.remove_deleted(NOW_MS + 5000 + 60_000) == 6


def test_expired_producers_are_forgotten(start: Start) -> None:
    manager = start(producer_id_expiration_ms=1000)
    log = open_log(manager, A0)
    append(log, batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0))
    manager.run_retention(NOW_MS + 999)
    assert log.has_producers
    manager.run_retention(NOW_MS + 1000)
    assert not log.has_producers


def test_the_cleaner_offset_survives_restarts(start: Start) -> None:
    manager = start()
    log = open_log(manager, A0, cleanup_policy=["compact"])
    for value in (b"1", b"2"):
        append(log, batch(value))
    log.roll(NOW_MS)
    cleaner = LogCleaner(manager.logs, manager.cleaner_offsets, checkpoint=manager.checkpoint_cleaner_offsets)
    assert cleaner.clean_dirtiest(NOW_MS) is not None
    manager.shutdown(now_ms=NOW_MS)
    again = start()
    assert again.cleaner_offsets == {A0: 2}
    assert offsets_and_values(again.get(A0)) == [(1, b"2")]


def test_truncated_records_do_not_count_as_compacted(start: Start) -> None:
    manager = start()
    log = open_log(manager, A0, cleanup_policy=["compact"])
    for value in (b"1", b"2", b"3"):
        append(log, batch(value))
    manager.cleaner_offsets.update({A0: 2, B0: 7})
    manager.note_truncation(log)
    assert manager.cleaner_offsets == {A0: 2, B0: 7}
    log.truncate_to(1, now_ms=NOW_MS)
    manager.note_truncation(log)
    assert manager.cleaner_offsets == {A0: 1, B0: 7}


def test_high_watermarks_are_checkpointed_periodically_and_found_after_a_crash(start: Start) -> None:
    manager = start()
    log = open_log(manager, A0)
    for value in (b"1", b"2"):
        append(log, batch(value))
    manager.checkpoint_high_watermarks()
    append(log, batch(b"3"))
    found = start().get(A0)
    assert (found.high_watermark, found.log_end_offset, found.recovery_point) == (2, 3, 0)


def test_unchanged_high_watermarks_are_not_written_again(start: Start, tmp_path: Path) -> None:
    manager, path = start(), tmp_path / "data" / "replication-offset-checkpoint"
    log = open_log(manager, A0)
    for moves in (True, False):
        if moves:
            append(log, batch(b"1"))
        manager.checkpoint_high_watermarks()
        assert path.exists() is moves
        path.unlink(missing_ok=True)


def test_the_usage_of_directories_counts_each_partition(start: Start) -> None:
    manager = start("one", "two")
    append(open_log(manager, A0), batch(b"x" * 100))
    open_log(manager, A1)
    usage = log_dir_usage(manager)
    assert [[replica.size_bytes for replica in item.replicas] for item in usage] == [
        [manager.get(A0).size_bytes()],
        [0],
    ]
    assert all(item.total_bytes >= item.usable_bytes > 0 for item in usage)


def test_a_damaged_checkpoint_counts_as_missing(start: Start, tmp_path: Path) -> None:
    manager = start()
    append(open_log(manager, A0), batch(b"x"))
    manager.checkpoint()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_text("0\n7\na 0 1\n")
    assert start().get(A0).log_end_offset == 1


def test_foreign_entries_of_a_directory_stay_unchanged(start: Start, tmp_path: Path) -> None:
    for name in ("__cluster_metadata-0", "lost+found", "a-0-stray", "a-1.0123-future", "x"):
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "data" / "b-0").write_text("a file")
    assert len(start()) == 0
    assert (tmp_path / "data" / "a-0-stray").exists()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-0", TopicPartition("a", 0)),
        ("a-b.c_d-12", TopicPartition("a-b.c_d", 12)),
        ("-0", None),
        ("a-", None),
        ("a", None),
        ("a-x", None),
        ("a-0.f00-delete", None),
        ("a-0.f00-stray", None),
    ],
)
def test_a_directory_is_named_after_its_partition(name: str, expected: TopicPartition | None) -> None:
    assert parse_directory_name(name) == expected


def test_the_longest_topic_names_are_shortened_when_deleted() -> None:
    name = delete_directory_name(TopicPartition("t" * 249, 3), "0" * 32)
    assert len(name) == 255
    assert name.endswith(f"-3.{'0' * 32}-delete")


@pytest.mark.parametrize("is_same_boot", [True, False])
def test_committed_records_must_exist_after_a_kill_unless_the_machine_restarted(
    start: Start, tmp_path: Path, is_same_boot: bool, caplog: pytest.LogCaptureFixture
) -> None:
    manager = start()
    log = open_log(manager, A0)
    for value in (b"one", b"two", b"three"):
        append(log, batch(value))
    manager.checkpoint()
    path = log.active_segment.path
    os.truncate(path, log.active_segment.find(2)[0])
    if not is_same_boot:
        (tmp_path / "data" / "barnabas-boot-id").write_text("another\n")
    log = start().get(A0)
    assert path in caplog.text
    assert (log.log_end_offset, len(log.damaged)) == ((3, 1) if is_same_boot else (2, 0))
    assert "are lost" in caplog.text or is_same_boot


def test_a_damaged_record_of_the_boot_id_is_reported(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_log(start(), A0)
    path = tmp_path / "data" / "barnabas-boot-id"
    path.write_bytes(b"\xff\x00garbage")
    start()
    assert f"{path} is damaged: the machine counts as restarted" in caplog.text


@pytest.mark.parametrize(("is_same_boot", "high_watermark"), [(True, 3), (False, 2)])
def test_after_a_restart_of_the_machine_nothing_above_the_recovery_point_counts_as_committed(
    start: Start, tmp_path: Path, is_same_boot: bool, high_watermark: int
) -> None:
    """The restart may have restored truncated records, in the place of committed ones."""
    manager = start()
    log = open_log(manager, A0)
    for value in (b"one", b"two"):
        append(log, batch(value))
    log.flush(NOW_MS)
    manager.checkpoint()
    append(log, batch(b"three"))
    manager.checkpoint_high_watermarks()
    if not is_same_boot:
        (tmp_path / "data" / "barnabas-boot-id").write_text("another\n")
    again = start().get(A0)
    assert (again.log_end_offset, again.high_watermark) == (3, high_watermark)


def test_records_lost_in_a_restart_of_the_machine_are_not_damage_after_a_later_kill(
    start: Start, tmp_path: Path
) -> None:
    manager = start()
    log = open_log(manager, A0)
    for value in (b"one", b"two", b"three"):
        append(log, batch(value))
    log.maybe_advance_high_watermark(3)
    manager.checkpoint_high_watermarks()
    os.truncate(log.active_segment.path, log.active_segment.find(2)[0])
    (tmp_path / "data" / "barnabas-boot-id").write_text("another\n")
    assert start().get(A0).log_end_offset == 2
    killed_at_once = start()
    log = killed_at_once.get(A0)
    assert (log.log_end_offset, log.damaged, killed_at_once.damaged) == (2, [], set())


def test_a_failed_start_after_a_restart_of_the_machine_does_not_affect_the_next(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(start(), A0)
    append(log, batch(b"one"))
    (tmp_path / "data" / "barnabas-boot-id").write_text("another\n")

    def fail(*arguments: object, **options: object) -> None:
        raise StorageError("it can't be loaded")

    with monkeypatch.context() as patch:
        patch.setattr("barnabas.storage.log_manager.load_log", fail)
        with pytest.raises(StorageError):
            start()
    assert (tmp_path / "data" / "barnabas-boot-id").read_text() == "another\n"
