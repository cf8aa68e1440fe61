"""Producers and readers that continue through every fault, and report what they saw to a ``RecordsCheck``."""

from __future__ import annotations

import contextlib
import random
import re
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.history.payload import RecordId, Spoilt, decode, encode
from tests.history.records_check import RecordsCheck

__all__ = ["CLIENT_SETTINGS", "RECORD_BYTES", "Client", "HistoryProducer", "HistoryReader", "final_read"]

CLIENT_SETTINGS: dict[str, str | int | float | bool] = {
    "retry.backoff.ms": 100,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.timeout.ms": 6000,
    "topic.metadata.refresh.interval.ms": 5000,
    # A client whose metadata lists only dead brokers contacts the bootstrap servers again; the default is five minutes.
    "metadata.recovery.rebootstrap.trigger.ms": 5000,
    "log_level": 0,
}
_SIZES = (64, 200, 1000, 4000)
RECORD_BYTES = sum(_SIZES) // len(_SIZES)
"""Average size of a value."""
_DELIVERY_TIMEOUT_MS = 300_000
"""Longer than any fault lasts: a client that gives a record up may send the records behind it twice."""
_FLUSH_TIMEOUT_S = 60.0
_RECORDS_BACK = 3000
_LOST_PLACE = {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}
_OUT_OF_RANGE = re.compile(r"Offset out of range \(broker (\d+)\)")


def broker_whose_log_ends_before(error: KafkaError) -> int | None:
    """Return the broker that answered OFFSET_OUT_OF_RANGE, or None for another error. Only the library's text names
    it."""
    found = _OUT_OF_RANGE.search(error.str())
    return int(found[1]) if found else None


