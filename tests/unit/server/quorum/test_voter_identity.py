"""Mixed up files of a metadata log: of another cluster, or of another directory of this node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.common.uuid import Uuid
from barnabas.protocol.records.leader_change_message import LeaderChangeMessage
from barnabas.protocol.records.voters_record import VotersRecord
from barnabas.raft.control_records import build_control_batch, leader_change, voters_record
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.ready import AppendedBatch
from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.quorum.raft_recovery import MetadataLogConfig, open_metadata_log
from barnabas.server.quorum.voter_identity import MixedUpFiles, check_directory_id, check_first_voters
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY, MetadataLog
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotWriter

DIRECTORY, OTHER_DIRECTORY = Uuid.from_int(1001), Uuid.from_int(1002)
RAFT = RaftConfig(
    node_id=1,
    directory_id=DIRECTORY,
    cluster_id="cluster",
    can_be_voter=True,
    static_voters=VoterSet(),
    bootstrap_servers=(),
    listeners={"CONTROLLER": Endpoint("host1", 9093)},
)


def voters(*keys: tuple[int, Uuid]) -> VoterSet:
    return VoterSet(
        VoterNode(ReplicaKey(number, directory), {"CONTROLLER": Endpoint(f"host{number}", 9093)})
        for number, directory in keys
    )


def make(folder: Path, formatted: VoterSet, begun: VoterSet) -> Path:
    """A directory that was formatted for the first voters, and a log that begins with the second."""
    log = MetadataLog(str(folder))
    raw = RawSnapshotWriter(log.directory, OffsetAndEpoch(0, 0), "token")
    SnapshotWriter(
        raw, last_contained_log_timestamp=0, now_ms=0, serde=MetadataRecordSerde(), kraft_version=1, voters=formatted
    ).freeze()
    records: list[LeaderChangeMessage | VotersRecord] = [leader_change(1, begun.keys, begun.keys), voters_record(begun)]
    data = build_control_batch(records, base_offset=0, leader_epoch=1, timestamp_ms=0)
    log.append(AppendedBatch(base_offset=0, last_offset=1, epoch=1, timestamp_ms=0, data=data, is_control=True))
    log.close()
    return folder / METADATA_LOG_DIRECTORY / "00000000000000000000.log"


def test_a_log_of_another_quorum_is_refused_with_its_path(tmp_path: Path) -> None:
    path = make(tmp_path, voters((1, DIRECTORY)), voters((2, OTHER_DIRECTORY)))
    before = path.read_bytes()
    with pytest.raises(MixedUpFiles) as raised:
        open_metadata_log(MetadataLogConfig(str(tmp_path)), RAFT, 0)
    assert str(raised.value).startswith(f"{path}: the log belongs to another quorum: it begins with the voters 2@")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "begun",
    [
        voters((1, DIRECTORY)),
        voters((1, DIRECTORY), (2, OTHER_DIRECTORY)),
        voters((1, OTHER_DIRECTORY)),
    ],
)
def test_a_log_of_this_quorum_is_opened(tmp_path: Path, begun: VoterSet) -> None:
    make(tmp_path, voters((1, DIRECTORY)), begun)
    check_first_voters(str(tmp_path))
    assert open_metadata_log(MetadataLogConfig(str(tmp_path)), RAFT, 0).end_offset == 2


def test_a_directory_without_a_log_or_voters_is_accepted(tmp_path: Path) -> None:
    check_first_voters(str(tmp_path))
    path = make(tmp_path, voters((1, DIRECTORY)), voters((2, OTHER_DIRECTORY)))
    path.write_bytes(b"garbage")
    check_first_voters(str(tmp_path))
    path.unlink()
    check_first_voters(str(tmp_path))


def test_the_only_voter_in_another_directory_is_refused_with_the_path_of_meta_properties() -> None:
    with pytest.raises(MixedUpFiles) as raised:
        check_directory_id("/data", RAFT, voters((1, OTHER_DIRECTORY)))
    assert str(raised.value).startswith("/data/meta.properties: this node is 1@")


def test_the_only_voter_in_another_directory_fetches_the_rest_of_the_log_from_other_bootstrap_servers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its disk was replaced, and it stopped before it had fetched the change of voters that follows."""
    raft = replace(RAFT, bootstrap_servers=(Endpoint("host1", 9093), Endpoint("host2", 9093)))
    check_directory_id("/data", raft, voters((1, OTHER_DIRECTORY)))
    assert caplog.messages[0].startswith("/data/meta.properties: this node is 1@")
    alone = replace(RAFT, bootstrap_servers=(Endpoint("host1", 9093),))
    with pytest.raises(MixedUpFiles):
        check_directory_id("/data", alone, voters((1, OTHER_DIRECTORY)))


@pytest.mark.parametrize(
    "known",
    [
        voters((1, DIRECTORY)),
        voters((1, Uuid.ZERO)),
        voters((1, OTHER_DIRECTORY), (2, OTHER_DIRECTORY)),
        voters((2, OTHER_DIRECTORY)),
        VoterSet(),
    ],
)
def test_a_voter_with_its_directory_or_with_peers_starts(known: VoterSet) -> None:
    check_directory_id("/data", RAFT, known)
