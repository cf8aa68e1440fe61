"""The topics that the flights stream through: created, read and deleted with an ordinary Kafka client.

The second half of the stream has a topic of its own, created after the first half is sent. Connectors that subscribe to
a pattern find it while they run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipelines.errors import PipelineError

__all__ = ["SECOND_HALF", "FlightTopic", "FlightTopics", "row_of"]

SECOND_HALF = "-second-half"

_REQUEST_TIMEOUT_SECONDS = 20.0
_DELETE_TIMEOUT_SECONDS = 60.0
_READ_AT_ONCE = 10_000
_READ_PAUSE_SECONDS = 1.0
_NO_BROKER_ANSWERED = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


class FlightTopic:
    def __init__(self, bootstrap_server: str, name: str) -> None:
        self.bootstrap_server = bootstrap_server
        self.name = name
        self._admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})

    def id(self) -> str | None:
        """Return the topic's id, or None if the topic does not exist. A topic that is created again has another id."""
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
        """Create the topic and return its id. Wait while an earlier topic of that name is still being deleted."""
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

    def rows(self, flights: int, on_progress: Callable[[int], None]) -> bytearray:
        """Return one byte per row of the source: 1 if the topic holds that flight already.

        The whole topic is read, from its first record to its present end. So it does not matter how a killed producer
        had spread its flights, nor what else was written to the topic since.
        """
        present = bytearray(flights)
        consumer = self._consumer()
        try:
            ends = self._ends(consumer)
            consumer.assign([TopicPartition(self.name, partition, 0) for partition in ends])
            while ends:
                messages = consumer.consume(_READ_AT_ONCE, timeout=_READ_PAUSE_SECONDS)
                for message in messages:
                    error = message.error()
                    if error is not None:
                        raise PipelineError(
                            f"topic {self.name} can't be read at {self.bootstrap_server}: {error.str()}"
                        )
                    row = row_of(message.value())
                    if row is not None and 0 <= row < flights:
                        present[row] = 1
                on_progress(sum(present))
                for position in consumer.position([TopicPartition(self.name, partition) for partition in ends]):
                    if position.offset >= ends[position.partition]:
                        del ends[position.partition]
        except KafkaException as error:
            raise self._failed("read", error) from error
        finally:
            consumer.close()
        return present

    def ends(self) -> dict[int, int]:
        """Return the end offsets of the partitions that have records."""
        consumer = self._consumer()
        try:
            return self._ends(consumer)
        except KafkaException as error:
            raise self._failed("read the end offsets of", error) from error
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap_server,
                "group.id": f"{self.name}-resume",  # The client requires one. It is never joined.
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.min.bytes": 1,
                "log_level": 0,
            }
        )

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
        if error.args[0].code() in _NO_BROKER_ANSWERED:
            return PipelineError(
                f"no broker answers at {self.bootstrap_server} ({error.args[0].str()}). Check the address, "
                "and that the cluster runs and is reachable from here by the addresses that it advertises."
            )
        return PipelineError(f"can't {verb} topic {self.name} at {self.bootstrap_server}: {error.args[0].str()}")


class FlightTopics:
    """The topic, and the topic for the second half of ``flights`` flights."""

    def __init__(self, bootstrap_server: str, name: str, *, flights: int, partitions: int) -> None:
        self.bootstrap_server = bootstrap_server
        self.first = FlightTopic(bootstrap_server, name)
        self.second = FlightTopic(bootstrap_server, name + SECOND_HALF)
        self.second_from = (flights + 1) // 2
        """The first row of the second half."""
        self._flights = flights
        self._partitions = partitions
        self._admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})

    @property
    def pattern(self) -> str:
        """Return a pattern that matches both names and no other."""
        return f"{self.first.name.replace('.', '[.]')}({SECOND_HALF})?"

    def of(self, row: int) -> str:
        return (self.first if row < self.second_from else self.second).name

    def begin_second(self) -> bool:
        """Create the topic of the second half. Return False if it exists already."""
        if self.second.id() is not None:
            return False
        self.second.create(self._partitions)
        return True

    def rows(self, on_progress: Callable[[int], None]) -> bytearray:
        """Return one byte per row of the source: 1 if one of the topics holds that flight already."""
        present = self.first.rows(self._flights, on_progress)
        if self.second.id() is not None:
            found = sum(present)
            later = self.second.rows(self._flights, lambda rows: on_progress(found + rows))
            present = bytearray(map(max, present, later))
        return present

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the end offsets by topic and partition, for partitions that have records."""
        topics = [self.first] if self.second.id() is None else [self.first, self.second]
        return {(topic.name, partition): end for topic in topics for partition, end in topic.ends().items()}

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a consumer group in these topics; empty before the first commit."""
        request = ConsumerGroupTopicPartitions(group)
        try:
            found = self._admin.list_consumer_group_offsets([request], request_timeout=_REQUEST_TIMEOUT_SECONDS)
            positions = found[group].result().topic_partitions or []
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return {}
            raise self.first._failed("read the committed offsets of", error) from error
        names = (self.first.name, self.second.name)
        return {
            (position.topic, position.partition): position.offset
            for position in positions
            if position.topic in names and position.offset > 0
        }

    def delete(self) -> None:
        """Delete the first topic last: while it exists, the second one may exist too."""
        self.second.delete()
        self.first.delete()

    def forget_group(self, group: str) -> None:
        """Delete the group. It may have offsets of earlier topics with these names."""
        try:
            self._admin.delete_consumer_groups([group], request_timeout=_REQUEST_TIMEOUT_SECONDS)[group].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise self.first._failed(f"remove the group {group} of", error) from error


def row_of(value: bytes | None) -> int | None:
    """Return the row number in a record's value; None if the record is not a flight of ours."""
    try:
        flight = json.loads(value or b"")
    except ValueError:
        return None
    row = flight.get("row") if isinstance(flight, dict) else None
    return row if type(row) is int else None
