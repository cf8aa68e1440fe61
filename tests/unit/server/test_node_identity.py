"""How a node handles the meta.properties files in its directories."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.cli.storage.command import main as storage
from barnabas.common.uuid import Uuid
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.node_identity import NodeIdentity, read_identity
from barnabas.server.settings.node_config import load_node_config
from barnabas.server.start_errors import NodeStartError
from barnabas.storage.bootstrap_file import read_bootstrap_file
from barnabas.storage.meta_properties import MetaProperties

PROPERTIES = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:39092,CONTROLLER://127.0.0.1:39093
controller.listener.names=CONTROLLER
barnabas.auto.format=true
"""
DATE = "Sat Jan 1 00:00:00 UTC 2026"


def formatted(folder: Path, *names: str, directory_ids: bool = True) -> None:
    for number, name in enumerate(names):
        (folder / name).mkdir()
        id_ = Uuid.from_int(201 + number) if directory_ids else None
        MetaProperties(cluster_id="cluster", node_id=1, directory_id=id_).write(str(folder / name), DATE)


def identity(folder: Path, *names: str, metadata: str = "") -> NodeIdentity:
    config = SimpleNamespace(
        log_dirs=[str(folder / name) for name in names],
        metadata_log_dir=str(folder / (metadata or names[0])),
        node_id=1,
        barnabas_auto_format=False,
        source=None,
    )
    return read_identity(cast("Any", config))


def test_each_directory_has_its_own_id(tmp_path: Path) -> None:
    formatted(tmp_path, "a", "b")
    found = identity(tmp_path, "a", "b")
    assert found.directory_ids == {str(tmp_path / "a"): Uuid.from_int(201), str(tmp_path / "b"): Uuid.from_int(202)}
    assert found.metadata_directory_id == Uuid.from_int(201)
    assert found.offline_log_dirs == {}


def test_an_unreadable_directory_is_excluded(tmp_path: Path) -> None:
    formatted(tmp_path, "a", "b")
    (tmp_path / "b" / "meta.properties").unlink()
    (tmp_path / "b" / "meta.properties").mkdir()
    found = identity(tmp_path, "a", "b")
    assert list(found.directory_ids) == [str(tmp_path / "a")]
    assert list(found.offline_log_dirs) == [str(tmp_path / "b")]


def test_a_node_does_not_start_without_its_metadata_directory(tmp_path: Path) -> None:
    formatted(tmp_path, "a", "b")
    (tmp_path / "b" / "meta.properties").write_text("version=7\n")
    with pytest.raises(NodeStartError, match="metadata log directory"):
        identity(tmp_path, "a", "b", metadata="b")


@pytest.mark.parametrize("voters", ["", "1@127.0.0.1:39093"])
def test_the_automatic_format_uses_the_levels_of_the_storage_tool(tmp_path: Path, voters: str) -> None:
    quorum = f"controller.quorum.voters={voters}" if voters else "controller.quorum.bootstrap.servers=127.0.0.1:39093"
    found = []
    for name in ("tool", "automatic"):
        path = tmp_path / f"{name}.properties"
        path.write_text(f"{PROPERTIES}{quorum}\nlog.dirs={tmp_path / name}\n")
        if name == "tool":
            flags = [] if voters else ["--standalone"]
            assert storage(["format", *flags, "-t", str(Uuid.from_int(1)), "-c", str(path)]) == 0
        else:
            read_identity(load_node_config(str(path)))
        records = read_bootstrap_file(str(tmp_path / name), MetadataRecordSerde())
        snapshots = list((tmp_path / name / "__cluster_metadata-0").glob("*.checkpoint"))
        found.append(([repr(record) for record in records], len(snapshots)))
    assert found[0] == found[1]


def test_an_empty_directory_beside_formatted_ones_counts_as_unmounted(tmp_path: Path) -> None:
    formatted(tmp_path, "a")
    (tmp_path / "b").mkdir()
    with pytest.raises(NodeStartError, match="not formatted"):
        identity(tmp_path, "a", "b")


def test_directories_without_ids_receive_permanent_ones(tmp_path: Path) -> None:
    formatted(tmp_path, "a", "b", directory_ids=False)
    first = identity(tmp_path, "a", "b")
    assert len(set(first.directory_ids.values())) == 2
    assert not any(directory_id.is_reserved for directory_id in first.directory_ids.values())
    assert identity(tmp_path, "a", "b").directory_ids == first.directory_ids
