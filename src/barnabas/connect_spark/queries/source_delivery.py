"""How the batches of a source become safe together with their positions: at least once, or exactly once (KIP-618).

At least once, a batch is written first and its positions afterwards: between the two, a crash repeats the batch.

Exactly once, both are one transaction. Its steps, and what a crash after each leaves behind:

1. The leader has fenced the tasks of earlier sets (``decide.herder.zombie_fencing``).
2. The producer is initialised: an open transaction of an earlier run is aborted, a prepared one is completed.
3. ``confirm``: the task still has the newest configs. Its positions are read after this, up to the last transaction.
4. The transaction begins. A crash from here to 7 leaves an open transaction, which step 2 of the next run aborts.
5. Spark's tasks write the records of the batch.
6. The positions are sent to the offset topic, and offsets of a consumer group if the source has some.
7. The transaction is committed: by the coordinator, as a whole. A crash before its answer leaves either state, which
   step 2 and 3 of the next run find out.
8. Spark notes the batch as finished. This does not matter: Kafka's positions decide where a query begins.

With ``transaction.boundary=connector`` steps 4 to 7 take several batches: step 5 is repeated, and the worker keeps the
positions until step 6. If the task aborts its transaction, step 6 and 7 are a transaction of their own: they write only
positions, so that the records are not read again.

One producer writes a whole batch: with Spark in the worker the one of Spark's JVM (``SharedProducer``), otherwise one
of the worker itself, which receives the records from Spark (``WorkerProducer``). So one commit decides about it. With a
producer for each of Spark's tasks, the driver would have to commit several transactions, and a crash between two of
them could not be undone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.clients.producer.transaction_errors import ProducerFenced
from barnabas.connect.decide.tasks.transaction_requests import TransactionEnd
from barnabas.connect.plugins.api import ConsumedOffsets
from barnabas.connect_spark.queries.kafka_settings import producer_settings, spark_producer_options
from barnabas.connect_spark.queries.shared_producer import SharedProducer
from barnabas.connect_spark.queries.worker_producer import WorkerProducer
from barnabas.connect_spark.sessions.session_kind import works_here

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.common.topic_partition import TopicPartition
    from barnabas.connect.decide.tasks.task_runtime import TopicRecord
    from barnabas.connect.identifiers import ConnectorTaskId
    from barnabas.connect.metrics.task_metrics import TaskFigures
    from barnabas.connect_spark.queries.task_spec import OffsetWriter, TaskSpec

__all__ = [
    "AtLeastOnce",
    "BatchProducer",
    "ExactlyOnce",
    "Offsets",
    "SourceDelivery",
    "TransactionCalls",
    "delivery_of",
    "finish_measured",
    "producer_options",
]

Offsets = Sequence["tuple[Mapping[str, Any], Mapping[str, Any] | None]"]

_TRANSACTION_TIMEOUT = "transaction.timeout.ms"
_TRANSACTION_TIMEOUT_MS = "300000"
"""A batch of the greatest size takes some ten seconds. Brokers allow 15 minutes by default. A run that follows a crash
does not wait for it."""
_FENCED = ("ProducerFencedException", "InvalidProducerEpochException", "InvalidPidMappingException")


class BatchProducer(Protocol):
    """A producer with transactions, as ``SharedProducer`` describes it."""

    def init_transactions(self) -> None: ...

    def begin(self) -> None: ...

    def write(self, records: DataFrame) -> None: ...

    def send(self, records: Iterable[TopicRecord]) -> None: ...

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class SourceDelivery(Protocol):
    def open(self, spark: SparkSession) -> None:
        """Prepare for a query, before the positions are read. Called again after a pause."""

    def batch(self) -> AbstractContextManager[None]:
        """A context for writing a batch and for ``finish`` at its end."""

    def write(self, records: DataFrame) -> None:
        """Write records with the columns topic, partition, key, value and headers."""

    def finish(
        self, offsets: Offsets, consumed: ConsumedOffsets | None = None, end: TransactionEnd = TransactionEnd.COMMIT
    ) -> None:
        """Make the batch's records and its positions safe, unless ``end`` is not COMMIT. Blocks."""

    def abandon(self) -> bool:
        """Abort an open transaction. Return whether there was one: the task is ahead of its positions then."""

    def close(self) -> None: ...


class AtLeastOnce:
    def __init__(self, options: Mapping[str, str], write_offsets: OffsetWriter) -> None:
        self._options = options
        self._write_offsets = write_offsets

    def open(self, spark: SparkSession) -> None:
        pass

    def batch(self) -> AbstractContextManager[None]:
        return nullcontext()

    def write(self, records: DataFrame) -> None:
        records.write.format("kafka").options(**self._options).save()

    def finish(
        self, offsets: Offsets, consumed: ConsumedOffsets | None = None, end: TransactionEnd = TransactionEnd.COMMIT
    ) -> None:
        self._write_offsets(offsets)

    def abandon(self) -> bool:
        return False

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class TransactionCalls:
    """Calls of a task to its worker. They block, and raise ConnectError."""

    transactional_id: str
    """The id of the task's producer. A producer of a later run has the same."""
    confirm: Callable[[], None]
    """Raise if newer configs exist, or if another worker owns the task."""
    read_offsets_to_end: Callable[[], None]
    offset_records: Callable[[Offsets], Sequence[TopicRecord]]


