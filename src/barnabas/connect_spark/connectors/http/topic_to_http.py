"""Records of topics as requests to an HTTP server: a webhook, or an API that takes records in batches.

Delivery is at least once. Each request has an idempotency key, which names the records in it: connector, topic,
partition and offsets. A request that is repeated, by a retry or after a crash, has the same key and the same records,
on any worker: the worker notes the end of a batch in Kafka before it is sent (``repeats_batches``). So records arrive
exactly once at a server that answers a key which it has seen without taking the records again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.connect.plugins.api import (
    ConfigDef,
    RefusedRecord,
    SinkBatch,
    SinkConnector,
    SinkTask,
    TerminalError,
    TopicPartition,
)
from barnabas.connect_spark.connectors.http.http_settings import (
    HTTP_KEYS,
    SECRETS,
    HttpSettings,
    http_errors,
    new_client,
)
from barnabas.connect_spark.connectors.http.record_spool import RecordSpool
from barnabas.connect_spark.connectors.http.request_batch import BodyFormat, HttpRecord
from barnabas.connect_spark.connectors.http.request_sender import RequestSender

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["TopicToHttp"]

_TOPIC, _PARTITION, _OFFSET = "original_topic", "original_partition", "original_offset"
_KEEP_NULLS = {"ignoreNullFields": "false"}


class TopicToHttpTask(SinkTask):
    repeats_batches: ClassVar[bool] = True

    def start(self, spark: SparkSession) -> None:
        try:
            self._http = HttpSettings.of(self.settings, self.context.connector)
        except ValueError as error:
            raise TerminalError(str(error)) from error
        self._client = new_client(self.settings, self._http.in_flight_max)
        self._tolerates = self.config.get("errors.tolerance", "none") == "all"
        self._sender = RequestSender(
            self._client,
            self._http,
            name=f"{self.context.connector}-{self.context.task}",
            tolerates=self._tolerates,
        )

    def stop(self) -> None:
        client = getattr(self, "_client", None)  # None if the start has failed.
        if client is not None:
            client.close()

    def columns(self) -> Sequence[str]:
        content = self.settings["http.record.content"]
        whole = ("partition", "offset", "timestamp", "key", "headers") if content == "record" else ()
        return ("topic", "value", *whole, _TOPIC, _PARTITION, _OFFSET)

    def write(self, df: DataFrame, batch: SinkBatch) -> Sequence[RefusedRecord]:
        with RecordSpool(self.context.scratch) as spool:
            refused = self._spooled(df, spool)
            if refused and not self._tolerates:
                return refused  # The worker fails the task. Nothing of the batch was sent.
            return refused + self._sender.send_all(spool, batch.control)

    def _spooled(self, df: DataFrame, spool: RecordSpool) -> list[RefusedRecord]:
        """Write the records to the spool. Return those that can't be sent at all."""
        from pyspark.sql import functions as F

        http = self._http
        rows = df if http.null_values != "ignore" else df.filter(F.col("value").isNotNull())
        fails_null = F.lit(http.null_values == "fail") & F.col("value").isNull()
        text = F.when(~fails_null, _body(df, http.content))
        refused = []
        for topic, partition, offset, target, body in rows.select(
            _TOPIC, _PARTITION, _OFFSET, "topic", text.alias("body")
        ).toLocalIterator():
            place = TopicPartition(topic, partition)
            content = body.encode() if isinstance(body, str) else None if body is None else bytes(body)
            problem = _problem(content, http)
            if problem is None and content is not None:
                spool.add(place, HttpRecord(offset, target, content))
            else:
                refused.append(RefusedRecord(place, offset, problem or "the record has no value"))
        return refused


def _problem(content: bytes | None, http: HttpSettings) -> str | None:
    """Return why a body can't be sent. Text of users is not known to be JSON, and one bad record would spoil all."""
    if content is None:
        return "the record has no value, and behavior.on.null.values is fail"
    if http.content != "text" or http.body_format == BodyFormat.RECORD:
        return None
    try:
        json.loads(content)
    except ValueError as error:
        return f"the value is not JSON, which http.body.format={http.body_format} needs: {error}"
    if http.body_format == BodyFormat.LINES and (b"\n" in content or b"\r" in content):
        return "the value has more than one line, and http.body.format=json-lines has a line for each record"
    return None


def _body(df: DataFrame, content: str) -> Column:
    """Return the record as JSON text, or as text or bytes that are sent unchanged."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, NullType, StringType

    kind = df.schema["value"].dataType
    if content == "text":
        if not isinstance(kind, BinaryType | StringType | NullType):
            raise TerminalError(
                f"http.record.content=text sends values unchanged, and they are of type {kind.simpleString()}: use "
                "StringConverter or ByteArrayConverter, or http.record.content=value."
            )
        return F.coalesce(F.col("value"), F.lit("null").cast(kind if isinstance(kind, BinaryType) else "string"))
    if content == "record":
        time = F.unix_millis("timestamp").alias("timestamp")
        headers = F.transform(
            "headers", lambda header: F.struct(header["key"].alias("key"), header["value"].alias("value"))
        )
        parts = ("topic", "partition", "offset", time, "key", headers.alias("headers"), "value")
        return F.to_json(F.struct(*parts), {**_KEEP_NULLS})
    inside = F.to_json(F.array("value"), {**_KEEP_NULLS})  # to_json takes no plain values.
    return F.substring(inside, F.lit(2), F.length(inside) - 2)


class TopicToHttp(SinkConnector):
    """Records of topics as requests to an HTTP server."""

    version = "1.0.0"
    reference_settings: ClassVar[frozenset[str]] = SECRETS
    config_def: ClassVar[ConfigDef] = ConfigDef(HTTP_KEYS)
    task_class = TopicToHttpTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return http_errors(settings)
