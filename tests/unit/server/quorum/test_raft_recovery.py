from __future__ import annotations

import errno
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.election_state import ElectionState
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_recovery import LostPromises
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.server.quorum.raft_recovery import DamagedAlone, MetadataLogConfig, open_metadata_log, read_election
from barnabas.storage.errors import StorageError
from barnabas.storage.lost_promises_file import LOST_PROMISES, LostPromisesFile
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY, MetadataLog
from barnabas.storage.quorum_state_file import QUORUM_STATE, QuorumStateFile
from tests.unit.storage.test_damaged_metadata_log import SIZE, damage_snapshot, files, flip, log_files
from tests.unit.storage.test_metadata_log import LOG, filled, offsets, snapshot


def config(*voter_ids: int, can_be_voter: bool = True, bootstrap: tuple[Endpoint, ...] = ()) -> RaftConfig:
    voters = VoterSet(VoterNode(ReplicaKey(id_), {"CONTROLLER": Endpoint(f"host{id_}", 9093)}) for id_ in voter_ids)
    return RaftConfig(
        node_id=1,
        directory_id=Uuid.from_int(1001),
        cluster_id="cluster",
        can_be_voter=can_be_voter,
        static_voters=voters,
        bootstrap_servers=bootstrap,
        listeners={"CONTROLLER": Endpoint("host1", 9093)},
    )


ALONE, ONE_OF_THREE = config(1), config(1, 2, 3)
BROKER = config(2, 3, can_be_voter=False)


def damaged(folder: Path) -> Path:
    """A log of 16 records, the third batch of which has a flipped bit."""
    filled(folder, 8).close()
    path = folder / METADATA_LOG_DIRECTORY / LOG
    flip(path, 2 * SIZE + 70)
    return path


def opened(folder: Path, raft: RaftConfig) -> MetadataLog:
    return open_metadata_log(MetadataLogConfig(str(folder)), raft, 0)


