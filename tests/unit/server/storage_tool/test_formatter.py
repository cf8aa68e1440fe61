"""Our storage tool compared with Kafka's output for the same arguments, in the same order, on the same directories."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.storage.command import main
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.settings.node_config import Given, NodeConfig, node_config_of
from barnabas.server.storage_tool.formatter import FormatError, format_storage
from barnabas.storage.bootstrap_file import read_bootstrap_file
from barnabas.storage.meta_properties import MetaProperties
from barnabas.storage.snapshot_file import SnapshotReader

VECTORS = Path(__file__).parents[3] / "vectors" / "storage_tool" / "kafka-4.3.1.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text())
BASE = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:39093
listeners=PLAINTEXT://127.0.0.1:39092,CONTROLLER://127.0.0.1:39093
advertised.listeners=PLAINTEXT://127.0.0.1:39092,CONTROLLER://127.0.0.1:39093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
"""
CLUSTER_ID = "IxBJmFq_QQSa0i06awp6oA"


def comparable(text: str) -> str:
    """Remove random ids and the keys of credentials, which we do not print."""
    text = re.sub(r"directory\.id=[^,]*", "directory.id=", text)
    return re.sub(r"salt=\[[^\]]*\], storedKey=\[[^\]]*\], serverKey=\[[^\]]*\], ", "", text)


def test_every_run_of_kafkas_tool_has_the_same_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    different = []
    for case in CASES:
        (tmp_path / f"{case['name']}.props").write_text(BASE + case["settings"] + "\n")
        status = main(case["arguments"])
        printed = capsys.readouterr()
        answer = (status, comparable(printed.out), comparable(printed.err.strip()))
        expected = (case["status"], comparable(case["stdout"]), comparable(case["stderr"]))
        if answer != expected:
            different.append((case["name"], answer, expected))
    assert not different


def config(tmp_path: Path, **settings: str) -> NodeConfig:
    given = {line.partition("=")[0]: line.partition("=")[2] for line in BASE.splitlines()}
    given["log.dirs"] = str(tmp_path / "data")
    given.update({name.replace("_", "."): value for name, value in settings.items()})
    return node_config_of({name: Given(value, "test") for name, value in given.items() if value}, source="test")


def test_the_voter_is_this_node_with_its_directory_and_its_controller_endpoint(tmp_path: Path) -> None:
    format_storage(config(tmp_path), cluster_id=CLUSTER_ID, standalone=True)
    properties = MetaProperties.read(str(tmp_path / "data"))
    reader = SnapshotReader(str(tmp_path / "data" / "__cluster_metadata-0"), OffsetAndEpoch(0, 0))
    assert reader.voters is not None
    (voter,) = reader.voters
    assert properties is not None
    assert (voter.key.id, voter.key.directory_id) == (1, properties.directory_id)
    assert {name: str(endpoint) for name, endpoint in voter.listeners.items()} == {"CONTROLLER": "127.0.0.1:39093"}
    assert (voter.kraft_version_min, voter.kraft_version_max, reader.kraft_version) == (0, 1, 1)


def test_every_metadata_version_can_be_formatted(tmp_path: Path) -> None:
    for version in MetadataVersion:
        if version.value > 30:
            continue
        folder = tmp_path / str(version)
        format_storage(config(folder), cluster_id=CLUSTER_ID, standalone=True, release_version=str(version))
        records = read_bootstrap_file(str(folder / "data"), MetadataRecordSerde())
        assert records is not None
        assert records[0].feature_level == version


def test_a_directory_of_another_cluster_is_not_formatted_beside_new_ones(tmp_path: Path) -> None:
    format_storage(config(tmp_path), cluster_id=CLUSTER_ID, standalone=True)
    both = config(tmp_path, log_dirs=f"{tmp_path}/data,{tmp_path}/more")
    with pytest.raises(FormatError, match=r"Invalid cluster\.id"):
        format_storage(both, cluster_id="another", standalone=True, ignore_formatted=True)
    assert not (tmp_path / "more").exists()


def test_a_half_formatted_directory_is_formatted_again(tmp_path: Path) -> None:
    (tmp_path / "data" / "__cluster_metadata-0").mkdir(parents=True)
    (tmp_path / "data" / "bootstrap.checkpoint").write_bytes(b"half")
    format_storage(config(tmp_path), cluster_id=CLUSTER_ID, standalone=True)
    assert MetaProperties.read(str(tmp_path / "data")) is not None
    assert read_bootstrap_file(str(tmp_path / "data"), MetadataRecordSerde()) is not None
