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

One producer writes a whole batch, so one commit decides about it. With a producer for each of Spark's tasks, the driver
would have to commit several transactions, and a crash between two of them could not be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.connect.plugins.api import ConsumedOffsets, TerminalError
from barnabas.connect_spark.queries.shared_producer import SharedProducer
from barnabas.connect_spark.sessions.session_kind import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect.decide.tasks.task_runtime import TopicRecord
    from barnabas.connect.identifiers import ConnectorTaskId
    from barnabas.connect_spark.queries.task_spec import OffsetWriter

__all__ = ["AtLeastOnce", "ExactlyOnce", "Offsets", "SourceDelivery", "TransactionCalls"]

Offsets = Sequence["tuple[Mapping[str, Any], Mapping[str, Any] | None]"]

_TRANSACTION_TIMEOUT = "kafka.transaction.timeout.ms"
_TRANSACTION_TIMEOUT_MS = "300000"
"""A batch of the greatest size takes some ten seconds. Brokers allow 15 minutes by default. A run that follows a crash
does not wait for it."""
_FENCED = ("ProducerFencedException", "InvalidProducerEpochException", "InvalidPidMappingException")


class SourceDelivery(Protocol):
    @property
    def options(self) -> Mapping[str, str]:
        """The options of Spark's writer, after ``open``."""

    def open(self, spark: SparkSession) -> None:
        """Prepare for a query, before the positions are read. Called again after a pause."""

    def batch(self) -> AbstractContextManager[None]:
        """A context for writing a batch and for ``commit`` at its end."""

    def commit(self, offsets: Offsets, consumed: ConsumedOffsets | None = None) -> None:
        """Make the batch's records and its positions safe. Blocks."""

    def close(self) -> None: ...


class AtLeastOnce:
    def __init__(self, options: Mapping[str, str], write_offsets: OffsetWriter) -> None:
        self.options = options
        self._write_offsets = write_offsets

    def open(self, spark: SparkSession) -> None:
        pass

    def batch(self) -> AbstractContextManager[None]:
        return nullcontext()

    def commit(self, offsets: Offsets, consumed: ConsumedOffsets | None = None) -> None:
        self._write_offsets(offsets)

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


class ExactlyOnce:
    def __init__(
        self,
        task: ConnectorTaskId,
        options: Mapping[str, str],
        calls: TransactionCalls,
    ) -> None:
        self._task = task
        self._options = {_TRANSACTION_TIMEOUT: _TRANSACTION_TIMEOUT_MS, **options}
        self._calls = calls
        self._producer: SharedProducer | None = None

    @property
    def options(self) -> Mapping[str, str]:
        return self._open_producer().options

    def open(self, spark: SparkSession) -> None:
        if is_remote(spark):
            raise TerminalError("exactly-once delivery needs Spark inside the worker: local[*]")
        self.close()
        self._producer = SharedProducer(spark, self._options, self._calls.transactional_id)
        with self._explaining():
            self._producer.init_transactions()
        self._calls.confirm()
        self._calls.read_offsets_to_end()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Begin a transaction. After any error it is aborted and the producer is closed: the task has failed."""
        producer = self._open_producer()
        with self._explaining():
            producer.begin()
            try:
                yield
            except BaseException:
                with suppress(Exception):  # The first error is the reason.
                    producer.abort()
                self.close()
                raise

    def commit(self, offsets: Offsets, consumed: ConsumedOffsets | None = None) -> None:
        producer = self._open_producer()
        producer.send(self._calls.offset_records(offsets))
        if consumed is not None and consumed.offsets:
            producer.send_offsets(consumed.group, consumed.offsets)
        producer.commit()

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(Exception):  # Its JVM may have ended.
                producer.close()

    def _open_producer(self) -> SharedProducer:
        if self._producer is None:
            raise RuntimeError(f"the producer of task {self._task} is closed after an error of an earlier batch")
        return self._producer

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Say why a producer was fenced; Kafka's exception does not."""
        try:
            yield
        except Exception as error:
            if not any(name in str(error) for name in _FENCED):
                raise
            raise RuntimeError(
                f"The task {self._task} was unable to finish writing records to Kafka before its producer transaction "
                "expired, or another run of the task has fenced it. If batches take long, raise "
                f"producer.override.transaction.timeout.ms (it is {self._options[_TRANSACTION_TIMEOUT]}), or lower the "
                "size of batches"
            ) from error
