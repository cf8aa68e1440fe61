from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.files.files_to_topic import FilesToTopic, found_files


def add(folder: Path, name: str, modified_s: int) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (modified_s, modified_s))


def test_files_are_ordered_by_modification_time_and_unfinished_ones_are_omitted(tmp_path: Path) -> None:
    for at, name in enumerate(["sub/b.csv", "a.csv", ".hidden.csv", "_staging/c.csv", "d.csv.tmp", "e.txt"]):
        add(tmp_path, name, 100 + at)
    (tmp_path / "folder.csv").mkdir()
    found = found_files(tmp_path, "*.csv", 0, 1)
    assert [(file.name, file.offset) for file in found] == [
        ("sub/b.csv", {"size": 1, "modified": 100_000}),
        ("a.csv", {"size": 1, "modified": 101_000}),
    ]


def test_each_file_belongs_to_one_task(tmp_path: Path) -> None:
    for number in range(40):
        add(tmp_path, f"{number}.csv", 100)
    shares = [{file.name for file in found_files(tmp_path, "*", task, 3)} for task in range(3)]
    assert sorted(name for share in shares for name in share) == sorted(f"{number}.csv" for number in range(40))
    assert all(shares)


@pytest.mark.parametrize(
    ("settings", "setting", "text"),
    [
        ({"directory": "incoming"}, "directory", "not an absolute path"),
        ({"format": "xml"}, "format", "lines, whole, json, csv, parquet"),
        ({"schema": "id INT"}, "schema", "only json and csv"),
    ],
)
def test_errors_are_reported_by_setting(settings: dict[str, str], setting: str, text: str) -> None:
    kit = ConnectorKit(FilesToTopic, {"directory": "/tmp", "topic": "t", **settings})
    assert text in " ".join(kit.errors[setting])
