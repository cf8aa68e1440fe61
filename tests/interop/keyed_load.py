"""The records of a compacted topic, and the producer that writes them: ``python -m tests.interop.keyed_load BOOTSTRAP
TOPIC KEYS``.

Every key has two values; every second key has a third, which is a tombstone for every tenth key. The records have a
fixed order from one producer to partition 0, so that the number of a record is its offset.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

__all__ = ["final_state", "key_of", "record_count", "records"]

STEP = 7_368_787
"""A prime: neighbours in the log are not neighbours among the keys."""


def key_of(number: int) -> bytes:
    return b"key-%09d" % number


def records(keys: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield keys and values in offset order; a value contains its own offset."""
    offset = 0
    for turn in range(3):
        for index in range(keys):
            number = index * STEP % keys
            if turn == 2 and number % 2:
                continue
            is_tombstone = turn == 2 and number % 10 == 0
            yield key_of(number), None if is_tombstone else b"%010d of turn %d" % (offset, turn) + b"." * 40
            offset += 1


def record_count(keys: int) -> int:
    return 2 * keys + (keys + 1) // 2


def final_state(keys: int) -> dict[bytes, tuple[int, bytes | None]]:
    """Return each key's last offset and value."""
    return {key: (offset, value) for offset, (key, value) in enumerate(records(keys))}


def main(bootstrap: str, topic: str, keys: int) -> int:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 200_000,
            "retry.backoff.ms": 50,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    failures: list[str] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(str(error))

    for key, value in records(keys):
        while True:
            try:
                producer.produce(topic, value=value, key=key, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    left = producer.flush(120)
    print(f"{left} {len(failures)} {failures[:1]}")
    return 1 if left or failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
