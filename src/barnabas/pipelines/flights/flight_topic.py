"""The topic that the flights stream through: made, looked into and removed with an ordinary Kafka client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipelines.errors import PipelineError

__all__ = ["FlightTopic", "row_of"]

_REQUEST_TIMEOUT_SECONDS = 20.0
_DELETE_TIMEOUT_SECONDS = 60.0
_READ_AT_ONCE = 10_000
_NOBODY_ANSWERED = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


class FlightTopic:
    def __init__(self, bootstrap_server: str, name: str) -> None:
        self.bootstrap_server = bootstrap_server
        self.name = name
        self._admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})

    def id(self) -> str | None:
        """The topic's id, or None if there is no such topic. A topic made anew under the same name has another one."""
        described = self._admin.describe_topics(TopicCollection([self.name]), request_timeout=_REQUEST_TIMEOUT_SECONDS)[
            self.name
        ]
        try:
            return str(described.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._failed("describe", error) from error

    def create(self, partitions: int) -> str:
        """Make the topic and return its id. Waits while an earlier one of that name is still being removed."""
        deadline = time.monotonic() + _DELETE_TIMEOUT_SECONDS
        while True:
            future = self._admin.create_topics(
                [NewTopic(self.name, num_partitions=partitions, replication_factor=1)],
                request_timeout=_REQUEST_TIMEOUT_SECONDS,
            )[self.name]
            try:
                future.result()
                break
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise self._failed("create", error) from error
            time.sleep(0.2)
        return self._await_id(deadline)

    def delete(self) -> None:
        try:
            self._admin.delete_topics([self.name], request_timeout=_REQUEST_TIMEOUT_SECONDS)[self.name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._failed("delete", error) from error
        deadline = time.monotonic() + _DELETE_TIMEOUT_SECONDS
        while self.id() is not None and time.monotonic() < deadline:
            time.sleep(0.1)

    def rows(self, flights: int, tell: Callable[[int], None]) -> bytearray:
        """One byte per row of the source: 1 if the topic holds that flight already.

        The whole topic is read, from its first record to what is its end now. That needs no knowledge of how a killed
        producer had spread its flights, and no trust in what else was written to the topic since.
        """
        present = bytearray(flights)
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_server,
                "group.id": f"{self.name}-resume",  # Never joined, nothing is committed: the client insists on one.
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.min.bytes": 1,
                "log_level": 0,
            }
        )
        try:
            ends = self._ends(consumer)
            consumer.assign([TopicPartition(self.name, partition, 0) for partition in ends])
            while ends:
                messages = consumer.consume(_READ_AT_ONCE, timeout=1.0)
                for message in messages:
                    error = message.error()
                    if error is not None:
                        raise PipelineError(
                            f"topic {self.name} can't be read at {self.bootstrap_server}: {error.str()}"
                        )
                    row = row_of(message.value())
                    if row is not None and 0 <= row < flights:
                        present[row] = 1
                tell(sum(present))
                for position in consumer.position([TopicPartition(self.name, partition) for partition in ends]):
                    if position.offset >= ends[position.partition]:
                        del ends[position.partition]
        except KafkaException as error:
            raise self._failed("read", error) from error
        finally:
            consumer.close()
        return present

    def _ends(self, consumer: Consumer) -> dict[int, int]:
        metadata = consumer.list_topics(self.name, timeout=_REQUEST_TIMEOUT_SECONDS).topics[self.name]
        ends = {
            partition: consumer.get_watermark_offsets(
                TopicPartition(self.name, partition), timeout=_REQUEST_TIMEOUT_SECONDS
            )[1]
            for partition in metadata.partitions
        }
        return {partition: end for partition, end in ends.items() if end > 0}

    def _await_id(self, deadline: float) -> str:
        while (topic_id := self.id()) is None:
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"topic {self.name} was created at {self.bootstrap_server}, but did not appear there."
                )
            time.sleep(0.1)
        return topic_id

    def _failed(self, verb: str, error: KafkaException) -> PipelineError:
        if error.args[0].code() in _NOBODY_ANSWERED:
            return PipelineError(
                f"no broker answers at {self.bootstrap_server} ({error.args[0].str()}). Check the address, "
                "and that the cluster is up and reachable from here by the addresses that it advertises."
            )
        return PipelineError(f"can't {verb} topic {self.name} at {self.bootstrap_server}: {error.args[0].str()}")


def row_of(value: bytes | None) -> int | None:
    """The row number in a record's value; None if it is no flight of ours."""
    try:
        flight = json.loads(value or b"")
    except ValueError:
        return None
    row = flight.get("row") if isinstance(flight, dict) else None
    return row if type(row) is int else None
