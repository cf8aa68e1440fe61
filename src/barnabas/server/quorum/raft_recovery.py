"""Recovers the state of a metadata log replica from its files, also damaged ones, when its process starts.

A damaged log stops a node without peers: no other node has the records, and only its operator can decide to continue
without them. A node with peers sets the damaged part aside and fetches the records from the leader. If it may be a
voter, it first records in ``lost-promises`` what it must have again before it votes (``raft.voter_recovery``).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.records.voters_record import VotersRecord
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.control_records import read_control_records, voter_set_of
from barnabas.raft.election_state import ElectionState
from barnabas.raft.leader_epochs import LeaderEpochs
from barnabas.raft.log_state import LogState
from barnabas.raft.ports import RecordSerde
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.voter_recovery import LostPromises
from barnabas.raft.voter_set import VoterSet
from barnabas.server.quorum.voter_identity import check_first_voters, is_other_directory
from barnabas.storage.batch_search import find_batches
from barnabas.storage.damaged_files import DamagedLogError, move_aside
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.file_io import exists
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_directory import BOOT_ID_FILE
from barnabas.storage.lost_promises_file import LostPromisesFile
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY, MetadataLog
from barnabas.storage.metadata_log_opening import segment_sizes
from barnabas.storage.metadata_log_repair import cut_damaged_log
from barnabas.storage.quorum_state_file import QuorumStateFile
from barnabas.storage.segment import Segment
from barnabas.storage.snapshot_file import SnapshotReader, list_snapshots

__all__ = [
    "DamagedAlone",
    "MetadataLogConfig",
    "open_metadata_log",
    "read_election",
    "recovered_node",
    "replay_control_records",
]

log = logging.getLogger(__name__)

_WITNESSES = (BOOT_ID_FILE, ".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")
"""Files that a broker in the same process leaves in the directory."""
_ATTEMPTS = 8
"""Damage at several positions is truncated one position at a time, from the end of the log to its beginning."""


class DamagedAlone(StorageError):
    """The metadata log is damaged and no other node has its records. The message advises the operator."""


@dataclass(frozen=True, slots=True)
class MetadataLogConfig:
    """Kafka's ``metadata.log.*`` and ``metadata.max.*`` settings."""

    directory: str
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 60 * 60 * 1000


def open_metadata_log(config: MetadataLogConfig, raft: RaftConfig, now_ms: int) -> MetadataLog:
    """Open the log, without its damaged part if the node has peers. Raise StorageError if it can't be used."""
    _check_directory(config, raft)
    check_first_voters(config.directory)
    for _ in range(_ATTEMPTS):
        try:
            return _open(config, now_ms)
        except DamagedLogError as error:
            if not _has_peers(config.directory, raft):
                raise DamagedAlone(f"{error}. {_what_to_do(raft)}") from error
            _set_aside(config, raft, error)
    return _open(config, now_ms)


def _check_directory(config: MetadataLogConfig, raft: RaftConfig) -> None:
    """Check for the directory. If a node that has run lacks it, the node has lost the whole log and its votes."""
    directory = f"{config.directory}/{METADATA_LOG_DIRECTORY}"
    try:
        witness = next((name for name in _WITNESSES if exists(f"{config.directory}/{name}")), None)
        if exists(directory) or witness is None or not raft.can_be_voter:
            return
    except OSError as error:
        raise StorageError(f"{config.directory} cannot be read: {error}") from error
    problem = f"{directory}: the directory is missing, and {config.directory}/{witness} shows that this node has run"
    os.makedirs(directory)
    if not _has_peers(config.directory, raft):
        os.rmdir(directory)
        raise DamagedAlone(f"{problem}. {_what_to_do(raft)}")
    log.error("%s. The log is fetched from the quorum", problem)
    LostPromisesFile(directory).add(LostPromises(0, forgot_votes=True, reason=problem))


def _open(config: MetadataLogConfig, now_ms: int) -> MetadataLog:
    return MetadataLog(
        config.directory, segment_bytes=config.segment_bytes, segment_ms=config.segment_ms, now_ms=now_ms
    )


def _set_aside(config: MetadataLogConfig, raft: RaftConfig, error: DamagedLogError) -> None:
    damage = error.damage
    log.error("%s. The damaged part is set aside, and the records are fetched from the quorum", error)
    if raft.can_be_voter:
        promises = LostPromisesFile(f"{config.directory}/{METADATA_LOG_DIRECTORY}")
        promises.add(LostPromises(damage.known_end, reason=f"{damage.path}: {damage.reason}"))
        log.error(
            "This node does not vote until it holds again what it acknowledged: the log up to offset %d, and all that "
            "the leader reports as committed",
            damage.known_end - 1,
        )
    cut_damaged_log(config.directory, damage)


def _what_to_do(raft: RaftConfig) -> str:
    return (
        f"Node {raft.node_id} does not start: it is the only voter that it knows, so no other node has these records. "
        "Nothing was changed. Choose one of these: (1) restore the directory from a backup; (2) if other controllers "
        "exist, replace the directory by a newly formatted one and name them in controller.quorum.bootstrap.servers, "
        "so that the log is fetched from the quorum; (3) list what would be lost with `barnabas storage repair "
        "--config FILE`, and accept it with `barnabas storage repair --accept-loss --config FILE`"
    )


# --- peers


