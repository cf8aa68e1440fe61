"""Send the flights to their topics: JSON, keyed by carrier, each row once.

The producer is idempotent, so a retry after a lost response does not write a second record. A run that resumes reads
the topics to learn which rows a killed run had written, and sends only the others.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.dataset import FlightDataset, SourceTotals
from barnabas.pipelines.flights.flight_topic import FlightTopics

__all__ = ["FlightProducer"]

_FLUSH_SECONDS = 0.25
_POLL_EVERY = 500
_SETTINGS = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "lz4",
    "partitioner": "murmur2_random",  # The partition of a key is the one that Java's clients choose.
    "linger.ms": 20,
    "message.timeout.ms": 60_000,
    "log_level": 0,
}


class FlightProducer(threading.Thread):
    """A thread beside the connectors. ``totals`` is complete, and ``error`` meaningful, once the thread has ended."""

    def __init__(
        self,
        topics: FlightTopics,
        dataset: FlightDataset,
        *,
        rate: int | None,
        resume: bool,
        notify: Callable[[str], None],
    ) -> None:
        super().__init__(name="flight-producer", daemon=True)
        self.totals = SourceTotals()
        self.error: PipelineError | None = None
        self.found = 0
        """Flights that an earlier run had written."""
        self._topics = topics
        self._notify = notify
        self._dataset = dataset
        self._rate = rate
        self._resume = resume
        self._acknowledged = 0
        self._stop_asked = threading.Event()
        self._delivery_error: KafkaError | None = None

    @property
    def produced(self) -> int:
        """The number of flights that are certainly in the topics."""
        return self.found + self._acknowledged

    def stop(self) -> None:
        self._stop_asked.set()
        if self.is_alive():
            self.join(timeout=10)

    def run(self) -> None:
        try:
            self._produce()
        except PipelineError as error:
            self.error = error
        except Exception as error:
            self.error = PipelineError(f"the producer failed: {error!r}")

    def _produce(self) -> None:
        present = self._topics.rows(self._note_found) if self._resume else bytearray()
        producer = Producer({**_SETTINGS, "bootstrap.servers": self._topics.bootstrap_server})
        encode = json.JSONEncoder(separators=(",", ":")).encode
        started, sent, is_second = time.monotonic(), 0, False
        for flight in self._dataset.read():
            self.totals.add(flight)
            row = int(flight["row"] or 0)
            if row >= self._topics.second_from and not is_second:
                is_second = True
                if self._topics.begin_second():
                    self._notify(f"the second half of the flights begins: topic {self._topics.second.name} is created")
            if present and present[row]:
                continue
            self._send(producer, self._topics.of(row), str(flight["carrier"]), encode(flight))
            sent += 1
            if sent % _POLL_EVERY == 0:
                producer.poll(0)
                self._pace(producer, started, sent)
                if self._stop_asked.is_set() or self._delivery_error:
                    break
        self._finish(producer)

    def _send(self, producer: Producer, topic: str, carrier: str, value: str) -> None:
        while True:
            try:
                producer.produce(topic, key=carrier, value=value, on_delivery=self._delivered)
                return
            except BufferError:
                producer.poll(0.1)  # The queue is full: wait for acknowledgements.
                if self._stop_asked.is_set() or self._delivery_error:
                    return
            except KafkaException as error:
                raise PipelineError(f"can't produce to {topic}: {error.args[0].str()}") from error

    def _pace(self, producer: Producer, started: float, sent: int) -> None:
        if self._rate is None:
            return
        while (ahead := sent / self._rate - (time.monotonic() - started)) > 0 and not self._stop_asked.is_set():
            producer.poll(min(ahead, 0.1))

    def _finish(self, producer: Producer) -> None:
        while producer.flush(_FLUSH_SECONDS) > 0 and not self._delivery_error:
            if self._stop_asked.is_set():
                producer.flush(5)
                break
        if self._delivery_error is not None:
            raise PipelineError(
                f"flights could not be written to {self._topics.first.name} at {self._topics.bootstrap_server}: "
                f"{self._delivery_error.str()}. Start again to resume the run."
            )

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._acknowledged += 1
        elif self._delivery_error is None:
            self._delivery_error = error

    def _note_found(self, rows: int) -> None:
        self.found = rows
