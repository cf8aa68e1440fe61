"""Kafka's metadata shell shows the same for our snapshot as for the log that Kafka wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.shell import command as shell
from barnabas.metadata.loader import MetadataLoader
from barnabas.metadata.snapshot import records_of
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotWriter, snapshot_path
from tests.oracles.archives import unpack
from tests.oracles.test_metadata_image import DATA, LOG, committed_batches
from tests.peers import metadata_shell

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.mark.usefixtures("kafka_peer")
def test_our_shell_prints_everything_that_kafkas_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unpack(DATA / "storage-a.tar.xz", tmp_path)
    log = tmp_path / "storage-a" / "controller-3000" / LOG
    (theirs,) = metadata_shell(log, "tree image")
    assert shell.main(["--show-secrets", str(log), "tree", "image"]) == 0
    printed = capsys.readouterr().out
    # Kafka's shell has no name for the default entity of a quota, and shows nothing below it.
    default = "  user(<default>):\n    controller_mutation_rate:\n      10.0\n"
    assert default in printed
    assert printed.replace(default, "") == theirs.replace("clientQuotas:\n  :\n", "clientQuotas:\n") + "\n"


def sections(printed: str) -> list[str]:
    """Return what the shell printed for each command; it echoes a prompt but not the command."""
    return [section.strip("\n") for section in printed.split(">> ")[1:]]


@pytest.mark.usefixtures("kafka_peer")
def test_our_snapshot_shows_the_same_tree_as_its_log(tmp_path: Path) -> None:
    unpack(DATA / "storage-a.tar.xz", tmp_path)
    recorded = (tmp_path / "storage-a" / "metadata-shell.txt").read_text()
    commands = [line.removeprefix("#> ") for line in recorded.splitlines() if line.startswith("#> ")]
    loader = MetadataLoader()
    loader.handle_commit(committed_batches((tmp_path / "storage-a" / "controller-3000" / LOG).read_bytes()))
    image = loader.image
    snapshot_id = OffsetAndEpoch(image.offset + 1, image.provenance.last_contained_epoch)
    writer = SnapshotWriter(
        RawSnapshotWriter(str(tmp_path), snapshot_id, token="x"),
        last_contained_log_timestamp=image.provenance.last_contained_log_time_ms,
        now_ms=image.provenance.last_contained_log_time_ms,
        serde=MetadataRecordSerde(),
        kraft_version=0,
        voters=None,
    )
    writer.append(records_of(image))
    writer.freeze()
    seen = metadata_shell(Path(snapshot_path(str(tmp_path), snapshot_id)), *commands)
    for command, before, after in zip(commands, sections(recorded), seen, strict=False):
        if command == "tree image/provenance":
            continue  # The shell counts offsets within the given file.
        assert sorted(after.splitlines()) == sorted(before.splitlines()), command
    assert len(seen) == len(commands)
