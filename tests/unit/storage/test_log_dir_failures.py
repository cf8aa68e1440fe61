"""One log directory fails, the others continue; moving logs survive a crash at any step."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.errors import StorageError
from barnabas.storage.future_log import copy_to_future
from barnabas.storage.log_cleaner import LogCleaner
from barnabas.storage.log_dir_failure import LogDirFailureChannel, is_disk_failure
from barnabas.storage.log_dir_usage import log_dir_usage
from barnabas.storage.log_directories import LogDirectoryOffline
from barnabas.storage.log_directory import LogDirectory
from barnabas.storage.log_manager import LogManager
from barnabas.storage.partition_log import PartitionLog
from tests.unit.storage.log_driver import NOW_MS, TOPIC_ID, append, batch, config, offsets_and_values

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
ONE, TWO, UNASSIGNED = Uuid.from_int(201), Uuid.from_int(202), Uuid.from_int(1)
GONE = OSError(errno.EIO, "Input/output error")

Start = Callable[..., LogManager]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a manager of the directories one and two; a second start simulates one after a kill."""
    opened: list[LogManager] = []

    def start(**options: Any) -> LogManager:
        for manager in opened:
            for directory in manager.directories.all:
                directory.unlock()
        paths = {str(tmp_path / "one"): ONE, str(tmp_path / "two"): TWO}
        manager = LogManager(list(paths), directory_ids=paths, **options)
        opened.append(manager)
        manager.startup(now_ms=NOW_MS)
        return manager

    yield start
    for manager in opened:
        for directory in manager.directories.all:
            directory.unlock()


def open_log(manager: LogManager, partition: TopicPartition, directory_id: Uuid | None = None) -> PartitionLog:
    return manager.get_or_create(partition, TOPIC_ID, now_ms=NOW_MS, directory_id=directory_id)


def begin_move(manager: LogManager, partition: TopicPartition, name: str) -> PartitionLog:
    directory = next(candidate for candidate in manager.directories.all if candidate.path.endswith(f"/{name}"))
    return manager.create_future(partition, directory, now_ms=NOW_MS)


def copy(manager: LogManager, partition: TopicPartition) -> None:
    current, future = manager.get(partition), manager.future(partition)
    assert current is not None
    assert future is not None
    while copy_to_future(current, future, max_bytes=1000, now_ms=NOW_MS):
        pass


def where(manager: LogManager, partition: TopicPartition) -> str:
    log = manager.get(partition)
    assert log is not None
    return Path(log.directory).parent.name


def fail(manager: LogManager, name: str) -> list[PartitionLog]:
    path = next(directory.path for directory in manager.directories.all if directory.path.endswith(f"/{name}"))
    return manager.take_offline(path, "it failed")


# Failures


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (GONE, True),
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.EROFS, "read-only"), True),
        (OSError(errno.EMFILE, "too many files"), False),
        (StorageError("of ours"), False),
        (ValueError("else"), False),
    ],
)
def test_only_errors_of_a_disk_are_disk_failures(error: Exception, expected: bool) -> None:
    assert is_disk_failure(error) is expected
    wrapped = StorageError("wrapped")
    wrapped.__cause__ = error
    assert is_disk_failure(wrapped) is expected


def test_a_failure_is_reported_once() -> None:
    channel, calls = LogDirFailureChannel(), list[int]()
    channel.on_failure = lambda: calls.append(1)
    for path in ("/a", "/a", "/b"):
        channel.report(path, GONE)
    assert len(calls) == 2
    assert [channel.take(), channel.take(), channel.take()] == [("/a", str(GONE)), ("/b", str(GONE)), None]


def test_a_failing_directory_affects_only_its_own_logs(start: Start) -> None:
    manager = start()
    logs = [open_log(manager, A0, ONE), open_log(manager, A1, TWO)]
    for log in logs:
        append(log, batch(b"x"))
    assert fail(manager, "two") == [logs[1]]
    assert manager.logs() == [logs[0]]
    append(logs[0], batch(b"y"))
    manager.checkpoint()
    assert fail(manager, "two") == [], "once is enough"
    used = {Path(usage.path).name: usage for usage in log_dir_usage(manager)}
    assert used["two"].failure == "it failed"
    assert used["two"].replicas == ()
    assert [replica.topic_partition for replica in used["one"].replicas] == [A0]


