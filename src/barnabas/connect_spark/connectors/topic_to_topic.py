"""Copy topics of another cluster to the worker's: bytes unchanged, with keys and headers.

``source.*`` are the client settings for the other cluster. The connector lists partitions when it starts and then at an
interval: a new matching topic, or a new partition, leads to new task configs. Positions are
Connect's: ``{"cluster": alias, "topic": t, "partition": p}`` -> ``{"offset": n}``, where n is the next one to read.

Delivery is at least once, or exactly once with ``exactly.once.source.support``: then only committed records are copied,
and within one cluster the transaction also commits the offsets of a consumer group. Spark's writer sets the time of a
record itself; a header can keep the original one.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.clients.admin import AdminClient
from barnabas.connect.decide.tasks.task_partitions import assign_partitions, format_partitions, parse_partitions
from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConsumedOffsets,
    Importance,
    NonEmptyString,
    Range,
    SourceConnector,
    SourceOffset,
    SourceTask,
    TerminalError,
    ValidString,
)
from barnabas.connect_spark.positions.group_positions import from_kafka_json
from barnabas.connect_spark.positions.source_positions import check_positions
from barnabas.connect_spark.queries.kafka_settings import spark_consumer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.common.topic_partition import TopicPartition

__all__ = ["TopicToTopic", "source_client"]

log = logging.getLogger(__name__)

_PREFIX = "source."
_SERVERS = "source.bootstrap.servers"
_PARTITIONS = "source.partitions"
_GROUP = "source.group.id"
_SAME_CLUSTER = "source.is.same.cluster"
_BATCH, _BATCH_DEFAULT = "barnabas.batch.records.max", "500000"
_BYTES = ("ByteArrayConverter", "org.apache.kafka.connect.converters.ByteArrayConverter")
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_OURS = frozenset(
    {
        "source.topics",
        "source.topics.regex",
        "source.cluster.alias",
        "source.auto.offset.reset",
        "source.refresh.interval.ms",
        _PARTITIONS,
        _SAME_CLUSTER,
    }
)


def source_client(config: Mapping[str, str]) -> dict[str, str]:
    """Return the client settings for the other cluster."""
    return {
        name.removeprefix(_PREFIX): value
        for name, value in config.items()
        if name.startswith(_PREFIX) and name not in _OURS
    }


class TopicToTopicTask(SourceTask):
    def read(self, spark: SparkSession) -> DataFrame:
        from pyspark.sql import functions as F

        partitions = parse_partitions(self.config[_PARTITIONS])
        client_id = f"connector-consumer-{self.context.connector}-{self.context.task}"
        client = source_client(self.config)
        if self.context.is_exactly_once:  # Records of aborted transactions are not copied, and not committed here.
            client = {"isolation.level": "read_committed", **client}
        options = spark_consumer_options(client, client_id)
        assigned: dict[str, list[int]] = {}
        starts: dict[str, dict[str, int]] = {}
        for partition in partitions:
            assigned.setdefault(partition.topic, []).append(partition.partition)
            starts.setdefault(partition.topic, {})[str(partition.partition)] = self._start(partition)
        reader = spark.readStream.format("kafka").options(**options)
        most = self.config.get(_BATCH, _BATCH_DEFAULT)
        records = (
            reader.option("maxOffsetsPerTrigger", most)
            .option("assign", json.dumps(assigned))
            .option("startingOffsets", json.dumps(starts))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .load()
        )
        kind = "array<struct<key: string, value: binary>>"
        headers = F.coalesce(F.col("headers"), F.array().cast(kind)).cast(kind)
        header = str(self.settings["timestamp.header"] or "")
        if header:
            time = F.unix_millis("timestamp").cast("string").cast("binary")
            headers = F.concat(headers, F.array(F.struct(F.lit(header).alias("key"), time.alias("value"))).cast(kind))
        before, after = _around(str(self.settings["topic.format"]))
        columns = [F.concat(F.lit(before), "topic", F.lit(after)).alias("topic"), F.col("key"), F.col("value")]
        if self.settings["keep.partition"]:
            columns.append(F.col("partition"))
        return records.select(*columns, headers.alias("headers"))

    def offsets_of(self, ends: Sequence[Any]) -> Sequence[SourceOffset]:
        return [
            SourceOffset(self._partition(topic, int(partition)), {"offset": offset})
            for topic, partitions in (ends[0] or {}).items()
            for partition, offset in partitions.items()
        ]

    def consumed_offsets(self, ends: Sequence[Any]) -> ConsumedOffsets | None:
        if self.config.get(_SAME_CLUSTER) != "true":
            return None
        group = self.config.get(_GROUP) or f"connect-{self.context.connector}"
        return ConsumedOffsets(group, from_kafka_json(ends[0] or {}))

    def _partition(self, topic: str, partition: int) -> dict[str, object]:
        return {"cluster": str(self.settings["source.cluster.alias"]), "partition": partition, "topic": topic}

    def _start(self, partition: TopicPartition) -> int:
        found = self.context.source_offset(self._partition(partition.topic, partition.partition))
        if found is None:
            return -2 if self.settings["source.auto.offset.reset"] == "earliest" else -1  # Spark's own codes.
        offset = found.get("offset")
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise TerminalError(
                f'the offset of {partition} must be like {{"offset":0}}, not {dict(found)}. Reset or alter it.'
            )
        return offset


def _around(format_text: str) -> tuple[str, str]:
    before, _, after = format_text.partition("${topic}")
    return before, after


class TopicToTopic(SourceConnector):
    """Copies records of another cluster's topics."""

    version = "1.0.0"
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey(
                _SERVERS,
                ConfigType.STRING,
                REQUIRED,
                "Brokers of the cluster to read from. Its other client settings begin with source. too, such as "
                "source.security.protocol. Those of the cluster to write to are producer.override.*.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            ConfigKey("source.topics", ConfigType.LIST, "", "The topics to read.", importance=Importance.HIGH),
            ConfigKey("source.topics.regex", ConfigType.STRING, "", "Or a pattern that their whole names match."),
            ConfigKey(
                _GROUP,
                ConfigType.STRING,
                "",
                "With exactly-once delivery within one cluster: the consumer group whose offsets are committed with "
                "the copies. By default connect- and the connector's name.",
            ),
            ConfigKey("source.cluster.alias", ConfigType.STRING, "source", "The name in offsets.", NonEmptyString()),
            ConfigKey(
                "source.auto.offset.reset",
                ConfigType.STRING,
                "earliest",
                "Where to begin in a partition that was never read.",
                ValidString(("earliest", "latest")),
            ),
            ConfigKey(
                "source.refresh.interval.ms",
                ConfigType.LONG,
                "60000",
                "How often the connector looks for new topics and partitions.",
                Range(1000),
            ),
            ConfigKey("topic.format", ConfigType.STRING, "${topic}", "The topic to write to."),
            ConfigKey(
                "keep.partition",
                ConfigType.BOOLEAN,
                "false",
                "Whether a record keeps its partition number. The target needs as many partitions.",
            ),
            ConfigKey(
                "timestamp.header",
                ConfigType.STRING,
                "",
                "A header for the time of the original record, in milliseconds; empty for none.",
            ),
        ]
    )
    task_class = TopicToTopicTask

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        return True

    @classmethod
    def alter_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
    ) -> bool:
        """Check the offsets. Raise ValueError."""
        check_positions(offsets, partition={"cluster": "...", "partition": 0, "topic": "..."}, offset={"offset": 0})
        return True

    def start(self) -> None:
        self._is_same_cluster = self._is_within_one_cluster()
        self._stopping = threading.Event()
        self._counts: dict[str, int] = {}
        self._thread = threading.Thread(target=self._watch, name="connect-topics", daemon=True)
        self._thread.start()

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        self._counts = self._found()
        self.context.report_missing(self._missing())
        spread = assign_partitions(self._counts, max_tasks) if self._counts else []
        same = {_SAME_CLUSTER: "true"} if self._is_same_cluster else {}
        return [{**self.config, **same, _PARTITIONS: format_partitions(partitions)} for partitions in spread]

    def stop(self) -> None:
        self._stopping.set()

    def _missing(self) -> list[str]:
        """Return the topics that the other cluster does not have, or the pattern if none of its topics matches."""
        names = [str(name) for name in _listed(self.settings["source.topics"])]
        if names:
            return [name for name in names if name not in self._counts]
        return [] if self._counts else [f"source.topics.regex={self.settings['source.topics.regex']}"]

    def _is_within_one_cluster(self) -> bool:
        """Raise TerminalError for a topic that is copied to itself: it would grow forever."""
        target = dict(self.context.client_config)
        if not target.get("bootstrap.servers"):
            return False
        clusters = []
        for properties in (source_client(self.config), target):
            with AdminClient.sync(properties=properties) as admin:
                clusters.append(admin.describe_cluster().cluster_id)
        if clusters[0] is None or clusters[0] != clusters[1]:
            return False
        if str(self.settings["topic.format"]) == "${topic}":
            raise TerminalError(
                "source.bootstrap.servers are brokers of the worker's own cluster, so each topic would be copied to "
                "itself forever. Set topic.format to another name, such as copy-${topic}."
            )
        return True

    def _watch(self) -> None:
        interval_s = int(str(self.settings["source.refresh.interval.ms"])) / 1000
        while not self._stopping.wait(interval_s):
            try:
                if self._found() != self._counts:
                    self.context.request_task_reconfiguration()
            except Exception as error:
                log.warning("connector %s can't list the topics of its source: %s", self.context.name, error)

    def _found(self) -> dict[str, int]:
        """Return partitions by topic. Raise AdminError or ClientError."""
        names = {str(name) for name in _listed(self.settings["source.topics"])}
        pattern = re.compile(str(self.settings["source.topics.regex"] or "")) if not names else None
        with AdminClient.sync(properties=source_client(self.config)) as admin:
            there = {topic.name for topic in admin.list_topics()}
            wanted = sorted(there & names if pattern is None else {name for name in there if pattern.fullmatch(name)})
            described = admin.describe_topics(wanted).raise_for_errors() if wanted else {}
        return {name: len(described[name].partitions) for name in wanted}

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        errors: dict[str, Sequence[str]] = {}
        if bool(settings.get("source.topics")) == bool(settings.get("source.topics.regex")):
            errors["source.topics"] = ["Set either source.topics, or source.topics.regex."]
        try:
            re.compile(str(settings.get("source.topics.regex") or ""))
        except re.error as error:
            errors["source.topics.regex"] = [f"{settings['source.topics.regex']} is not a valid pattern: {error}."]
        if str(settings.get("topic.format", "${topic}")).count("${topic}") != 1:
            errors["topic.format"] = ["It must contain ${topic} exactly once."]
        for name in _CONVERTERS:
            if config.get(name) not in _BYTES:
                errors[name] = [f"Records are copied as bytes: set {name}={_BYTES[1]}."]
        return errors


def _listed(value: Any) -> list[Any]:
    return list(value or ())
