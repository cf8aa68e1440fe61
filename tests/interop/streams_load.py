"""What a streams application of the tests reads and must write: counts and joins, each exactly once.

Each count of a word is written, so the counts of a word must be 1, 2, 3, ... without a gap or a repetition: more than
a correct last count shows.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from random import Random, SystemRandom

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.testing import Cluster
from tests.peers.streams_application import StreamsApplication

__all__ = [
    "PARTITIONS",
    "REPARTITION",
    "TOPICS",
    "Load",
    "await_everything",
    "disturb",
    "first_offsets",
    "random_of_run",
]

PARTITIONS = 3
TOPICS = ("lines", "counts", "customers", "orders", "named-orders", "views", "clicks", "pairs")
CUSTOMERS = 50
WINDOW_MS = 10_000
KILLS = int(os.environ.get("BARNABAS_STREAMS_KILLS", "8"))
REPARTITION = "application-words-repartition"


class Load:
    """What was written, and what must therefore be read."""

    def __init__(self, servers: str, random: Random) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._random = random
        self._sent = 0
        self._first_ms = int(time.time() * 1000)  # Streams deletes changelogs of windows by time.
        self.words: dict[str, int] = defaultdict(int)
        self.named_orders: list[tuple[str, str]] = []
        self.pairs: list[tuple[str, str]] = []

    def fill_table(self) -> None:
        for number in range(CUSTOMERS):
            self._write("customers", f"c{number}", f"name{number}", self._first_ms)
        self.flush()

    def write(self, count: int) -> None:
        """Write ``count`` records to each input, in the order of their timestamps."""
        for number in range(self._sent, self._sent + count):
            now_ms = self._first_ms + 1 + number * 10
            self._write_line(number, now_ms)
            customer = self._random.randrange(CUSTOMERS)
            self._write("orders", f"c{customer}", f"order{number}", now_ms)
            self.named_orders.append((f"c{customer}", f"order{number}|name{customer}"))
            gap_ms = self._random.randint(0, 2 * WINDOW_MS)
            self._write("views", f"v{number}", f"view{number}", now_ms)
            self._write("clicks", f"v{number}", f"click{number}", now_ms + gap_ms)
            if gap_ms <= WINDOW_MS:
                self.pairs.append((f"v{number}", f"view{number}|click{number}"))
            self._producer.poll(0)
        self._sent += count
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(60) == 0

    def _write_line(self, number: int, now_ms: int) -> None:
        words = [f"w{self._random.randrange(40)}" for _ in range(3)]
        for word in words:
            self.words[word] += 1
        self._write("lines", f"l{number}", " ".join(words), now_ms)

    def _write(self, topic: str, key: str, value: str, timestamp_ms: int) -> None:
        self._producer.produce(topic, value, key, timestamp=timestamp_ms)


def read(servers: str, topic: str) -> Iterator[tuple[str, str]]:
    """Return the committed records that a topic has now, in the order of each partition."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    open_partitions = set(range(PARTITIONS))
    while open_partitions:
        message = consumer.poll(30)
        assert message is not None, f"no answer about {topic}"
        error = message.error()
        if error is not None:
            if error.name() == "_PARTITION_EOF":
                open_partitions.discard(message.partition() or 0)
            continue
        yield (message.key() or b"").decode(), (message.value() or b"").decode()
    consumer.close()


def await_everything(servers: str, load: Load, *, timeout_s: float = 90) -> None:
    """Wait until all results are committed, or fail; then compare them with what they must be."""
    deadline = time.monotonic() + timeout_s
    wanted = {"counts": sum(load.words.values()), "named-orders": len(load.named_orders), "pairs": len(load.pairs)}
    while True:
        seen = {topic: list(read(servers, topic)) for topic in wanted}
        missing = {topic: count - len(seen[topic]) for topic, count in wanted.items() if count > len(seen[topic])}
        if not missing:
            break
        assert time.monotonic() < deadline, f"missing after {timeout_s:g} s: {missing}"
        time.sleep(0.5)
    counts: dict[str, list[int]] = defaultdict(list)
    for word, count in seen["counts"]:
        counts[word].append(int(count))
    assert counts == {word: list(range(1, total + 1)) for word, total in load.words.items()}
    assert sorted(seen["named-orders"]) == sorted(load.named_orders)
    assert sorted(seen["pairs"]) == sorted(load.pairs)


def random_of_run() -> Random:
    seed = SystemRandom().randrange(2**31)
    print(f"seed {seed}")
    return Random(seed)


def first_offsets(servers: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    found = [consumer.get_watermark_offsets(TopicPartition(topic, number), 30)[0] for number in range(PARTITIONS)]
    consumer.close()
    return found


def disturb(cluster: Cluster, instances: list[StreamsApplication], load: Load, random: Random) -> list[str]:
    """Kill brokers and instances in turn while records are written. An instance may lose its state with its disk."""
    done = []
    for _ in range(KILLS):
        load.write(random.randint(20, 100))
        if random.random() < 0.5:
            broker = random.choice(cluster.brokers)
            done.append(f"broker {broker.node_id}")
            broker.kill()
            load.write(random.randint(0, 100))
            time.sleep(random.uniform(0, 3))
            broker.start()
        else:
            number = random.randrange(len(instances))
            is_lost = random.random() < 0.5
            done.append(f"instance {number}{' with its state' if is_lost else ''}")
            instances[number].kill()
            if is_lost:
                shutil.rmtree(instances[number].folder / "state")
            load.write(random.randint(0, 100))
            instances[number].start(timeout_s=120)
    return done