def test_a_lost_log_is_not_created_again(start: Start) -> None:
    manager = start()
    open_log(manager, A1, TWO)
    fail(manager, "two")
    for directory_id in (None, UNASSIGNED, ONE, TWO):
        with pytest.raises(LogDirectoryOffline):
            open_log(manager, A1, directory_id)
    assert manager.directories.is_offline(A1, TOPIC_ID, TWO)
    assert not manager.directories.is_offline(A1, Uuid.from_int(999), ONE), "another topic of this name"
    manager.delete(A1, now_ms=NOW_MS)
    assert where(manager, open_log(manager, A1, UNASSIGNED).topic_partition) == "one"


def test_a_log_that_may_be_in_a_lost_directory_is_not_created_elsewhere(start: Start) -> None:
    manager = start()
    fail(manager, "two")
    with pytest.raises(LogDirectoryOffline, match="may be in a log directory that is offline"):
        open_log(manager, A0, Uuid.from_int(300))
    open_log(manager, A0, ONE)
    open_log(manager, A1, UNASSIGNED)
    assert [where(manager, partition) for partition in (A0, A1)] == ["one", "one"]


def test_a_failure_during_maintenance_is_reported_and_the_rest_continues(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = start()
    for partition, directory_id in ((A0, TWO), (A1, ONE)):
        append(open_log(manager, partition, directory_id), batch(b"x"))
    write = LogDirectory.write_recovery_points

    def write_or_fail(directory: LogDirectory, offsets: Any) -> None:
        if directory.path.endswith("/two"):
            raise GONE
        write(directory, offsets)

    monkeypatch.setattr(LogDirectory, "write_recovery_points", write_or_fail)
    manager.checkpoint()
    failure = manager.directories.failures.take()
    assert failure is not None
    assert failure[0].endswith("/two")
    assert (Path(manager.directories.all[0].path) / "recovery-point-offset-checkpoint").exists()


def test_a_failed_flush_is_reported(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start()
    flushed = []

    def flush(log: PartitionLog) -> bool:
        if log.topic_partition == A0:
            raise GONE
        flushed.append(log.topic_partition)
        return True

    for partition, directory_id in ((A0, TWO), (A1, ONE)):
        open_log(manager, partition, directory_id)
    monkeypatch.setattr(PartitionLog, "flush_rolled", flush)
    assert manager.flush_rolled() == 1
    assert flushed == [A1]
    assert manager.directories.failures.take() is not None


def test_a_directory_that_refuses_a_new_log_is_excluded(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start()
    create = PartitionLog.create

    def create_or_fail(path: str, *args: Any, **options: Any) -> PartitionLog:
        if "/one/" in path:
            raise GONE
        return create(path, *args, **options)

    monkeypatch.setattr(PartitionLog, "create", create_or_fail)
    assert where(manager, open_log(manager, A0, UNASSIGNED).topic_partition) == "two"
    failure = manager.directories.failures.take()
    assert failure is not None
    assert failure[0].endswith("/one")


# Starts


def test_a_start_continues_without_an_unusable_directory(start: Start, tmp_path: Path) -> None:
    manager = start()
    for partition, directory_id in ((A0, ONE), (A1, TWO)):
        append(open_log(manager, partition, directory_id), batch(b"x"))
    manager.shutdown(now_ms=NOW_MS, broker_epoch=7)
    (tmp_path / "two").rename(tmp_path / "away")
    (tmp_path / "two").write_text("not a directory")
    again = start()
    assert [log.topic_partition for log in again.logs()] == [A0]
    assert again.previous_broker_epoch == 7, "of the available directories"
    with pytest.raises(LogDirectoryOffline):
        open_log(again, A1, TWO)
    again.shutdown(now_ms=NOW_MS, broker_epoch=8)
    (tmp_path / "two").unlink()
    (tmp_path / "away").rename(tmp_path / "two")
    repaired = start()
    assert len(repaired) == 2
    assert repaired.previous_broker_epoch == -1, "they were not shut down together"


def test_a_directory_known_to_be_bad_is_not_accessed(start: Start, tmp_path: Path) -> None:
    manager = start(offline={str(tmp_path / "two"): "no meta.properties"})
    assert not (tmp_path / "two").exists()
    assert [directory.path for directory in manager.directories.online] == [str(tmp_path / "one")]


def test_a_start_without_any_directory_fails(start: Start, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text("not a directory")
    with pytest.raises(StorageError, match=r"none of the log directories can be used: .*one.*two"):
        start()


def test_a_directory_that_fails_while_it_is_read_is_excluded(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start()
    for partition, directory_id in ((A0, ONE), (A1, TWO)):
        append(open_log(manager, partition, directory_id), batch(b"x"))
    partitions = LogDirectory.partitions

    def read_or_fail(directory: LogDirectory) -> dict[str, TopicPartition]:
        if directory.path.endswith("/two"):
            raise GONE
        return partitions(directory)

    monkeypatch.setattr(LogDirectory, "partitions", read_or_fail)
    again = start()
    assert [log.topic_partition for log in again.logs()] == [A0]


# Placement


def test_a_log_is_created_in_the_directory_that_the_controller_names(start: Start) -> None:
    manager = start()
    for partition in (A0, A1, A2):
        open_log(manager, partition, TWO)
    assert {where(manager, topic_partition) for topic_partition in (A0, A1, A2)} == {"two"}


def test_a_cordoned_directory_receives_no_new_log_unless_it_is_named(start: Start) -> None:
    manager = start()
    manager.directories.all[0].is_cordoned = True
    for partition in (A0, A1):
        open_log(manager, partition, UNASSIGNED)
    open_log(manager, A2, ONE)
    assert [where(manager, topic_partition) for topic_partition in (A0, A1, A2)] == ["two", "two", "one"]


def test_a_log_is_created_in_the_requested_directory(start: Start) -> None:
    manager = start()
    manager.directories.preferred[A0] = manager.directories.all[1]
    open_log(manager, A1, TWO)
    open_log(manager, A0, ONE)
    assert where(manager, A0) == "two"
    assert manager.directories.preferred == {}


# Moves


def test_a_moved_log_replaces_the_old_one(start: Start, tmp_path: Path) -> None:
    manager = start()
    append(open_log(manager, A0, ONE), batch(b"x"), epoch=3)
    manager.cleaner_offsets[A0] = 1
    future = begin_move(manager, A0, "two")
    copy(manager, A0)
    assert manager.replace_current(A0, now_ms=NOW_MS) is future is manager.get(A0)
    assert manager.future(A0) is None
    assert where(manager, A0) == "two"
    assert A0 not in manager.cleaner_offsets, "the copy may contain records that were compacted away"
    append(future, batch(b"y"), epoch=4)
    future.roll(NOW_MS)
    assert (tmp_path / "two" / "a-0" / "leader-epoch-checkpoint").exists()
    assert len(list((tmp_path / "one").glob("*-delete"))) == 1
    assert manager.remove_deleted(NOW_MS + 60_000) == 1
    again = start()
    assert offsets_and_values(again.get(A0)) == [(0, b"x"), (1, b"y")]


def test_settings_of_a_topic_apply_to_a_moving_log(start: Start) -> None:
    manager = start()
    open_log(manager, A0, ONE)
    begin_move(manager, A0, "two")
    manager.update_config("a", config(retention_ms=5))
    assert manager.future(A0).config.retention_ms == 5


def test_a_moving_log_survives_a_restart(start: Start) -> None:
    manager = start()
    append(open_log(manager, A0, ONE), batch(b"x"))
    begin_move(manager, A0, "two")
    copy(manager, A0)
    again = start()
    assert offsets_and_values(again.future(A0)) == [(0, b"x")]
    assert where(again, A0) == "one"
    again.shutdown(now_ms=NOW_MS)
    assert start().future(A0) is not None


def test_a_crash_between_the_last_two_steps_keeps_the_moved_log(start: Start, tmp_path: Path) -> None:
    manager = start()
    append(open_log(manager, A0, ONE), batch(b"x"))
    begin_move(manager, A0, "two")
    copy(manager, A0)
    (tmp_path / "one" / "a-0").rename(tmp_path / "one" / f"a-0.{'0' * 32}-delete")
    again = start()
    assert again.get(A0) is None
    taken = open_log(again, A0, TWO)
    assert offsets_and_values(taken) == [(0, b"x")]
    assert where(again, A0) == "two"
    assert again.future(A0) is None


def test_a_log_moving_elsewhere_is_not_taken_for_a_new_one(start: Start, tmp_path: Path) -> None:
    manager = start()
    append(open_log(manager, A0, ONE), batch(b"x"))
    begin_move(manager, A0, "two")
    copy(manager, A0)
    shutil.rmtree(tmp_path / "one" / "a-0")
    again = start()
    assert open_log(again, A0, ONE).log_end_offset == 0, "the controller does not know of the move"
    assert again.future(A0) is not None


def test_a_target_failure_in_the_last_step_leaves_the_log_in_place(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = start()
    current = open_log(manager, A0, ONE)
    append(current, batch(b"x"))
    begin_move(manager, A0, "two")
    copy(manager, A0)
    rename = os.rename

    def rename_or_fail(source: str, target: str) -> None:
        if target.endswith("/two/a-0"):
            raise GONE
        rename(source, target)

    monkeypatch.setattr(os, "rename", rename_or_fail)
    with pytest.raises(OSError, match="Input/output"):
        manager.replace_current(A0, now_ms=NOW_MS)
    assert manager.get(A0) is current
    append(current, batch(b"y"))
    assert offsets_and_values(start().get(A0)) == [(0, b"x"), (1, b"y")]


def test_a_source_failure_in_the_last_step_does_not_stop_the_move(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = start()
    append(open_log(manager, A0, ONE), batch(b"x"))
    begin_move(manager, A0, "two")
    copy(manager, A0)
    rename = os.rename

    def rename_or_fail(source: str, target: str) -> None:
        if target.endswith("-delete"):
            raise GONE
        rename(source, target)

    monkeypatch.setattr(os, "rename", rename_or_fail)
    moved = manager.replace_current(A0, now_ms=NOW_MS)
    assert manager.get(A0) is moved
    assert where(manager, A0) == "two"
    failure = manager.directories.failures.take()
    assert failure is not None
    assert failure[0].endswith("/one")


def test_deleting_a_partition_deletes_its_moving_log(start: Start, tmp_path: Path) -> None:
    manager = start()
    open_log(manager, A0, ONE)
    begin_move(manager, A0, "two")
    assert manager.delete(A0, now_ms=NOW_MS)
    assert manager.future(A0) is None
    assert [len(list((tmp_path / name).glob("*-delete"))) for name in ("one", "two")] == [1, 1]


def test_the_lag_shows_the_progress_of_a_move(start: Start) -> None:
    manager = start()
    current = open_log(manager, A0, ONE)
    for _ in range(3):
        append(current, batch(b"x"))
    future = begin_move(manager, A0, "two")
    copy_to_future(current, future, max_bytes=1, now_ms=NOW_MS)
    used = {Path(usage.path).name: usage.replicas for usage in log_dir_usage(manager)}
    assert [
        (replica_usage.lag, replica_usage.is_future) for name in ("one", "two") for replica_usage in used[name]
    ] == [(0, False), (2, True)]


def test_a_moving_log_is_not_compacted(start: Start) -> None:
    manager = start()
    log = manager.get_or_create(A0, TOPIC_ID, now_ms=NOW_MS, config=config(cleanup_policy=["compact"]))
    for value in (b"1", b"2"):
        append(log, batch(value))
    log.roll(NOW_MS)
    cleaner = LogCleaner(manager.logs, manager.cleaner_offsets, pauses=manager.cleaning_pauses)
    manager.cleaning_pauses.pause(A0)
    assert cleaner.clean_dirtiest(NOW_MS) is None
    assert not manager.cleaning_pauses.is_cleaning(A0)
    manager.cleaning_pauses.resume(A0)
    assert cleaner.clean_dirtiest(NOW_MS) is not None


def test_a_cleaning_is_cancelled_when_its_log_begins_to_move(start: Start) -> None:
    manager = start()
    log = manager.get_or_create(A0, TOPIC_ID, now_ms=NOW_MS, config=config(cleanup_policy=["compact"]))
    for value in (b"1", b"2", b"3"):
        append(log, batch(value))
    log.roll(NOW_MS)
    cleaner = LogCleaner(
        manager.logs,
        manager.cleaner_offsets,
        pause=lambda _: manager.cleaning_pauses.pause(A0),
        pauses=manager.cleaning_pauses,
    )
    assert cleaner.clean_dirtiest(NOW_MS) is None
    assert len(offsets_and_values(log)) == 3


def test_a_cleaner_reports_a_failing_disk(start: Start) -> None:
    manager = start()
    log = manager.get_or_create(A0, TOPIC_ID, now_ms=NOW_MS, config=config(cleanup_policy=["compact"]))
    append(log, batch(b"1"))
    log.roll(NOW_MS)

    def fails(_: int) -> None:
        raise GONE

    cleaner = LogCleaner(manager.logs, manager.cleaner_offsets, pause=fails, report_failure=manager.report_failure)
    assert cleaner.clean_dirtiest(NOW_MS) is None
    assert manager.directories.failures.take() is not None