def _has_peers(log_dir: str, raft: RaftConfig) -> bool:
    """Return whether another node has the log.

    A voter set that names only this node takes precedence over the settings, unless it names another directory.
    """
    if not raft.can_be_voter:
        return True
    try:
        voters = _newest_readable_voters(f"{log_dir}/{METADATA_LOG_DIRECTORY}") or raft.static_voters
    except OSError as error:
        raise StorageError(f"the voters in {log_dir}/{METADATA_LOG_DIRECTORY} cannot be read: {error}") from error
    if len(voters) and not is_other_directory(raft, voters):
        return any(key.id != raft.node_id for key in voters.keys)
    return raft.has_other_bootstrap_servers


def _newest_readable_voters(directory: str) -> VoterSet | None:
    """Return the newest voter set in snapshots or batches, even if the log can't be read up to there."""
    newest: tuple[int, VoterSet | None] = (-2, None)
    for snapshot_id in list_snapshots(directory):
        try:
            voters = SnapshotReader(directory, snapshot_id).voters
        except StorageError:
            continue
        if voters is not None:
            newest = max(newest, (snapshot_id.offset - 1, voters), key=lambda item: item[0])
    for offset, voters in _voters_in_segments(directory):
        newest = max(newest, (offset, voters), key=lambda item: item[0])
    return newest[1]


def _voters_in_segments(directory: str) -> Iterator[tuple[int, VoterSet]]:
    pool = FilePool(1)
    for base_offset, size in sorted(segment_sizes(directory).items()):
        data = Segment(directory, base_offset, pool, size=size).map()
        for found in find_batches(data, 0, first_offset=0):
            if not found.is_control:
                continue
            try:
                records = read_control_records(BatchView(data, found.position))
            except DecodeError:
                continue
            for offset, record in records:
                if isinstance(record, VotersRecord):
                    yield offset, voter_set_of(record)


# --- quorum-state


def read_election(
    metadata_log: MetadataLog, raft: RaftConfig, control_records: ControlRecordStateMachine
) -> tuple[ElectionState | None, LostPromises | None]:
    """Return the stored election, and what this voter must have again before it votes.

    A voter with a log but without its quorum-state may have voted in any epoch. The only voter of a quorum need not
    remember votes: no other replica could win an election.
    """
    file, promises = QuorumStateFile(metadata_log.directory), LostPromisesFile(metadata_log.directory)
    is_voter = raft.can_be_voter
    is_alone = is_voter and control_records.last_voter_set.is_only_voter(raft.key)
    stored, problem, is_unreadable = _stored_election(file, metadata_log.last_epoch)
    if problem is not None and (is_alone or not is_voter):
        log.warning("%s; this node continues in epoch %d", problem, metadata_log.last_epoch)
    elif problem is not None:
        log.error("%s. This node does not vote until every other voter has reported its epoch", problem)
        promises.add(LostPromises(metadata_log.end_offset, forgot_votes=True, reason=problem))
    if is_unreadable:
        log.error("%s: the unreadable file is kept as %s", file.path, move_aside(file.path))
    lost = promises.read() if is_voter else None
    if lost is not None:
        log.warning(
            "%s: this voter lost what it had acknowledged (%s). It does not vote until its log reaches offset %d "
            "and all that the leader reports as committed%s",
            promises.path,
            lost.reason,
            lost.end_offset,
            ", and every other voter has reported its epoch" if lost.forgot_votes else "",
        )
    return stored, lost


def _stored_election(file: QuorumStateFile, last_epoch: int) -> tuple[ElectionState | None, str | None, bool]:
    """Return the stored state, the reason why it is incomplete, if any, and whether the file is unreadable."""
    try:
        stored = file.read()
    except CorruptFileError as error:
        return None, str(error), True
    if stored is None and last_epoch > 0:
        return None, f"{file.path}: the file is missing, and the log has records of epoch {last_epoch}", False
    if stored is not None and stored.epoch < last_epoch:
        text = f"{file.path}: the file is of epoch {stored.epoch}, and the log has records of epoch {last_epoch}"
        return stored, text, False
    return stored, None, False


# --- the raft node


def recovered_node(
    metadata_log: MetadataLog,
    config: RaftConfig,
    control_records: ControlRecordStateMachine,
    *,
    serde: RecordSerde,
    random_below: Callable[[int], int],
) -> RaftNode:
    state = LogState(
        start_offset=metadata_log.start_offset,
        end_offset=metadata_log.end_offset,
        epochs=LeaderEpochs(metadata_log.epochs),
        snapshots=metadata_log.snapshots,
    )
    return RaftNode(config=config, log=state, control_records=control_records, serde=serde, random_below=random_below)


def replay_control_records(metadata_log: MetadataLog, control_records: ControlRecordStateMachine) -> None:
    """Pass voters and kraft.version from snapshot and log to ``control_records``."""
    latest = metadata_log.latest_snapshot_id
    if latest is not None:
        reader = SnapshotReader(metadata_log.directory, latest)
        if reader.kraft_version is not None:
            control_records.replay_kraft_version(latest.offset - 1, reader.kraft_version)
        if reader.voters is not None:
            control_records.replay_voters(latest.offset - 1, reader.voters)
    for offset in metadata_log.control_batch_offsets:
        control_records.replay_batch(next(metadata_log.batches(offset)))
