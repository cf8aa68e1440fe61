from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.common.uuid import Uuid
from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.snapshot_file import (
    RawSnapshotWriter,
    SnapshotReader,
    SnapshotWriter,
    delete_snapshot,
    list_snapshots,
    remove_leftovers,
    snapshot_path,
)

ID = OffsetAndEpoch(1015, 3)
NAME = "00000000000000001015-0000000003.checkpoint"
VOTERS = VoterSet([VoterNode(ReplicaKey(1, Uuid.from_int(1001)), {"CONTROLLER": Endpoint("localhost", 9093)}, 0, 1)])


class TextSerde:
    def encode(self, record: str) -> bytes:
        return record.encode()

    def decode(self, value: bytes | memoryview) -> str:
        return bytes(value).decode()


def writer(directory: Path, *, kraft_version: int = 1, voters: VoterSet | None = VOTERS) -> SnapshotWriter:
    return SnapshotWriter(
        RawSnapshotWriter(str(directory), ID, "token"),
        last_contained_log_timestamp=77,
        now_ms=100,
        serde=TextSerde(),
        kraft_version=kraft_version,
        voters=voters,
    )


def written(directory: Path, records: list[str]) -> SnapshotReader:
    snapshot = writer(directory)
    snapshot.append(records)
    snapshot.freeze()
    return SnapshotReader(str(directory), ID)


def test_records_voters_and_header_are_read_back(tmp_path: Path) -> None:
    reader = written(tmp_path, ["a", "b"])
    assert list(reader.records(TextSerde())) == ["a", "b"]
    assert (reader.voters, reader.kraft_version, reader.last_contained_log_timestamp) == (VOTERS, 1, 77)


def test_offsets_count_from_zero_and_the_epoch_is_the_snapshots(tmp_path: Path) -> None:
    batches = [
        (b.base_offset, b.last_offset, b.is_control, b.leader_epoch) for b in written(tmp_path, ["a", "b"]).batches()
    ]
    assert batches == [(0, 2, True, 3), (3, 4, False, 3), (5, 5, True, 3)]


def test_a_static_quorum_writes_neither_version_nor_voters(tmp_path: Path) -> None:
    snapshot = writer(tmp_path, kraft_version=0, voters=None)
    snapshot.freeze()
    reader = SnapshotReader(str(tmp_path), ID)
    assert (reader.voters, reader.kraft_version) == (None, None)


def test_a_snapshot_is_invisible_until_frozen_and_then_read_only(tmp_path: Path) -> None:
    snapshot = writer(tmp_path)
    assert list_snapshots(str(tmp_path)) == {}
    snapshot.freeze()
    assert list_snapshots(str(tmp_path)) == {ID: snapshot.size}
    assert os.listdir(tmp_path) == [NAME]
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o400


def test_an_abandoned_snapshot_leaves_nothing(tmp_path: Path) -> None:
    writer(tmp_path).abandon()
    assert os.listdir(tmp_path) == []


def test_files_left_by_a_dead_process_are_removed(tmp_path: Path) -> None:
    written(tmp_path, ["a"])
    (tmp_path / "00000000000000002000-0000000003-1234.checkpoint.part").touch()
    (tmp_path / "00000000000000000500-0000000003.checkpoint.deleted").touch()
    remove_leftovers(str(tmp_path))
    assert os.listdir(tmp_path) == [NAME]


def test_a_deleted_snapshot_is_not_listed_but_may_still_be_read(tmp_path: Path) -> None:
    reader = written(tmp_path, ["a"])
    path = delete_snapshot(str(tmp_path), ID)
    assert path.endswith(".checkpoint.deleted")
    assert list_snapshots(str(tmp_path)) == {}
    assert list(reader.records(TextSerde())) == ["a"]


def test_a_chunk_is_a_slice_of_the_file(tmp_path: Path) -> None:
    reader = written(tmp_path, ["a"])
    data = Path(snapshot_path(str(tmp_path), ID)).read_bytes()
    assert bytes(reader.chunk(10, 20)) == data[10:30]
    assert bytes(reader.chunk(reader.size - 5, 20)) == data[-5:]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-10], "does not have a footer"),
        (lambda data: data[:-75], "does not have a footer"),
        (lambda data: b"", "empty"),
        (lambda data: data[:70] + bytes([data[70] ^ 0xFF]) + data[71:], "."),
    ],
)
def test_an_incomplete_snapshot_is_refused(tmp_path: Path, damage: object, message: str) -> None:
    written(tmp_path, ["a"])
    path = tmp_path / NAME
    data = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(damage(data))  # type: ignore[operator]
    with pytest.raises(CorruptFileError, match=message):
        list(SnapshotReader(str(tmp_path), ID).records(TextSerde()))


def test_many_records_are_split_into_batches_of_eight_mebibytes(tmp_path: Path) -> None:
    snapshot = writer(tmp_path)
    for _ in range(20):
        snapshot.append(["x" * 1_000_000])
    snapshot.freeze()
    reader = SnapshotReader(str(tmp_path), ID)
    assert max(batch.size for batch in reader.batches()) <= 8 * 1024 * 1024
    assert sum(1 for _ in reader.records(TextSerde())) == 20