class Client(ABC):
    """A thread that works until ``ask_to_stop``. ``counts`` holds what it experienced."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.crash: BaseException | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run_noting_a_crash, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._ends.set()

    def stop(self, *, timeout_s: float = 90) -> None:
        """Stop the thread. Raise the error that ended it early, if one did."""
        self.ask_to_stop()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            frame = sys._current_frames()[self._thread.ident or 0]
            where = "".join(traceback.format_stack(frame, limit=3))
            raise AssertionError(f"{self.name} did not end in {timeout_s} s; it is at\n{where}")
        if self.crash is not None:
            raise self.crash

    def _run_noting_a_crash(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.crash = error

    @abstractmethod
    def _run(self) -> None: ...


class HistoryProducer(Client):
    """Idempotent, acks=all. When its session with the brokers is permanently lost, it continues under another name."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        check: RecordsCheck,
        *,
        name: str,
        rate: int,
        seed: int,
        in_flight: int = 5,
    ) -> None:
        """``in_flight``: the maximum number of requests in flight on a connection. With more than one, the client
        itself may write a record twice: see ``sequences_check``."""
        super().__init__(name)
        self._bootstrap, self._topic, self._partitions, self._check = bootstrap, topic, partitions, check
        self._in_flight = in_flight
        self._rng = random.Random(f"{seed} {name}")
        self._burst = max(1, rate // 20)
        self._life = 0
        self._last_answer_s = time.monotonic()

    def _run(self) -> None:
        while not self._ends.is_set():
            self._life += 1
            self._live(f"{self.name}.{self._life}")

    def _live(self, name: str) -> None:
        producer = Producer(
            {
                **CLIENT_SETTINGS,
                "bootstrap.servers": self._bootstrap,
                "client.id": name,
                "enable.idempotence": True,
                "acks": "all",
                "max.in.flight.requests.per.connection": self._in_flight,
                "linger.ms": self._rng.choice([0, 5, 20]),
                "compression.type": self._rng.choice(["none", "lz4", "gzip", "zstd"]),
                "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
                "queue.buffering.max.messages": 2000,
            }
        )
        number, is_fatal = 0, False
        while not self._ends.wait(0.05) and not is_fatal:
            for _ in range(self._burst):
                try:
                    self._send(producer, RecordId(name, number))
                    number += 1
                except BufferError:
                    break
                except KafkaException as error:
                    self.counts[f"ended: {error.args[0].name()}"] += 1
                    is_fatal = True
                    break
            producer.poll(0)
        self.counts["lives"] += 1
        if producer.flush(_FLUSH_TIMEOUT_S) and not is_fatal:
            raise AssertionError(f"{name} did not report the outcome of all of its records")

    def _send(self, producer: Producer, record: RecordId) -> None:
        partition = self._rng.randrange(self._partitions)
        value = encode(record, partition, self._rng.choice(_SIZES))

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self.counts["failed"] += 1
                self._check.gave_up(record.producer)
                self.counts[f"failed: {error.name()}"] += 1
                return
            self.counts["acknowledged"] += 1
            self._note_silence()
            offset = message.offset()
            self._check.acknowledged(record, message.partition(), offset if offset >= 0 else None)

        self._check.sent(record, partition)
        try:
            producer.produce(self._topic, value=value, partition=partition, on_delivery=delivered)
        except (BufferError, KafkaException):
            self._check.not_sent(record, partition)
            raise
        self.counts["sent"] += 1

    def _note_silence(self) -> None:
        now_s = time.monotonic()
        silence_ms = int((now_s - self._last_answer_s) * 1000)
        self.counts["longest silence, ms"] = max(self.counts["longest silence, ms"], silence_ms)
        self._last_answer_s = now_s


class HistoryReader(Client):
    """Reads all partitions from the start, without a group; occasionally it restarts at a random offset."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, check: RecordsCheck, *, name: str, seed: int, jumps: bool
    ) -> None:
        super().__init__(name)
        self._bootstrap, self._topic, self._partitions, self._check = bootstrap, topic, partitions, check
        self._rng = random.Random(f"{seed} {name}")
        self._jumps = jumps
        self._positions = [0] * partitions

    def _run(self) -> None:
        while not self._ends.is_set():
            consumer = Consumer(
                {
                    **CLIENT_SETTINGS,
                    "bootstrap.servers": self._bootstrap,
                    "client.id": self.name,
                    "group.id": f"never-joined-by-{self.name}",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",
                    "fetch.wait.max.ms": 100,
                }
            )
            starts = [
                self._rng.randint(max(0, position - _RECORDS_BACK), position) if self._jumps else position
                for position in self._positions
            ]
            for partition, start in enumerate(starts):
                self._check.reader_begins(self.name, partition, start)
            consumer.assign([TopicPartition(self._topic, partition, start) for partition, start in enumerate(starts)])
            try:
                self._read(consumer)
            finally:
                consumer.close()

    def _read(self, consumer: Consumer) -> None:
        for _ in range(self._rng.randrange(20, 100)):
            if self._ends.is_set():
                return
            for message in consumer.consume(500, 0.2):
                self._take(message)

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is not None:
            self.counts[f"error: {error.name()}"] += 1
            if error.code() in _LOST_PLACE:
                refusal = f"{error}, {time.monotonic():.1f} s of the clock"
                broker = broker_whose_log_ends_before(error)
                self._check.refused_offset(self.name, message.partition(), message.offset(), refusal, broker=broker)
            return
        self.counts["read"] += 1
        partition, offset = message.partition(), message.offset()
        self._positions[partition] = max(self._positions[partition], offset + 1)
        report_records_seen(self._check, self.name, message)


def report_records_seen(check: RecordsCheck, reader: str, message: Any) -> None:
    try:
        record, _ = decode(message.value())
    except Spoilt as error:
        check.seen_spoilt(reader, message.partition(), message.offset(), str(error))
    else:
        check.seen(reader, message.partition(), message.offset(), record)


def final_read(
    bootstrap: str, topic: str, partitions: Sequence[int], check: RecordsCheck,
    *, timeout_s: float, decoded: Callable[[bytes], tuple[RecordId, int]] = decode,
) -> int:  # fmt: skip
    """Read all partitions again after all activity has ended. Return the number of records."""
    consumer = Consumer(
        {
            **CLIENT_SETTINGS,
            "bootstrap.servers": bootstrap,
            "group.id": "final-read",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    ends: dict[int, int] = {}
    for partition in partitions:
        start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 20)
        check.final_range(partition, start, end)
        if end > start:
            ends[partition] = end
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    count = 0
    with contextlib.closing(consumer):
        misses = 0
        while ends and misses < timeout_s:
            messages = consumer.consume(1000, 1.0)
            misses = 0 if messages else misses + 1
            for message in messages:
                if message.error() is not None:
                    continue
                count += 1
                _take_final(check, message, decoded)
                if int(message.offset() or 0) + 1 >= ends.get(message.partition() or 0, 0):
                    ends.pop(message.partition() or 0, None)
    return count


def _take_final(check: RecordsCheck, message: Any, decoded: Callable[[bytes], tuple[RecordId, int]]) -> None:
    try:
        record, _ = decoded(message.value())
    except Spoilt as error:
        check.seen_spoilt("the final read", message.partition(), message.offset(), str(error))
    else:
        check.final(message.partition(), message.offset(), record)
