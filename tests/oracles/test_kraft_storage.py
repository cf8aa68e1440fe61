"""Storage directories of real controllers and brokers: our reader reports what Kafka's tools report."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.common.uuid import Uuid
from barnabas.raft.election_state import ElectionState
from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.storage.bootstrap_file import read_bootstrap_file, write_bootstrap_file
from barnabas.storage.meta_properties import MetaProperties
from barnabas.storage.metadata_log import MetadataLog
from barnabas.storage.quorum_state_file import QuorumStateFile
from barnabas.storage.recovery_point import RECOVERY_POINT
from barnabas.storage.snapshot_file import SnapshotReader
from tests.oracles.archives import unpack
from tests.oracles.metadata_log_dump import dump_metadata_log

pytestmark = pytest.mark.oracle

DATA = Path(__file__).parent / "data" / "kraft"
LOG = "__cluster_metadata-0/00000000000000000000.log"
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"

NODES = {
    "storage-a": ("controller-3000", "dump-log.txt"),
    "storage-c": ("controller-3002", "dump-log-without-noop.txt"),
    "storage-d": ("controller-1", "dump-log-without-noop.txt"),
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kraft")
    for name in NODES:
        unpack(DATA / f"{name}.tar.xz", folder)
    return folder


@pytest.fixture
def copy(unpacked: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies one node's directory, which a test may change."""

    def copied(path: str) -> Path:
        return Path(shutil.copytree(unpacked / path, tmp_path / "copy"))

    return copied


@pytest.mark.parametrize("name", NODES)
def test_the_log_is_listed_as_dump_log_segments_does(unpacked: Path, name: str) -> None:
    node, dump = NODES[name]
    expected = (unpacked / name / dump).read_text().splitlines()
    listed = list(dump_metadata_log(str(unpacked / name / node / LOG)))
    if "without-noop" in dump:
        listed = [line for line in listed if '"NO_OP_RECORD"' not in line]
    assert listed[1:] == expected[1:]  # The first line is the path.


def test_the_voters_checkpoint_is_listed_as_dump_log_segments_does(unpacked: Path) -> None:
    expected = (unpacked / "storage-a" / "dump-checkpoints.txt").read_text().splitlines()
    listed = list(dump_metadata_log(str(unpacked / "storage-a" / "controller-3000" / CHECKPOINT)))
    assert listed[1:] == expected[1:]


@pytest.mark.parametrize(
    ("path", "end_offset", "epochs"),
    [
        ("storage-a/controller-3000", 987, [(1, 0)]),
        ("storage-a/broker-1-dir0", 980, [(1, 0)]),
        ("storage-c/controller-3002", 279, [(1, 0), (3, 3), (4, 225)]),
        ("storage-d/controller-1", 32, [(2, 0), (3, 31)]),
    ],
)
def test_a_log_of_kafka_opens_without_a_repair(
    copy: Callable[[str], Path], path: str, end_offset: int, epochs: list[tuple[int, int]]
) -> None:
    log = MetadataLog(str(copy(path)))
    assert (log.end_offset, log.epochs, log.recovered_from) == (end_offset, epochs, None)
    assert sum(batch.count for batch in log.batches(0)) == end_offset
    log.close()


def test_opening_and_closing_leaves_the_files_of_a_clean_shutdown_as_they_were(copy: Callable[[str], Path]) -> None:
    directory = copy("storage-a/controller-3000") / "__cluster_metadata-0"
    before = {entry.name: entry.read_bytes() for entry in directory.iterdir()}
    MetadataLog(str(directory.parent)).close()
    after = {entry.name: entry.read_bytes() for entry in directory.iterdir()}
    assert after.pop(RECOVERY_POINT), "a file of our own, which Kafka leaves alone"
    assert after == before


def test_an_unclean_shutdown_leaves_preallocated_indexes_and_they_are_trimmed(copy: Callable[[str], Path]) -> None:
    directory = copy("storage-d/controller-1") / "__cluster_metadata-0"
    assert os.stat(directory / "00000000000000000000.index").st_size == 10 * 1024 * 1024
    MetadataLog(str(directory.parent)).close()
    assert os.stat(directory / "00000000000000000000.index").st_size == 0
    assert os.stat(directory / "00000000000000000000.timeindex").st_size == 12


def test_the_voters_of_a_dynamic_quorum_are_read_from_its_checkpoint(unpacked: Path) -> None:
    directory = str(unpacked / "storage-c" / "controller-3002" / "__cluster_metadata-0")
    reader = SnapshotReader(directory, OffsetAndEpoch(0, 0))
    assert reader.kraft_version == 1
    assert reader.voters is not None
    assert [str(key) for key in reader.voters.keys] == [
        "3001@KC4V8CRpT2Ome_1cCDODHA",
        "3002@GXCXrIodSPK_EeWhYOBUwQ",
        "3003@FKZFENp9RemPdZ3xwNksqg",
    ]
    assert str(reader.voters.endpoint(3002, "CONTROLLER")) == "127.0.0.1:25094"


@pytest.mark.parametrize(
    ("path", "election"),
    [
        ("storage-a/controller-3000", ElectionState(1, 3000)),
        (
            "storage-c/controller-3002",
            ElectionState(5, 3004, ReplicaKey(3004, Uuid.from_string("Fkf0-v_ETt8LDsAopEjOaw"))),
        ),
        ("storage-d/controller-1", ElectionState(3, 1)),
    ],
)
def test_quorum_state_is_read_and_written_back_byte_for_byte(
    copy: Callable[[str], Path], path: str, election: ElectionState
) -> None:
    file = QuorumStateFile(str(copy(path) / "__cluster_metadata-0"))
    before = Path(file.path).read_bytes()
    assert file.read() == election
    file.write(election, kraft_version=1)
    assert Path(file.path).read_bytes() == before


def test_meta_properties_is_written_back_byte_for_byte(copy: Callable[[str], Path]) -> None:
    directory = copy("storage-a/controller-3000")
    before = (directory / "meta.properties").read_bytes()
    properties = MetaProperties.read(str(directory))
    assert properties is not None
    assert (properties.node_id, properties.cluster_id) == (3000, "IxBJmFq_QQSa0i06awp6oA")
    properties.write(str(directory), before.decode().splitlines()[1].removeprefix("#"))
    assert (directory / "meta.properties").read_bytes() == before


class _PassThrough:
    """Leave values unchanged, so that only the frame of the file is compared."""

    def encode(self, record: bytes) -> bytes:
        return record

    def decode(self, value: bytes | memoryview) -> bytes:
        return bytes(value)


def test_bootstrap_checkpoint_is_read_and_written_back_but_for_its_timestamps(copy: Callable[[str], Path]) -> None:
    directory = copy("storage-a/controller-3000")
    before = list(dump_metadata_log(_as_snapshot(directory)))
    records = read_bootstrap_file(str(directory), _PassThrough())
    assert records is not None
    assert len(records) == 8
    write_bootstrap_file(str(directory), records, serde=_PassThrough(), now_ms=0)
    after = list(dump_metadata_log(_as_snapshot(directory)))
    assert [_timeless(line) for line in after] == [_timeless(line) for line in before]


def _as_snapshot(directory: Path) -> str:
    """Copy the file under a name with its end offset."""
    path = directory / "00000000000000000000-0000000000.checkpoint"
    path.write_bytes((directory / "bootstrap.checkpoint").read_bytes())
    return str(path)


def _timeless(line: str) -> str:
    words = line.split(" ")
    return " ".join(
        "" if before in ("CreateTime:", "crc:") else word for before, word in zip(["", *words], words, strict=False)
    )
