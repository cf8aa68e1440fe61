"""The worker's own settings for Spark, and those of a connector for its queries. All of them are ours, not Kafka's."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from barnabas.common.config_validators import Range
from barnabas.connect.settings.plugin_config_def import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance

__all__ = ["QUERY_CONFIG", "SPARK_CONFIG", "SPARK_CONF_PREFIX", "QuerySettings", "SparkSettings"]

SPARK_CONF_PREFIX = "barnabas.connect.spark.conf."

_MASTER = "barnabas.connect.spark.master"
_AVRO = "barnabas.connect.spark.avro"
_DELTA = "barnabas.connect.spark.delta"
_DIRECTORY = "barnabas.connect.spark.directory"
_MASTERS = re.compile(r"local|local\[(\*|[1-9]\d*)\]|spark://[^\s/]+:\d+(,[^\s/]+:\d+)*")
_SERVER = re.compile(r"sc://(?P<host>[^\s/:;]+)(:(?P<port>\d+))?(/?|/(;[a-z_A-Z0-9-]+=[^\s;=]+)+)")
_SERVER_PORT = 15002

SPARK_CONFIG = ConfigDef(
    [
        ConfigKey(
            _MASTER,
            ConfigType.STRING,
            "local[*]",
            "Where queries run: local[*] or local[N] is a Spark inside the worker; spark://host:port is a cluster, "
            "with the driver in the worker; sc://host:port is a Spark Connect server, which needs no Java here.",
            importance=Importance.HIGH,
        ),
        ConfigKey(
            _AVRO,
            ConfigType.BOOLEAN,
            "false",
            "Whether the session has Spark's package for Avro, which AvroConverter needs. A worker one of whose own "
            "converters that is has it anyway.",
            importance=Importance.LOW,
        ),
        ConfigKey(
            _DELTA,
            ConfigType.BOOLEAN,
            "false",
            "Whether the session has Delta Lake, which TopicToDelta needs.",
            importance=Importance.LOW,
        ),
        ConfigKey(
            _DIRECTORY,
            ConfigType.STRING,
            "",
            "Where checkpoints, Spark's log and its scratch files are. Nothing there has to outlive the worker: "
            "positions are in Kafka. Empty: a folder of the worker's below the system's temporary folder.",
        ),
    ]
)

_TRIGGER = "barnabas.trigger.interval.ms"
_BATCH = "barnabas.batch.records.max"

QUERY_CONFIG = ConfigDef(
    [
        ConfigKey(
            _TRIGGER,
            ConfigType.LONG,
            "500",
            "How often a query looks for new records. A batch that takes longer is followed by the next one at once.",
            validator=Range(least=0),
        ),
        ConfigKey(
            _BATCH,
            ConfigType.LONG,
            "500000",
            "How many records a sink reads in one batch at most.",
            validator=Range(least=1),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class SparkSettings:
    master: str
    directory: Path
    conf: Mapping[str, str]
    """Settings of Spark's own, which win over ours."""
    has_avro: bool = False
    has_delta: bool = False

    @classmethod
    def of(cls, worker_config: Mapping[str, str], *, worker_id: str) -> SparkSettings:
        """Raises ConfigException."""
        values = SPARK_CONFIG.parse(worker_config)
        master = str(values[_MASTER]).strip()
        if master.startswith("sc://"):
            _check_server(master)
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
                raise ConfigException(SPARK_CONF_PREFIX + name, value, "What follows the prefix must begin with spark.")
        given = str(values[_DIRECTORY])
        folder = re.sub(r"[^A-Za-z0-9.-]", "_", f"barnabas-connect-{worker_id}")
        directory = Path(given).absolute() if given else Path(tempfile.gettempdir()) / folder
        has_avro = bool(values[_AVRO]) or _names_avro(worker_config)
        return cls(master, directory, conf, has_avro, bool(values[_DELTA]))

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
            raise AssertionError(f"{self.shown_master} names no server")
        return found["host"], int(found["port"] or _SERVER_PORT)

    @property
    def shown_master(self) -> str:
        """Without what stands behind the address: a token may be there."""
        return self.master.partition(";")[0].rstrip("/")


def _check_server(master: str) -> None:
    shown = master.partition(";")[0]
    if not _SERVER.fullmatch(master):
        raise ConfigException(
            _MASTER, shown, "Write sc://host:port, with parameters such as /;use_ssl=true;token=... behind it if needed"
        )
    if ";session_id=" in master:
        raise ConfigException(_MASTER, shown, "The worker gives each task a session of its own: leave session_id away")


def _names_avro(worker_config: Mapping[str, str]) -> bool:
    named = (worker_config.get(f"{side}.converter") or "" for side in ("key", "value", "header"))
    return any(each.strip().rpartition(".")[2] in ("Avro", "AvroConverter") for each in named)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    trigger_interval_ms: int
    batch_records_max: int

    @classmethod
    def of(cls, connector_config: Mapping[str, str], worker_config: Mapping[str, str]) -> QuerySettings:
        """A connector's settings win over those of the same names of the worker. Raises ConfigException."""
        given = {key.name: worker_config[key.name] for key in QUERY_CONFIG if key.name in worker_config}
        given |= {key.name: connector_config[key.name] for key in QUERY_CONFIG if key.name in connector_config}
        values = QUERY_CONFIG.parse(given)
        return cls(int(str(values[_TRIGGER])), int(str(values[_BATCH])))
