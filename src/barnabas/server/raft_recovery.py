"""What a replica of the metadata log knows when its process starts: what its files say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.leader_epochs import LeaderEpochs
from barnabas.raft.log_state import LogState
from barnabas.raft.ports import RecordSerde
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.raft_node import RaftNode
from barnabas.storage.metadata_log import MetadataLog
from barnabas.storage.snapshot_file import SnapshotReader

__all__ = ["MetadataLogConfig", "open_metadata_log", "recovered_node"]


@dataclass(frozen=True, slots=True)
class MetadataLogConfig:
    """Kafka's ``metadata.log.*`` and ``metadata.max.*`` settings."""

    directory: str
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 60 * 60 * 1000


def open_metadata_log(config: MetadataLogConfig, now_ms: int) -> MetadataLog:
    """Raises StorageError when it can't be used."""
    return MetadataLog(
        config.directory, segment_bytes=config.segment_bytes, segment_ms=config.segment_ms, now_ms=now_ms
    )


def recovered_node(
    metadata_log: MetadataLog,
    config: RaftConfig,
    control_records: ControlRecordStateMachine,
    *,
    serde: RecordSerde,
    random_below: Callable[[int], int],
) -> RaftNode:
    """``control_records`` gets what snapshot and log say of voters and kraft.version."""
    latest = metadata_log.latest_snapshot_id
    if latest is not None:
        reader = SnapshotReader(metadata_log.directory, latest)
        if reader.kraft_version is not None:
            control_records.replay_kraft_version(latest.offset - 1, reader.kraft_version)
        if reader.voters is not None:
            control_records.replay_voters(latest.offset - 1, reader.voters)
    for offset in metadata_log.control_batch_offsets:
        control_records.replay_batch(next(metadata_log.batches(offset)))
    state = LogState(
        start_offset=metadata_log.start_offset,
        end_offset=metadata_log.end_offset,
        epochs=LeaderEpochs(metadata_log.epochs),
        snapshots=metadata_log.snapshots,
    )
    return RaftNode(config=config, log=state, control_records=control_records, serde=serde, random_below=random_below)
