from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.common.uuid import Uuid
from barnabas.raft.election_state import ElectionState
from barnabas.raft.replica_key import ReplicaKey
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.quorum_state_file import QuorumStateFile

VOTED = ElectionState(4, None, ReplicaKey(2, Uuid.from_int(1002)))


def test_a_missing_file_means_no_election(tmp_path: Path) -> None:
    assert QuorumStateFile(str(tmp_path)).read() is None


@pytest.mark.parametrize("election", [ElectionState(0), ElectionState(3, 1), VOTED])
def test_version_1_keeps_everything(tmp_path: Path, election: ElectionState) -> None:
    file = QuorumStateFile(str(tmp_path))
    file.write(election, kraft_version=1)
    assert file.read() == election


def test_version_0_has_no_directory(tmp_path: Path) -> None:
    file = QuorumStateFile(str(tmp_path))
    file.write(VOTED, 0, [2, 1])
    assert file.read() == ElectionState(4, None, ReplicaKey(2))
    assert Path(file.path).read_text() == (
        '{"clusterId":"","leaderId":-1,"leaderEpoch":4,"votedId":2,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )


def test_kafkas_version_0_is_read(tmp_path: Path) -> None:
    (tmp_path / "quorum-state").write_text(
        '{"clusterId":"","leaderId":2,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert QuorumStateFile(str(tmp_path)).read() == ElectionState(3, 2)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"data_version":2}', '{"data_version":1,"leaderId":1,"votedId":1,"leaderEpoch":1}']
)
def test_anything_else_is_refused_with_the_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "quorum-state").write_text(text)
    with pytest.raises(CorruptFileError, match="quorum-state"):
        QuorumStateFile(str(tmp_path)).read()


def test_clearing_a_missing_file_is_not_an_error(tmp_path: Path) -> None:
    QuorumStateFile(str(tmp_path)).clear()
