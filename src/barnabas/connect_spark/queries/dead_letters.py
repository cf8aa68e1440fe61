"""Report tolerated bad records: log lines, and records in the dead-letter topic (KIP-298).

A dead letter has the key, the value and the headers that the record had in Kafka. With
``errors.deadletterqueue.context.headers.enable`` it also has headers that describe the error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect_spark.queries.error_policy import DEAD_LETTER_HEADERS, ErrorPolicy

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["LOGGED_MAX", "dead_letters", "log_bad_records", "log_source_failures", "write_dead_letters"]

log = logging.getLogger(__name__)

LOGGED_MAX = 1000
"""Maximum log lines for one batch: a topic full of bad records must not fill a disk twice."""
_SHOWN_BYTES = 1000


def dead_letters(bad: DataFrame, task: ConnectorTaskId, policy: ErrorPolicy) -> DataFrame:
    """Return dead letters for Spark's Kafka writer. ``bad`` are rows with ``failure`` and ``original``."""
    from pyspark.sql import functions as F

    original = F.col("original")
    headers = F.coalesce(original["headers"], F.array().cast("array<struct<key: string, value: binary>>"))
    if policy.adds_context_headers:
        headers = F.concat(headers, _context(task))
    return bad.select(
        F.lit(policy.dead_letter_topic).alias("topic"),
        original["key"].alias("key"),
        original["value"].alias("value"),
        headers.alias("headers"),
    )


def _context(task: ConnectorTaskId) -> Column:
    from pyspark.sql import functions as F

    original, failure = F.col("original"), F.col("failure")
    stacktrace = F.concat(failure["exception_class"], F.lit(": "), F.coalesce(failure["message"], F.lit("null")))
    values: dict[str, Column] = {
        "topic": original["topic"],
        "partition": original["partition"].cast("string"),
        "offset": original["offset"].cast("string"),
        "connector.name": F.lit(task.connector),
        "task.id": F.lit(str(task.task)),
        "stage": failure["stage"],
        "class.name": failure["executing_class"],
        "exception.class.name": failure["exception_class"],
        "exception.message": failure["message"],
        "exception.stacktrace": stacktrace,
    }
    return F.array(
        *(
            F.struct(F.lit(DEAD_LETTER_HEADERS[name]).alias("key"), value.cast("binary").alias("value"))
            for name, value in values.items()
        )
    )


def write_dead_letters(
    bad: Iterable[DataFrame], task: ConnectorTaskId, policy: ErrorPolicy, options: Mapping[str, str]
) -> None:
    """Write dead letters. ``options`` are those of Spark's Kafka writer."""
    for bad_record in bad:
        dead_letters(bad_record, task, policy).write.format("kafka").options(**options).save()


def log_bad_records(bad: Iterable[DataFrame], task: ConnectorTaskId, policy: ErrorPolicy) -> None:
    left = LOGGED_MAX
    for bad_record in bad:
        rows = bad_record.select("failure", "original").limit(left).collect()
        left -= len(rows)
        for row in rows:
            log.error("%s", _line(row, task, policy))
        if left <= 0:
            log.error("task %s: more bad records in this batch are not logged", task)
            return


def _line(row: Any, task: ConnectorTaskId, policy: ErrorPolicy) -> str:
    failure, original = row["failure"], row["original"]
    text = f"Error encountered in task {task}. Executing stage '{failure['stage']}' with class "
    text += f"'{failure['executing_class']}'"
    if original is not None:
        text += f", where consumed record is {{topic='{original['topic']}', partition={original['partition']}, "
        text += f"offset={original['offset']}"
        if policy.logs_messages:
            text += f", key={_shown(original['key'])}, value={_shown(original['value'])}"
        text += "}"
    return f"{text}: {failure['exception_class']}: {failure['message']}"


def _shown(data: bytes | bytearray | None) -> str:
    return "null" if data is None else repr(bytes(data[:_SHOWN_BYTES]).decode(errors="replace"))


def log_source_failures(records: DataFrame, task: ConnectorTaskId, policy: ErrorPolicy) -> None:
    """Log the records that a source could not write: they come from no topic."""
    bad = records.filter("failure IS NOT NULL").select("failure", "original")
    log_bad_records([bad], task, policy)
