"""The log directories of a simulated broker: identity, logs, failures and maintenance, as in ``BrokerPart``.

These are the product's own parts: ``read_identity`` at the start, ``LogDirService`` for failures and damage, and
``LogMaintenance`` for checkpoints and flushes. The cleaner is omitted, because it has its own thread.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from barnabas.common.topic_config import TopicConfig
from barnabas.common.uuid import Uuid
from barnabas.server.broker.log_dir_service import LogDirService
from barnabas.server.broker.log_maintenance import LogMaintenance
from barnabas.server.node_identity import NodeIdentity, read_identity
from barnabas.storage.log_manager import LogManager
from barnabas.storage.meta_properties import MetaProperties

if TYPE_CHECKING:
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.server.node_core import NodeCore
    from tests.simulation.cluster.node import SimulatedNode

__all__ = [
    "data_directories",
    "directories_core",
    "directory_service",
    "format_directories",
    "identity",
    "maintenance",
    "open_logs",
    "topic_defaults",
]

CHECKPOINT_MS = 4000
HIGH_WATERMARK_MS = 1000
RETENTION_MS = 5000
NEVER_MS = 1 << 40
FORMATTED = "Tue Nov 14 22:13:20 UTC 2023"


def format_directories(node: SimulatedNode, cluster_id: str) -> None:
    """Write meta.properties where it is missing, as ``storage format --ignore-formatted`` does."""
    identities = {node.disk.folder: node.directory_id, **node.data_directory_ids}
    for folder, directory_id in identities.items():
        os.makedirs(folder, exist_ok=True)
        if MetaProperties.read(folder) is None:
            MetaProperties(1, cluster_id, node.id, directory_id).write(folder, FORMATTED)


def identity(node: SimulatedNode) -> NodeIdentity:
    """Read the identity. Raises NodeStartError if the node must not start with these directories."""
    config = SimpleNamespace(
        log_dirs=list(node.data_directory_ids) or [node.disk.folder],
        metadata_log_dir=node.disk.folder,
        node_id=node.id,
        barnabas_auto_format=False,
        source=None,
    )
    return read_identity(config)  # type: ignore[arg-type]


def topic_defaults(node: SimulatedNode) -> TopicConfig:
    shape = node.world.shape
    values = {"internal.segment.bytes": shape.data_segment_bytes, "min.insync.replicas": shape.min_in_sync}
    if shape.transactions is not None and shape.transactions.flushes:
        values["flush.messages"] = 1
    return TopicConfig(values)


def open_logs(node: SimulatedNode, found: NodeIdentity) -> LogManager:
    draw = node.draw
    logs = LogManager(
        list(node.data_directory_ids),
        default_config=topic_defaults(node),
        new_unique_id=lambda: draw.randbytes(16).hex(),
        directory_ids=found.directory_ids,
        offline=found.offline_log_dirs,
        boot=f"boot-{node.disk.boot}",
    )
    node.logs = logs
    logs.startup(now_ms=node.clock.now_ms())
    return logs


def directories_core(node: SimulatedNode) -> NodeCore:
    """Return a node core with the attributes that ``LogDirService`` uses."""
    core = SimpleNamespace(
        config=SimpleNamespace(
            node_id=node.id,
            metadata_log_dir=node.disk.folder,
            cordoned_log_dirs=(),
            log_dir_failure_timeout_ms=30_000,
            alter_log_dirs_replication_quota_window_num=11,
            alter_log_dirs_replication_quota_window_size_seconds=1,
        ),
        clock=node.clock,
        metadata=node.cache,
        give_up=node.stop_on_fault,
    )
    return cast("NodeCore", core)


def directory_service(node: SimulatedNode, core: NodeCore, replicas: ReplicaManager) -> LogDirService:
    assert node.lifecycle is not None
    return LogDirService(core, replicas, node.channel, node.lifecycle)


def maintenance(node: SimulatedNode, replicas: ReplicaManager) -> LogMaintenance:
    config = SimpleNamespace(
        log_retention_check_interval_ms=RETENTION_MS,
        log_flush_offset_checkpoint_interval_ms=CHECKPOINT_MS,
        log_flush_scheduler_interval_ms=NEVER_MS,
        replica_high_watermark_checkpoint_interval_ms=HIGH_WATERMARK_MS,
        log_cleaner_enable=False,
    )
    return LogMaintenance(config, replicas.logs, replicas, node.clock)  # type: ignore[arg-type]


def data_directories(folder: str, node_id: int, count: int) -> dict[str, Uuid]:
    """Return the ids of a broker's data directories by their paths."""
    return {f"{folder}/{number}": Uuid.from_int(5000 + 1000 * number + node_id) for number in range(count)}
