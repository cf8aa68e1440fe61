"""The cleaner in its thread, next to appends and reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from barnabas.storage.cleaner_thread import CleanerThread
from barnabas.storage.log_cleaner import CleanerStats, LogCleaner
from barnabas.storage.partition_log import PartitionLog
from tests.unit.storage.log_driver import NOW_MS, TP, all_records, append, batch, config, new_log

PATIENCE_S = 60


def thread_for(
    log: PartitionLog, offsets: dict[object, int], on_cleaned: Callable[[CleanerStats], None]
) -> CleanerThread:
    return CleanerThread(
        lambda pause: LogCleaner(lambda: [log], offsets, pause=pause),  # type: ignore[arg-type]
        now_ms=lambda: NOW_MS,
        backoff_ms=1,
        on_cleaned=on_cleaned,
    )


def test_appends_and_reads_go_on_while_the_log_is_compacted_again_and_again(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(cleanup_policy=["compact"], segment_bytes=20_000, min_cleanable_dirty_ratio=0.01))
    cleanings: list[CleanerStats] = []
    cleaned = threading.Event()

    def note(stats: CleanerStats) -> None:
        cleanings.append(stats)
        cleaned.set()

    thread = thread_for(log, {}, note)
    thread.start()
    written = 0
    try:
        while len(cleanings) < 3:
            if written and written % 4_000 == 0:
                # A writer that never waits can keep the cleaner from the only free core of a busy machine.
                assert cleaned.wait(PATIENCE_S), f"no cleaning ended after {written} records"
                cleaned.clear()
            keys = [b"key %d" % ((written + index) % 50) for index in range(10)]
            append(log, batch(*[b"%d" % (written + index) for index in range(10)], keys=keys))
            written += 10
            if written % 2000 == 0:
                last = {record.key: record.value for record in all_records(log)}
                recent = range(max(written - 50, 0), written)
                assert last == {b"key %d" % (value % 50): b"%d" % value for value in recent}
    finally:
        thread.stop()
    assert not thread.is_alive
    offsets = [record.offset for record in all_records(log)]
    assert offsets == sorted(set(offsets))
    assert log.log_end_offset == written
    assert sum(stats.records_read for stats in cleanings) > sum(stats.records_kept for stats in cleanings)


def test_a_stopped_thread_gives_up_its_current_cleaning(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(cleanup_policy=["compact"]))
    for _ in range(200):
        append(log, batch(b"x"))
    log.roll(NOW_MS)
    in_the_middle, stopping = threading.Event(), threading.Event()
    offsets: dict[object, int] = {}

    def make(pause: Callable[[int], None]) -> LogCleaner:
        def hold(size: int) -> None:
            in_the_middle.set()
            stopping.wait(PATIENCE_S)
            pause(size)

        return LogCleaner(lambda: [log], offsets, pause=hold)  # type: ignore[arg-type]

    thread = CleanerThread(make, now_ms=lambda: NOW_MS, backoff_ms=1)
    thread.start()
    assert in_the_middle.wait(PATIENCE_S)
    stopper = threading.Thread(target=thread.stop)
    stopper.start()
    while not thread.is_stopping:
        pass
    stopping.set()
    stopper.join(PATIENCE_S)
    assert not thread.is_alive
    assert offsets == {}
    assert len(all_records(log)) == 200
    assert not list(Path(log.directory).glob("*.cleaned"))


def test_a_failure_does_not_end_the_thread(tmp_path: Path, caplog: object) -> None:
    log = new_log(tmp_path, config(cleanup_policy=["compact"]))
    for _ in range(3):
        append(log, batch(b"x"))
    log.roll(NOW_MS)
    cleaned = threading.Event()
    failures = iter([True])

    def logs() -> list[PartitionLog]:
        if next(failures, False):
            raise RuntimeError("something unforeseen")
        return [log]

    offsets: dict[object, int] = {}
    thread = CleanerThread(
        lambda pause: LogCleaner(logs, offsets, pause=pause),  # type: ignore[arg-type]
        now_ms=lambda: NOW_MS,
        backoff_ms=1,
        on_cleaned=lambda stats: cleaned.set(),
    )
    thread.start()
    assert cleaned.wait(PATIENCE_S)
    thread.stop()
    assert offsets == {TP: 3}
