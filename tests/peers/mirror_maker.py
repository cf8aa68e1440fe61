"""MirrorMaker 2 as a connector on a worker of Kafka's Connect that supports exactly-once sources (KIP-618)."""

from __future__ import annotations

from pathlib import Path

from tests.peers import HERE, KAFKA_VERSION, require_maven
from tests.peers.connect_worker import ConnectWorker, worker_settings
from tests.peers.fetched import fetched, run_quietly

__all__ = ["mirror_config", "mirror_worker"]

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def mirror_worker(folder: Path, target: str) -> ConnectWorker:
    """Return a worker whose own topics are on the target cluster."""
    own = {"plugin.path": str(_plugins()), "exactly.once.source.support": "enabled"}
    return ConnectWorker(folder, {**worker_settings(target, "mirrors"), **own})


def mirror_config(source: str, target: str, topic: str) -> dict[str, str]:
    """Return the configuration of a connector that copies ``topic`` to ``source.<topic>`` exactly once."""
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "source",
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": target,
        "topics": topic,
        "tasks.max": "2",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "source.consumer.isolation.level": "read_committed",
        "source.consumer.max.poll.records": "100",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }


def _plugins() -> Path:
    def fetch(folder: Path) -> None:
        require_maven()
        for artifact in ("connect-mirror", "connect-mirror-client"):
            options = (
                f"-Dartifact=org.apache.kafka:{artifact}:{KAFKA_VERSION}",
                f"-DoutputDirectory={folder / 'mirror'}",
            )
            run_quietly("mvn", "--batch-mode", "--quiet", "-f", str(HERE / "pom.xml"), "dependency:copy", *options)

    return fetched(f"connect-mirror-{KAFKA_VERSION}", fetch)
