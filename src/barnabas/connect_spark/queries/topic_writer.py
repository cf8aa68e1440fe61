"""Write the records of a source to their topics: converted, counted, and into topics that exist.

Bad records raise an error, or are left out, logged and counted, as ``errors.*`` of the connector says.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.clients.admin import AdminClient
from barnabas.common.config_value import ConfigType, parse_value
from barnabas.connect_spark.queries.connector_topics import TopicRules, create_missing
from barnabas.connect_spark.queries.dead_letters import LOGGED_MAX, log_source_failures
from barnabas.connect_spark.queries.error_policy import ErrorPolicy
from barnabas.connect_spark.queries.kafka_settings import admin_settings
from barnabas.connect_spark.queries.record_path import RecordPath, raising
from barnabas.connect_spark.queries.row_count import RowCount

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from barnabas.connect_spark.queries.source_delivery import SourceDelivery
    from barnabas.connect_spark.queries.task_spec import TaskSpec

__all__ = ["TopicWriter"]

log = logging.getLogger(__name__)

_TOPICS_EVERY_S = 60


class TopicWriter:
    def __init__(
        self,
        spec: TaskSpec,
        path: RecordPath,
        uses_topics: Callable[[frozenset[str]], None],
        *,
        has_transactions: bool,
    ) -> None:
        """With transactions, the task may not write to its own offset topic. Raise ConfigException."""
        self._spec = spec
        self._path = path
        self._uses_topics = uses_topics
        self._offset_topic = _offset_topic(spec) if has_transactions else None
        self.policy = ErrorPolicy.of(spec.connector_config)
        enabled = parse_value(
            ConfigType.BOOLEAN, spec.worker_config.get("topic.creation.enable", "true"), "topic.creation.enable"
        )
        self.topic_rules = TopicRules.of(spec.connector_config, is_enabled=bool(enabled))
        tracked = spec.worker_config.get("topic.tracking.enable", "true")
        self._tracks_topics = bool(parse_value(ConfigType.BOOLEAN, tracked, "topic.tracking.enable"))
        self._topics_looked_at_s = -math.inf
        self._known_topics: set[str] = set()

    def converted(self, records: DataFrame) -> DataFrame:
        """Return the records of a stream as a topic has them."""
        return self._good(self._path.source_records(records))

    def write(
        self,
        delivery: SourceDelivery,
        frame: DataFrame,
        rows: int | None = None,
        topics_read: frozenset[str] | None = None,
        read: int | None = None,
    ) -> None:
        """Write the batch. ``rows``: how many it has, if known; otherwise the write counts them. ``topics_read``: its
        topics according to the source. ``read``: of how many records they were made, if not of as many."""
        began_s, figures = time.monotonic(), self._spec.figures
        given = None if rows is not None else RowCount()
        records = self._path.source_records(frame if given is None else given.on(frame), topics_read)
        made = RowCount() if self._makes_others else None
        counted = records if made is None else made.on(records)
        good = self._good(counted)
        topics = self._topics_of(good, topics_read)
        if self.topic_rules is not None:
            self._create_topics(topics)
        figures.has_read(rows or 0 if read is None else read)
        delivery.write(good)
        if topics and self._tracks_topics:
            self._uses_topics(topics)
        if given is not None:
            rows = (given.result() or (0, 0))[0]
            if read is None:
                figures.has_read(rows)
        written, failures = rows or 0, 0
        if made is not None:
            written, failures = made.result() or (written, 0)
            self._report_bad_records(records, failures)
        took_ms = int((time.monotonic() - began_s) * 1000)
        figures.has_written(read=rows or 0 if read is None else read, written=written - failures, took_ms=took_ms)

    @property
    def _makes_others(self) -> bool:
        """Return whether some of the records that were read may not be written."""
        return self.policy.tolerates or bool(self._spec.connector_config.get("transforms"))

    def _report_bad_records(self, records: DataFrame, count: int) -> None:
        if count:
            is_logged = self.policy.is_logged
            if is_logged:
                log_source_failures(records, self._spec.task, self.policy)
            logged = min(count, LOGGED_MAX) if is_logged else 0
            self._spec.figures.has_failed(count, skipped=True, logged=logged)
            self._spec.figures.has_skipped(count, dead_letters=0)

    def _good(self, records: DataFrame) -> DataFrame:
        """Select the converted columns for Kafka."""
        from pyspark.sql import functions as F

        if not self.policy.tolerates:
            records = raising(records)
        topic = F.col("topic") if self._offset_topic is None else _except(self._offset_topic)
        return records.filter(F.col("failure").isNull()).select(topic, "partition", "key", "value", "headers")

    def _topics_of(self, records: DataFrame, topics_read: frozenset[str] | None) -> frozenset[str]:
        """Return the topics of the batch.

        If the source does not know them the batch is read twice. So only connectors whose topics are created here pay
        for it in each batch; for others, topics are collected in the first batch and in one batch every minute.
        """
        now_s = time.monotonic()
        is_time = self._tracks_topics and now_s - self._topics_looked_at_s >= _TOPICS_EVERY_S
        if self.topic_rules is None and not is_time:
            return frozenset()
        self._topics_looked_at_s = now_s
        if topics_read is not None and not self._spec.connector_config.get("transforms"):
            return topics_read
        return frozenset(str(row["topic"]) for row in records.select("topic").distinct().collect())

    def _create_topics(self, topics: frozenset[str]) -> None:
        rules, names = self.topic_rules, topics - self._known_topics
        if names and rules is not None:
            settings = admin_settings(self._spec.worker_config, self._spec.connector_config)
            with AdminClient.sync(properties=settings) as admin:
                for name in create_missing(admin, {name: rules.rule_for(name) for name in sorted(names)}):
                    log.info("task %s made topic %s", self._spec.task, name)
            self._known_topics |= names


def _offset_topic(spec: TaskSpec) -> str | None:
    """Return the topic of the positions of a connector with exactly-once delivery."""
    own = spec.connector_config.get("offsets.storage.topic", "").strip()
    return own or spec.worker_config.get("offset.storage.topic")


def _except(offset_topic: str) -> Column:
    """Return the column ``topic``. Evaluating it for a record of the task's own offset topic raises an error."""
    from pyspark.sql import functions as F

    refused = F.raise_error(
        F.lit("Source tasks may not produce to their own offsets topics when exactly-once support is enabled")
    )
    topic = F.col("topic")
    return F.when(topic == offset_topic, refused.cast("string")).otherwise(topic).alias("topic")
