"""Appends to the partition logs of a folder until it is killed, and prints each acknowledged record.

Run it as ``python -m tests.simulation.log_writer FOLDER SEED``. Each line is flushed after the append has returned:
``idempotent <sequence> <offset>`` or ``compacted <key> <value> <offset>``. The cleaner runs in its thread meanwhile,
and a line ``cleaned`` follows when it has written its checkpoint.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.storage.cleaner_thread import CleanerThread
from barnabas.storage.log_cleaner import LogCleaner
from barnabas.storage.log_manager import LogManager
from barnabas.storage.partition_log import PartitionLog

NOW_MS = 1_700_000_000_000
IDEMPOTENT, COMPACTED = TopicPartition("idempotent", 0), TopicPartition("compacted", 0)
PRODUCER_ID = 4
DIRTY_RECORDS_MAX = 700
"""More than two segments: the writer waits for the cleaner, which is slower, so that the logs stay small."""
KEYS = 20


def config_of(topic: str) -> TopicConfig:
    values: dict[str, object] = {"internal.segment.bytes": 20_000, "index.interval.bytes": 500}
    if topic == "compacted":
        values |= {"cleanup.policy": ["compact"], "min.cleanable.dirty.ratio": 0.01, "file.delete.delay.ms": 0}
    return TopicConfig(values)


def open_logs(folder: str) -> tuple[LogManager, PartitionLog, PartitionLog]:
    manager = LogManager([folder])
    manager.startup(now_ms=NOW_MS, config_of=config_of)
    logs = [
        manager.get_or_create(partition, Uuid.from_int(1000), now_ms=NOW_MS, config=config_of(partition.topic))
        for partition in (IDEMPOTENT, COMPACTED)
    ]
    if manager.damaged:
        raise AssertionError(f"more than a torn tail was lost: {manager.damaged}")
    for log in logs:
        log.maybe_advance_high_watermark(log.log_end_offset)
    return manager, logs[0], logs[1]


def report(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")  # One write: two threads report.
    sys.stdout.flush()


def main() -> None:
    folder, seed = sys.argv[1], int(sys.argv[2])
    draw = random.Random(seed)
    manager, idempotent, compacted = open_logs(folder)

    def checkpoint() -> None:
        manager.checkpoint_cleaner_offsets()
        report("cleaned")

    def make_cleaner(pause: Callable[[int], None]) -> LogCleaner:
        return LogCleaner(manager.logs, manager.cleaner_offsets, checkpoint=checkpoint, pause=pause)

    CleanerThread(make_cleaner, now_ms=lambda: NOW_MS, backoff_ms=5).start()
    known = idempotent.producers.producers.get(PRODUCER_ID)
    sequence = known.last_sequence + 1 if known is not None else 0
    report("ready")
    while True:
        count = draw.randrange(1, 4)
        records = [Record(at, NOW_MS, None, b"%d" % (sequence + at)) for at in range(count)]
        sent = build_batch(records, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
        for attempt in range(draw.randrange(1, 3)):
            info = idempotent.append_as_leader(sent, leader_epoch=0, now_ms=NOW_MS)
            if info.duplicate != (attempt > 0):
                raise AssertionError(f"attempt {attempt} of sequence {sequence} returned {info}")
        report("idempotent", sequence + count - 1, info.last_offset)
        sequence += count
        key, value = draw.randrange(KEYS), compacted.log_end_offset
        record = Record(0, NOW_MS, b"%d" % key, b"%d" % value)
        info = compacted.append_as_leader(build_batch([record]), leader_epoch=0, now_ms=NOW_MS)
        compacted.maybe_advance_high_watermark(compacted.log_end_offset)
        report("compacted", key, value, info.last_offset)
        while compacted.log_end_offset - manager.cleaner_offsets.get(COMPACTED, 0) > DIRTY_RECORDS_MAX:
            time.sleep(0.001)


if __name__ == "__main__":
    main()
