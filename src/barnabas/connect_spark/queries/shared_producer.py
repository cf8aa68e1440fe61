"""Kafka's producer in Spark's JVM, shared by this process and the tasks of Spark that write a batch.

Spark keeps one producer for equal settings in each JVM, and all its tasks send with it. With Spark inside the worker
there is one JVM. So the producer that is taken here, with the writer's settings, is the one that Spark's tasks use: a
transaction that begins here contains what they send.

Each object has a producer of its own. A task of Spark that was interrupted but still sends has the old producer, which
is closed, and fenced by the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from barnabas.connect_spark.sessions.scala_values import ScalaValues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.common.topic_partition import TopicPartition
    from barnabas.connect.decide.tasks.task_runtime import TopicRecord

__all__ = ["SharedProducer"]

_UNIQUE = "kafka.barnabas.producer"
"""A setting that Kafka ignores. It makes the writer's settings, by which Spark finds a producer, unique."""


class SharedProducer:
    """All methods block, and raise Py4JJavaError with Kafka's exception."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], transactional_id: str) -> None:
        """``options`` are those of Spark's writer."""
        self.options = {**options, "kafka.transactional.id": transactional_id, _UNIQUE: uuid4().hex}
        """The writer's options, with which it uses this producer."""
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        kafka, utilities = jvm.org.apache.spark.sql.kafka010, jvm.org.apache.spark.sql.catalyst.util
        settings = self._object(utilities, "CaseInsensitiveMap").apply(ScalaValues(jvm).map(self.options))
        parameters = self._object(kafka, "KafkaSourceProvider").kafkaParamsForProducer(settings)
        self._pool = self._object(kafka.producer, "InternalKafkaProducerPool")
        self._taken = self._pool.acquire(parameters)
        self._producer = self._taken.producer()
        self._is_closed = False

    def init_transactions(self) -> None:
        """Fence earlier producers of the transactional id, and end their transaction."""
        self._producer.initTransactions()

    def begin(self) -> None:
        self._producer.beginTransaction()

    def write(self, records: DataFrame) -> None:
        """Write records with the columns topic, partition, key, value and headers."""
        records.write.format("kafka").options(**self.options).save()

    def send(self, records: Iterable[TopicRecord]) -> None:
        """Send records. ``commit`` raises the error of one that could not be written."""
        make = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
        for record in records:
            value = None if record.value is None else bytearray(record.value)
            self._producer.send(make(record.topic, bytearray(record.key), value))

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group without members, as a part of the transaction."""
        common = self._jvm.org.apache.kafka
        positions = self._jvm.java.util.HashMap()
        for (topic, partition), offset in offsets.items():
            committed = common.clients.consumer.OffsetAndMetadata(offset)
            positions.put(common.common.TopicPartition(topic, partition), committed)
        self._producer.sendOffsetsToTransaction(positions, common.clients.consumer.ConsumerGroupMetadata(group))

    def commit(self) -> None:
        """Write everything that was sent, and commit."""
        self._producer.commitTransaction()

    def abort(self) -> None:
        self._producer.abortTransaction()

    def close(self) -> None:
        """Close without waiting. An open transaction is aborted by the next producer of its id, or by its time-out."""
        if not self._is_closed:
            self._is_closed = True
            self._producer.close(self._jvm.java.time.Duration.ofMillis(0))
            self._pool.release(self._taken)

    @staticmethod
    def _object(package: Any, name: str) -> Any:
        """Return a Scala object."""
        return getattr(getattr(package, f"{name}$"), "MODULE$")