def test_a_sole_voter_refuses_a_damaged_log_and_names_the_remedies(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    before = files(tmp_path)
    with pytest.raises(DamagedAlone) as raised:
        opened(tmp_path, ALONE)
    text = str(raised.value)
    assert text.startswith(f"{path}: at position {2 * SIZE}: the checksum is wrong; offsets 4 to 15 cannot be read")
    for advice in ("restore the directory from a backup", "fetched from the quorum", "storage repair --accept-loss"):
        assert advice in text
    assert files(tmp_path) == before


def test_a_voter_with_peers_keeps_the_intact_part_and_records_its_loss(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    log = opened(tmp_path, ONE_OF_THREE)
    assert (log.end_offset, offsets(log)) == (4, [0, 2])
    lost = LostPromisesFile(log.directory).read()
    assert lost == LostPromises(16, reason=f"{path}: the checksum is wrong")
    assert Path(f"{path}.damaged").stat().st_size == 6 * SIZE
    log.close()
    assert opened(tmp_path, ONE_OF_THREE).end_offset == 4
    assert LostPromisesFile(log.directory).read() == lost


def test_a_voter_set_that_names_another_directory_of_this_node_does_not_make_it_a_single_voter(
    tmp_path: Path,
) -> None:
    """Its disk was replaced while it was no longer the only voter, and the log that it fetches begins before that."""
    damaged(tmp_path)
    earlier = VoterSet([VoterNode(ReplicaKey(1, Uuid.from_int(7)), {"CONTROLLER": Endpoint("host1", 9093)})])
    peers = (Endpoint("host1", 9093), Endpoint("host2", 9093))
    assert opened(tmp_path, replace(ALONE, static_voters=earlier, bootstrap_servers=peers)).end_offset == 4


def test_a_broker_sets_the_damaged_part_aside_without_a_recorded_loss(tmp_path: Path) -> None:
    damaged(tmp_path)
    log = opened(tmp_path, BROKER)
    assert log.end_offset == 4
    assert LostPromisesFile(log.directory).read() is None


def test_a_crash_after_the_cut_and_before_the_recovery_point_is_lowered_is_repaired(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    point = tmp_path / METADATA_LOG_DIRECTORY / "recovery-point"
    before = point.read_bytes()
    opened(tmp_path, ONE_OF_THREE).close()
    point.write_bytes(before)
    assert opened(tmp_path, ONE_OF_THREE).end_offset == 4
    assert path.stat().st_size == 2 * SIZE


def test_damage_at_several_places_is_set_aside_together(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    flip(path, 5 * SIZE + 70)
    assert opened(tmp_path, ONE_OF_THREE).end_offset == 4


def test_segments_after_the_damage_are_kept_aside(tmp_path: Path) -> None:
    filled(tmp_path, 20, segment_bytes=300).close()
    paths = log_files(tmp_path)
    paths[1].unlink()
    log = open_metadata_log(MetadataLogConfig(str(tmp_path), segment_bytes=300), ONE_OF_THREE, 0)
    assert log.end_offset == int(paths[1].stem)
    assert all(Path(f"{path}.damaged").exists() for path in paths[2:])
    lost = LostPromisesFile(log.directory).read()
    assert lost is not None
    assert lost.end_offset == 40


def test_a_damaged_snapshot_that_nothing_covers_is_fetched_again(tmp_path: Path) -> None:
    log = filled(tmp_path, 20, segment_bytes=300)
    snapshot(log, 20)
    log.delete_before(20)
    log.close()
    path = damage_snapshot(log, 20)
    again = open_metadata_log(MetadataLogConfig(str(tmp_path), segment_bytes=300), ONE_OF_THREE, 0)
    assert (again.start_offset, again.end_offset, list(again.snapshots)) == (0, 0, [])
    assert Path(f"{path}.damaged").exists()
    lost = LostPromisesFile(log.directory).read()
    assert lost is not None
    assert lost.end_offset == 40


@pytest.mark.parametrize(
    ("raft", "is_alone"),
    [
        (config(bootstrap=(Endpoint("host1", 9093),)), True),
        (config(bootstrap=(Endpoint("host1", 9093), Endpoint("host2", 9093))), False),
        (config(1, bootstrap=(Endpoint("host2", 9093),)), True),
    ],
)
def test_bootstrap_servers_are_peers_only_where_no_voters_are_known(
    tmp_path: Path, raft: RaftConfig, is_alone: bool
) -> None:
    damaged(tmp_path)
    if is_alone:
        with pytest.raises(DamagedAlone):
            opened(tmp_path, raft)
    else:
        assert opened(tmp_path, raft).end_offset == 4


# --- quorum-state


def read(folder: Path, raft: RaftConfig) -> tuple[ElectionState | None, LostPromises | None]:
    return read_election(opened(folder, raft), raft, ControlRecordStateMachine(raft.static_voters))


UNREADABLE = [b"", bytes(50), b"garbage", b'{"leaderId":1}', b'{"data_version":9}', b"[]", b"\xff\xfe\x00"]


@pytest.mark.parametrize("content", UNREADABLE)
def test_a_voter_without_a_readable_quorum_state_has_forgotten_its_votes(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, 8).close()
    path = tmp_path / METADATA_LOG_DIRECTORY / QUORUM_STATE
    path.write_bytes(content)
    with caplog.at_level(logging.ERROR):
        stored, lost = read(tmp_path, ONE_OF_THREE)
    assert stored is None
    assert lost is not None
    assert lost.forgot_votes
    assert str(path) in caplog.text
    assert Path(f"{path}.damaged").read_bytes() == content
    again = read(tmp_path, ONE_OF_THREE)[1]
    assert again is not None, "it survives a restart"
    assert again.forgot_votes


def test_a_voter_with_a_log_and_no_quorum_state_has_forgotten_its_votes(tmp_path: Path) -> None:
    filled(tmp_path, 8).close()
    lost = read(tmp_path, ONE_OF_THREE)[1]
    assert lost is not None
    assert lost.forgot_votes


def test_a_quorum_state_from_before_the_log_is_not_trusted(tmp_path: Path) -> None:
    log = filled(tmp_path, 8)
    log.close()
    QuorumStateFile(log.directory).write(ElectionState(0), 1)
    lost = read(tmp_path, ONE_OF_THREE)[1]
    assert lost is not None
    assert lost.forgot_votes


def test_a_new_voter_has_no_quorum_state_and_has_forgotten_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, ONE_OF_THREE) == (None, None)


@pytest.mark.parametrize("raft", [ALONE, BROKER])
def test_a_node_that_needs_no_record_of_votes_continues_without_it(
    tmp_path: Path, raft: RaftConfig, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, 8).close()
    (tmp_path / METADATA_LOG_DIRECTORY / QUORUM_STATE).write_bytes(b"")
    assert read(tmp_path, raft) == (None, None)
    assert QUORUM_STATE in caplog.text


@pytest.mark.parametrize("content", [b"", b"{}", b"garbage", b"[]", b'{"version":3}'])
def test_an_unreadable_record_of_losses_counts_as_the_worst_case(tmp_path: Path, content: bytes) -> None:
    log = filled(tmp_path, 8)
    log.close()
    QuorumStateFile(log.directory).write(ElectionState(1), 1)
    (tmp_path / METADATA_LOG_DIRECTORY / LOST_PROMISES).write_bytes(content)
    lost = read(tmp_path, ONE_OF_THREE)[1]
    assert lost is not None
    assert lost.forgot_votes


# --- the whole directory


def test_a_used_sole_voter_refuses_to_start_without_its_metadata_directory(tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    with pytest.raises(DamagedAlone, match=f"{METADATA_LOG_DIRECTORY}: the directory is missing"):
        opened(tmp_path, ALONE)
    assert not (tmp_path / METADATA_LOG_DIRECTORY).exists()


def test_an_unreadable_disk_is_not_taken_for_a_missing_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, 8).close()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    stat = os.stat

    def fail(path: str, **options: Any) -> os.stat_result:
        if str(path).endswith(METADATA_LOG_DIRECTORY):
            raise OSError(errno.EIO, "Input/output error", path)
        return stat(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        with pytest.raises(StorageError, match=f"Input/output error: '{tmp_path}/{METADATA_LOG_DIRECTORY}'"):
            opened(tmp_path, ONE_OF_THREE)
    assert LostPromisesFile(str(tmp_path / METADATA_LOG_DIRECTORY)).read() is None


def test_an_unreadable_snapshot_does_not_hide_that_a_node_is_the_only_voter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the voters: without them another server would count as a peer, and the log would be truncated."""
    log = filled(tmp_path, 8)
    snapshot(log, 2)
    log.close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    flip(path, 2 * SIZE + 70)
    before = path.read_bytes()

    def fail(*arguments: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "the snapshot")

    monkeypatch.setattr("barnabas.server.quorum.raft_recovery.SnapshotReader", fail)
    with pytest.raises(StorageError, match="the snapshot"):
        opened(tmp_path, config(bootstrap=(Endpoint("host1", 9093), Endpoint("host2", 9093))))
    assert path.read_bytes() == before


def test_a_used_voter_without_its_metadata_directory_has_forgotten_its_votes(tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    lost = read(tmp_path, ONE_OF_THREE)[1]
    assert lost is not None
    assert lost.forgot_votes


def test_a_new_node_has_no_metadata_directory(tmp_path: Path) -> None:
    assert opened(tmp_path, ALONE).end_offset == 0
