"""No fault of a file loses records in silence, opens access, or ends a node in a traceback; never worse than Kafka.

A cell is good when everything is still there, or when what is not is refused with the file's name in the node's log.
What a real Kafka does was recorded by ``python -m tests.storage_faults --kind kafka --write``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.storage_faults.__main__ import RECORDED
from tests.storage_faults.matrix import Cell, Scene, all_node_cells, worse

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

GOOD = frozenset({"kept", "refused", "-"})
NOT_TO_BE_SEEN = frozenset({"log, rolled / other node's", "log, active / other node's"})
"""Whole, valid batches of another partition: nothing in them says whose they are."""
SAMPLE = frozenset(
    {
        ("meta.properties", "garbage"), ("bootstrap.checkpoint", "flip in middle"), ("metadata log", "flip in middle"),
        ("quorum-state", "truncated"), ("recovery-point-offset-checkpoint", "garbage"),
        (".kafka_cleanshutdown", "zeros"), ("barnabas-topic-ids", "garbage"), ("committed offsets", "flip in middle"),
    }
)  # fmt: skip


@cache
def kafkas(ended: str, part: str) -> Mapping[str, list[str]]:
    path = RECORDED / "kafka.json"
    return dict(json.loads(path.read_text())[ended].get(part, {})) if path.exists() else {}


def check(cells: Mapping[str, Cell], theirs: Mapping[str, list[str]]) -> None:
    bad = {name: cell for name, cell in cells.items() if cell.verdict not in GOOD and name not in NOT_TO_BE_SEEN}
    assert not bad
    assert not {name for name, cell in cells.items() if name in theirs and worse(cell.verdict, theirs[name][0])}


@pytest.fixture(scope="module", params=["cleanly", pytest.param("by a kill", marks=pytest.mark.long)])
def ended(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def scene(ended: str, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    made = Scene("barnabas", tmp_path_factory.mktemp("scene"), is_clean=ended == "cleanly")
    made.make()
    return made


def test_faults_of_a_partitions_files(scene: Scene, ended: str) -> None:
    check(scene.partition_cells(), kafkas(ended, "partition"))


def test_faults_of_a_nodes_files(scene: Scene, ended: str) -> None:
    cells = dict(all_node_cells(scene, lambda file, fault: (file, fault) in SAMPLE))
    check(cells, kafkas(ended, "node"))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_fault_of_a_nodes_files(scene: Scene, ended: str) -> None:
    check(dict(all_node_cells(scene)), kafkas(ended, "node"))


def test_the_recorded_cells_are_of_this_matrix() -> None:
    for path in sorted(Path(RECORDED).glob("*.json")):
        for ended, parts in json.loads(path.read_text()).items():
            assert ended in ("cleanly", "by a kill")
            for cells in parts.values():
                assert all(" / " in name and len(cell) == 2 for name, cell in cells.items())
