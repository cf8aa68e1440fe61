"""The worker's own settings for Spark, and those of a connector for its queries. All are ours, not Kafka's."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from barnabas.common.config_value import ConfigException, ConfigValue
from barnabas.connect.decide.validation.connector_config import OWN_CONFIG, SOURCE_CONFIG
from barnabas.connect.settings.worker_settings import WORKER_CONFIG_DEF

__all__ = ["SPARK_CONF_PREFIX", "QuerySettings", "SparkSettings"]

SPARK_CONF_PREFIX = "barnabas.connect.spark.conf."

_MASTER = "barnabas.connect.spark.master"
_AVRO = "barnabas.connect.spark.avro"
_DELTA = "barnabas.connect.spark.delta"
_ICEBERG = "barnabas.connect.spark.iceberg"
_S3 = "barnabas.connect.spark.s3"
_S3_CREDENTIALS = "barnabas.connect.spark.s3.credentials"
_DIRECTORY = "barnabas.connect.spark.directory"
_VALUES = (_AVRO, _DELTA, _ICEBERG, _S3, _S3_CREDENTIALS, _DIRECTORY)
_MASTERS = re.compile(r"local|local\[(\*|[1-9]\d*)\]|spark://[^\s/]+:\d+(,[^\s/]+:\d+)*")
_SERVER = re.compile(r"sc://(?P<host>[^\s/:;]+)(:(?P<port>\d+))?(/?|/(;[a-z_A-Z0-9-]+=[^\s;=]+)+)")
_SERVER_PORT = 15002

_TRIGGER = "barnabas.trigger.interval.ms"
_BATCH = "barnabas.batch.records.max"
_BOUNDARY_INTERVAL = "transaction.boundary.interval.ms"
_FLUSH_INTERVAL = "offset.flush.interval.ms"
_OF_A_START = ("spark.driver.", "spark.executor.", "spark.dynamicAllocation.", "spark.jars", "spark.scheduler.mode")
"""Settings of Spark that no session of a running server can change."""
_STAGE_ATTEMPTS = "spark.stage.maxConsecutiveAttempts"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    master: str
    directory: Path
    conf: Mapping[str, str]
    """Spark's own settings, which take precedence over ours."""
    has_avro: bool = False
    has_delta: bool = False
    has_iceberg: bool = False
    has_s3: bool = False
    s3_credentials: str = "default"

    @classmethod
    def of(cls, worker_config: Mapping[str, str], *, worker_id: str) -> SparkSettings:
        """Parse the settings. Raise ConfigException."""
        values = {name: _worker_value(worker_config, name) for name in _VALUES}
        master = worker_config.get(_MASTER, WORKER_CONFIG_DEF[_MASTER].default_text or "").strip()
        if master.startswith("sc://"):
            _check_server(master)
            _refuse_own_session(worker_config, values)
        elif not _MASTERS.fullmatch(master):
            raise ConfigException(
                _MASTER,
                master,
                "Write local[*] or local[N] for a Spark in the worker, spark://host:port for a cluster, or "
                "sc://host:port for a Spark Connect server",
            )
        conf = {
            name.removeprefix(SPARK_CONF_PREFIX): value
            for name, value in worker_config.items()
            if name.startswith(SPARK_CONF_PREFIX)
        }
        for name, value in conf.items():
            if not name.startswith("spark."):
                raise ConfigException(
                    SPARK_CONF_PREFIX + name, value, "The part after the prefix must begin with spark."
                )
        is_once = worker_config.get("exactly.once.source.support", "").strip().lower() == "enabled"
        if is_once and master.startswith("local"):
            # A stage that is repeated would send its records again, in the same transaction.
            if conf.setdefault(_STAGE_ATTEMPTS, "1") != "1":
                raise ConfigException(
                    SPARK_CONF_PREFIX + _STAGE_ATTEMPTS,
                    conf[_STAGE_ATTEMPTS],
                    "It must be 1 with exactly.once.source.support=enabled: remove it",
                )
        given = str(values[_DIRECTORY])
        if "://" in given:
            raise ConfigException(
                _DIRECTORY,
                given,
                "Write a path: the folder is on the worker's machine. It need not be shared, because Kafka has the "
                "positions of tasks",
            )
        folder = re.sub(r"[^A-Za-z0-9.-]", "_", f"barnabas-connect-{worker_id}")
        directory = Path(given).absolute() if given else Path(tempfile.gettempdir()) / folder
        has_avro = bool(values[_AVRO]) or _names_avro(worker_config)
        return cls(
            master,
            directory,
            conf,
            has_avro,
            has_delta=bool(values[_DELTA]),
            has_iceberg=bool(values[_ICEBERG]),
            has_s3=bool(values[_S3]),
            s3_credentials=str(values[_S3_CREDENTIALS]),
        )

    @property
    def is_connect(self) -> bool:
        return self.master.startswith("sc://")

    @property
    def is_cluster(self) -> bool:
        return self.master.startswith("spark://")

    @property
    def server(self) -> tuple[str, int]:
        """Host and port of the Spark Connect server."""
        found = _SERVER.fullmatch(self.master)
        if found is None:
            raise AssertionError(f"{self.shown_master} does not name a server")
        return found["host"], int(found["port"] or _SERVER_PORT)

    @property
    def shown_master(self) -> str:
        """Return the URL without its parameters, because they may contain a token."""
        return self.master.partition(";")[0].rstrip("/")