@dataclass(slots=True)
class _Positions:
    """The positions of an open transaction: the last one of each partition."""

    source: dict[str, tuple[Mapping[str, Any], Mapping[str, Any] | None]] = field(default_factory=dict)
    groups: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def add(self, offsets: Offsets, consumed: ConsumedOffsets | None) -> None:
        for partition, offset in offsets:
            self.source[json.dumps(partition, sort_keys=True)] = (partition, offset)
        if consumed is not None and consumed.offsets:
            self.groups.setdefault(consumed.group, {}).update(consumed.offsets)


class ExactlyOnce:
    def __init__(self, task: ConnectorTaskId, properties: Mapping[str, str], calls: TransactionCalls) -> None:
        """``properties`` are those of the producer."""
        self._task = task
        self._properties = {_TRANSACTION_TIMEOUT: _TRANSACTION_TIMEOUT_MS, **properties}
        self._calls = calls
        self._producer: BatchProducer | None = None
        self._is_begun = False
        self._positions = _Positions()

    def open(self, spark: SparkSession) -> None:
        self.close()
        self._producer = self._new_producer(spark)
        with self._explaining():
            self._producer.init_transactions()
        self._calls.confirm()
        self._calls.read_offsets_to_end()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Begin a transaction, or continue it. After any error it is aborted and the producer is closed: the task has
        failed."""
        producer = self._open_producer()
        with self._explaining():
            self._begin(producer)
            try:
                yield
            except BaseException:
                self.close()
                raise

    def write(self, records: DataFrame) -> None:
        self._open_producer().write(records)

    def finish(
        self, offsets: Offsets, consumed: ConsumedOffsets | None = None, end: TransactionEnd = TransactionEnd.COMMIT
    ) -> None:
        self._positions.add(offsets, consumed)
        if end is TransactionEnd.NONE:
            return
        producer = self._open_producer()
        if end is TransactionEnd.ABORT:
            producer.abort()
            producer.begin()
        self._commit(producer)

    def abandon(self) -> bool:
        was_begun, self._is_begun = self._is_begun, False
        self._positions = _Positions()
        if was_begun and self._producer is not None:
            with suppress(Exception):  # The next producer of the id aborts it too.
                self._producer.abort()
        return was_begun

    def close(self) -> None:
        self.abandon()
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(Exception):  # Its JVM may have ended.
                producer.close()

    def _new_producer(self, spark: SparkSession) -> BatchProducer:
        transactional_id = self._calls.transactional_id
        if not works_here(spark):
            return WorkerProducer(self._properties, transactional_id)
        options = spark_producer_options(self._properties, self._properties.get("client.id", transactional_id))
        return SharedProducer(spark, options, transactional_id)

    def _begin(self, producer: BatchProducer) -> None:
        if not self._is_begun:
            producer.begin()
            self._is_begun = True

    def _commit(self, producer: BatchProducer) -> None:
        positions = self._positions
        producer.send(self._calls.offset_records([*positions.source.values()]))
        for group, consumed in positions.groups.items():
            producer.send_offsets(group, consumed)
        producer.commit()
        self._is_begun, self._positions = False, _Positions()

    def _open_producer(self) -> BatchProducer:
        if self._producer is None:
            raise RuntimeError(f"the producer of task {self._task} is closed after an error of an earlier batch")
        return self._producer

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Say why a producer was fenced; Kafka's exception does not."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, ProducerFenced) and not any(name in str(error) for name in _FENCED):
                raise
            raise RuntimeError(
                f"The task {self._task} was unable to finish writing records to Kafka before its producer transaction "
                "expired, or another run of the task has fenced it. If batches take long, raise "
                f"producer.override.transaction.timeout.ms (it is {self._properties[_TRANSACTION_TIMEOUT]}), or lower "
                "the size of batches"
            ) from error


def delivery_of(spec: TaskSpec, write_offsets: OffsetWriter, transactions: TransactionCalls | None) -> SourceDelivery:
    """Return the delivery of a task: exactly once with ``transactions``. Raise ConfigException."""
    if transactions is None:
        return AtLeastOnce(producer_options(spec), write_offsets)
    properties = producer_settings(spec.worker_config, spec.connector_config)
    return ExactlyOnce(spec.task, {"client.id": _client_id(spec), **properties}, transactions)


def producer_options(spec: TaskSpec) -> dict[str, str]:
    """Return the options of Spark's writer without transactions. Raise ConfigException."""
    properties = producer_settings(spec.worker_config, spec.connector_config)
    return spark_producer_options(properties, _client_id(spec))


def _client_id(spec: TaskSpec) -> str:
    return f"connector-producer-{spec.task}"


def finish_measured(
    delivery: SourceDelivery,
    figures: TaskFigures,
    offsets: Offsets,
    consumed: ConsumedOffsets | None,
    end: TransactionEnd = TransactionEnd.COMMIT,
) -> None:
    """Finish a batch, and measure the commit if one follows."""
    if end is TransactionEnd.NONE:
        delivery.finish(offsets, consumed, end)
        return
    began_s = time.monotonic()
    try:
        delivery.finish(offsets, consumed, end)
    except Exception:
        figures.has_committed(0, succeeded=False)
        raise
    figures.has_committed(int((time.monotonic() - began_s) * 1000))
    figures.has_ended_transaction(is_aborted=end is TransactionEnd.ABORT)
