"""``python -m bench.partition_log``: the cost of a partition log alone, without network or clients.

Appends of several sizes (and how much of that is validation and the write), fetches, opening after a kill, and the
compaction of a million keys next to a thread that appends all the time, with the latency that those appends see.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.produce_validation import validate_produced
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.storage.cleaner_thread import CleanerThread
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_cleaner import CleanerStats, LogCleaner
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_recovery import load_log
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.produced_batch import produce_rules

NOW_MS = 1_700_000_000_000
TP = TopicPartition("bench", 0)
MIB = 1 << 20


def make_batch(count: int, size: int, *, first_key: int = 0) -> bytes:
    value = b"v" * size
    return build_batch([Record(at, NOW_MS, b"key-%010d" % (first_key + at), value) for at in range(count)])


@contextmanager
def new_log(config: TopicConfig | None = None) -> Iterator[PartitionLog]:
    folder = tempfile.mkdtemp(prefix="barnabas-bench-")
    try:
        yield PartitionLog.create(
            f"{folder}/{TP}", TP, topic_id=None, config=config or TopicConfig(), pool=FilePool(), now_ms=NOW_MS
        )
    finally:
        shutil.rmtree(folder)


def cpu_us(rounds: int, work: object) -> float:
    began = time.process_time()
    for _ in range(rounds):
        work()  # type: ignore[operator]
    return (time.process_time() - began) / rounds * 1e6


def measure_append(count: int, size: int, rounds: int) -> None:
    sent = memoryview(make_batch(count, size))
    with new_log() as log:
        rules = produce_rules(log.config)
        validation = cpu_us(rounds, lambda: validate_produced(sent, rules, now_ms=NOW_MS, partition=TP))
        with open(f"{log.directory}/raw", "wb", buffering=0) as file:
            written = cpu_us(rounds, lambda: os.writev(file.fileno(), (sent[:16], sent[16:])))
        os.unlink(f"{log.directory}/raw")
        total = cpu_us(rounds, lambda: log.append_as_leader(sent, leader_epoch=0, now_ms=NOW_MS))
        rest = total - validation - written
        print(f"append {count:5} x {size:5} B: {total:8.1f} us a batch ({validation:.1f} validation, "
              f"{written:.1f} write, {rest:.1f} log), {len(sent) / total:7.1f} MB/s")  # fmt: skip


def measure_fetch(rounds: int) -> None:
    sent = make_batch(16, 1000)
    with new_log() as log:
        while log.size_bytes() < 128 * MIB:
            log.append_as_leader(sent, leader_epoch=0, now_ms=NOW_MS)
        step = log.log_end_offset // rounds
        offsets = iter([at * step for at in range(rounds)] * 2)
        cost = cpu_us(rounds, lambda: log.read(next(offsets), MIB))
        small = iter([at * step for at in range(rounds)] * 2)
        small_cost = cpu_us(rounds, lambda: log.read(next(small), 16_384, min_one_message=True))
        print(f"fetch: {cost:.1f} us for 1 MiB (a mapping, not yet touched), {small_cost:.1f} us for 16 KiB")


def measure_recovery(count: int, size: int, total: int) -> None:
    sent = make_batch(count, size)
    with new_log() as log:
        path = log.active_segment.path
        with open(path, "wb") as file:
            for at in range(total // len(sent)):
                file.write(struct.pack(">qii", at * count, len(sent) - 12, 0) + sent[16:])
        began, cpu = time.perf_counter(), time.process_time()
        load_log(
            log.directory, TP, config=log.config, pool=FilePool(), log_start_offset=0, recovery_point=0,
            is_clean=False, now_ms=NOW_MS,
        )  # fmt: skip
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        print(f"open after a kill: {total // MIB} MiB in batches of {len(sent)} B: {took:.2f} s, {cpu:.2f} CPU-seconds")


def measure_compaction(keys: int) -> None:
    folder = tempfile.mkdtemp(prefix="barnabas-bench-")
    config = TopicConfig({"cleanup.policy": ["compact"], "segment.bytes": 64 * MIB})
    manager = LogManager([folder], default_config=config)
    manager.startup(now_ms=NOW_MS)
    log = manager.get_or_create(TP, None, now_ms=NOW_MS)
    for first in range(0, 2 * keys, 100):
        log.append_as_leader(make_batch(100, 100, first_key=first % keys), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.maybe_advance_high_watermark(log.log_end_offset)
    memory_before = resident_bytes()
    done = threading.Event()
    result: list[CleanerStats] = []

    def note(stats: CleanerStats) -> None:
        result.append(stats)
        done.set()

    def make_cleaner(pause: Callable[[int], None]) -> LogCleaner:
        return LogCleaner(
            manager.logs, manager.cleaner_offsets, checkpoint=manager.checkpoint_cleaner_offsets, pause=pause
        )

    sent, latencies, peak = make_batch(1, 1000), [], 0
    quiet = sorted(append_latency(log, sent) for _ in range(2000))
    began = time.perf_counter()
    thread = CleanerThread(make_cleaner, now_ms=lambda: NOW_MS, backoff_ms=10, on_cleaned=note)
    thread.start()
    while not done.wait(0.001):
        latencies.append(append_latency(log, sent))
        peak = max(peak, resident_bytes())
    took = time.perf_counter() - began
    thread.stop()
    latencies.sort()
    stats = result[0]
    print(f"compaction: {stats.records_read:,} records, {stats.keys:,} keys: {took:.1f} s, {stats.records_kept:,} kept"
          f", {stats.bytes_before / MIB:.0f} -> {stats.bytes_after / MIB:.0f} MiB, "
          f"{(peak - memory_before) / MIB:.0f} MiB of memory above {memory_before / MIB:.0f}")  # fmt: skip
    print(f"  appends meanwhile: {percentiles(latencies)}; before: {percentiles(quiet)}")
    manager.shutdown(now_ms=NOW_MS)
    shutil.rmtree(folder)


def append_latency(log: PartitionLog, sent: bytes) -> float:
    began = time.perf_counter()
    log.append_as_leader(sent, leader_epoch=0, now_ms=NOW_MS)
    return time.perf_counter() - began


def percentiles(values: list[float]) -> str:
    middle = statistics.median(values) * 1e6
    return f"median {middle:.0f} us, 99 % {values[int(len(values) * 0.99)] * 1e6:.0f} us, max {values[-1] * 1e6:.0f} us"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.partition_log", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys to compact, each written twice")
    options = parser.parse_args()
    measure_append(1, 100, 20_000)
    measure_append(16, 1000, 10_000)
    measure_append(1000, 1000, 300)
    measure_fetch(5000)
    measure_recovery(1, 1000, 300 * MIB)
    measure_recovery(16, 1000, 300 * MIB)
    measure_compaction(options.keys)


if __name__ == "__main__":
    main()