def _worker_value(worker_config: Mapping[str, str], name: str) -> ConfigValue:
    row = WORKER_CONFIG_DEF[name]
    return row.parse(worker_config[name]) if name in worker_config else row.default


def _check_server(master: str) -> None:
    shown = master.partition(";")[0]
    if not _SERVER.fullmatch(master):
        raise ConfigException(
            _MASTER, shown, "Write sc://host:port, followed by parameters such as /;use_ssl=true;token=... if needed"
        )
    if ";session_id=" in master:
        raise ConfigException(_MASTER, shown, "The worker gives each task a session of its own: omit session_id")


def _refuse_own_session(worker_config: Mapping[str, str], values: Mapping[str, ConfigValue]) -> None:
    """Refuse settings of a session that the worker starts: a server has its own. Raise ConfigException."""
    for name in (_DELTA, _ICEBERG, _S3):
        if values[name]:
            raise ConfigException(
                name,
                "true",
                "A Spark Connect server (sc://) has the packages with which it was started, and the connectors that "
                "need this one do not run there: remove it, or use local[*] or spark://host:port",
            )
    for name, value in worker_config.items():
        if name.removeprefix(SPARK_CONF_PREFIX).startswith(_OF_A_START) and name.startswith(SPARK_CONF_PREFIX):
            raise ConfigException(
                name, value, "It has an effect only where a Spark Connect server (sc://) is started: set it there"
            )


def _names_avro(worker_config: Mapping[str, str]) -> bool:
    named = (worker_config.get(f"{side}.converter") or "" for side in ("key", "value", "header"))
    return any(class_name.strip().rpartition(".")[2] in ("Avro", "AvroConverter") for class_name in named)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    trigger_interval_ms: int
    batch_records_max: int

    @classmethod
    def of(cls, connector_config: Mapping[str, str], worker_config: Mapping[str, str]) -> QuerySettings:
        """Combine the settings: a connector's take precedence over the worker's. Raise ConfigException."""
        given = {key.name: worker_config[key.name] for key in OWN_CONFIG if key.name in worker_config}
        given |= {key.name: connector_config[key.name] for key in OWN_CONFIG if key.name in connector_config}
        values = OWN_CONFIG.parse(given)
        return cls(int(str(values[_TRIGGER])), int(str(values[_BATCH])))

    def with_transactions(self, connector_config: Mapping[str, str], worker_config: Mapping[str, str]) -> QuerySettings:
        """Return the settings of a source whose batches are transactions: with ``transaction.boundary=interval`` it
        reads one batch in each interval. Raise ConfigException."""
        if connector_config.get("transaction.boundary", "poll").strip().lower() != "interval":
            return self
        given = connector_config.get(_BOUNDARY_INTERVAL)
        row, text = (SOURCE_CONFIG[_BOUNDARY_INTERVAL], given) if given else (WORKER_CONFIG_DEF[_FLUSH_INTERVAL], None)
        text = text or worker_config.get(_FLUSH_INTERVAL) or row.default_text or ""
        return replace(self, trigger_interval_ms=int(str(row.parse(text))))
