from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.meta_properties import MetaProperties, MetaPropertiesEnsemble, new_directory_id

DATE = "Sat Nov 21 11:26:49 UTC 2026"


def properties(directory_id: int = 1000, *, cluster_id: str = "cluster", node_id: int = 1) -> MetaProperties:
    return MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=Uuid.from_int(directory_id))


def formatted(tmp_path: Path, name: str, content: MetaProperties) -> str:
    (tmp_path / name).mkdir()
    content.write(str(tmp_path / name), DATE)
    return str(tmp_path / name)


def test_written_properties_are_read_back(tmp_path: Path) -> None:
    assert MetaProperties.read(formatted(tmp_path, "a", properties())) == properties()


def test_a_directory_without_the_file_is_not_formatted(tmp_path: Path) -> None:
    assert MetaProperties.read(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version=1\nnode.id=1\n", "cluster.id is missing"),
        ("version=1\ncluster.id=x\n", "node.id is missing"),
        ("version=2\ncluster.id=x\nnode.id=1\n", "version 2 is not 0 or 1"),
        ("version=1\ncluster.id=x\nnode.id=one\n", "node.id is 'one', not a number"),
        ("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=short\n", "directory.id"),
    ],
)
def test_a_file_without_valid_ids_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(CorruptFileError, match=message):
        MetaProperties.read(str(tmp_path))


def test_directories_that_agree_are_accepted(tmp_path: Path) -> None:
    dirs = [formatted(tmp_path, "a", properties(1000)), formatted(tmp_path, "b", properties(1001))]
    MetaPropertiesEnsemble(dirs, dirs[0]).verify(node_id=1)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (properties(1001, cluster_id="another"), "Expected cluster, but read another"),
        (properties(1001, node_id=2), "Stored node id 2 doesn't match previous node id 1"),
        (properties(1000), "Duplicate directory.id"),
        (properties(1), "ids below 100 are reserved"),
    ],
)
def test_a_directory_of_another_node_or_cluster_is_refused(tmp_path: Path, other: MetaProperties, message: str) -> None:
    dirs = [formatted(tmp_path, "a", properties(1000)), formatted(tmp_path, "b", other)]
    with pytest.raises(StorageError, match=message):
        MetaPropertiesEnsemble(dirs, dirs[0]).verify(node_id=1)


def test_a_node_without_any_formatted_directory_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"No readable meta\.properties files found"):
        MetaPropertiesEnsemble([str(tmp_path)], str(tmp_path)).verify(node_id=1)


def test_a_directory_with_a_disk_error_does_not_count_as_unformatted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = formatted(tmp_path, "a", properties()), formatted(tmp_path, "b", properties())
    stat = os.stat

    def fail(path: str, **options: Any) -> os.stat_result:
        if path == bad:
            raise OSError(errno.EIO, "Input/output error", path)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", fail)
    ensemble = MetaPropertiesEnsemble([good, bad], good)
    assert ensemble.empty_log_dirs == []
    assert bad in ensemble.error_log_dirs[bad]


def test_an_unreadable_metadata_directory_is_a_separate_error(tmp_path: Path) -> None:
    good = formatted(tmp_path, "a", properties())
    bad = tmp_path / "b"
    bad.mkdir()
    (bad / "meta.properties").write_text("version=9\n")
    with pytest.raises(StorageError, match="metadata log directory"):
        MetaPropertiesEnsemble([good], str(bad)).verify(node_id=1)


@pytest.mark.parametrize("raw", [bytes(16), bytes(15) + b"\x63"])
def test_a_new_directory_id_is_a_version_4_uuid_and_never_reserved(raw: bytes) -> None:
    directory_id = new_directory_id(raw)
    assert directory_id is not None
    assert not directory_id.is_reserved
    assert directory_id[6] >> 4 == 4


def test_a_used_directory_id_is_not_assigned_again() -> None:
    taken = new_directory_id(bytes(16))
    assert taken is not None
    assert new_directory_id(bytes(16), [taken]) is None
