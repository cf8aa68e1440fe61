"""``python -m bench.record_batch``: what record batches cost by themselves: build, check, judge and read, by codec."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from barnabas.protocol.compression import Compression
from barnabas.protocol.produce_validation import ProduceRules, validate_produced
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_batch_builder import build_batch

NOW_MS = 1_750_000_000_000
SHAPES = {"1 x 1 KiB": (1, 1024), "15 x 1 KiB": (15, 1024), "160 x 100 B": (160, 100), "1000 x 1 KiB": (1000, 1024)}
ROUNDS = 7


def best_us(work: Callable[[], object]) -> float:
    """The CPU time of one call in the best of some rounds: other processes only ever make it worse."""
    rounds = []
    for _ in range(ROUNDS):
        calls, began = 0, time.process_time()
        while time.process_time() - began < 0.03:
            work()
            calls += 1
        rounds.append((time.process_time() - began) / calls)
    return min(rounds) * 1e6


def times_us(records: list[Record], codec: Compression) -> tuple[float, ...]:
    """Build, checksum, what a produce request pays, and reading every record."""
    batch, rules = build_batch(records, compression=codec), ProduceRules(max_message_bytes=1 << 30)
    return (
        best_us(lambda: build_batch(records, compression=codec)),
        best_us(lambda: BatchView(batch).ensure_valid()),
        best_us(lambda: validate_produced(batch, rules, now_ms=NOW_MS, partition="t-0")),
        best_us(lambda: list(BatchView(batch).records())),
    )


def main() -> None:
    print(f"{'records':<14}{'codec':<8}{'build':>10}{'checksum':>10}{'produce':>10}{'read':>10}   us per batch")
    for shape, (count, size) in SHAPES.items():
        records = [Record(index, NOW_MS + index, None, os.urandom(size // 2).hex().encode()) for index in range(count)]
        for codec in Compression:
            shown = "".join(f"{value:>10.1f}" for value in times_us(records, codec))
            print(f"{shape:<14}{codec.name.lower():<8}{shown}")


if __name__ == "__main__":
    main()
