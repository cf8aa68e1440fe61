"""No fault of a file loses records silently, opens access, or ends a node in a traceback; ours is never worse than
Kafka.

A cell is good if all data still exists, or if missing data is refused with the file's name in the node's log. The
behaviour of a real Kafka was recorded by ``python -m tests.storage_faults --kind kafka --write``. The whole matrix
takes long (``make faults``); a sample of each kind of fault and file runs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.storage_faults.__main__ import ENDS, SCENES, kept_by_ours, recorded
from tests.storage_faults.content import NODE_FILES, PARTITION_FILES
from tests.storage_faults.faults import ALL_FAULTS, FAULTS, SURROUNDINGS, can_refuse
from tests.storage_faults.scene import Ended
from tests.storage_faults.verdicts import Cell, worse

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

GOOD = frozenset({"kept", "refused", "-"})
UNDETECTABLE = frozenset({f"{file} / other node's" for file in ("log, rolled", "log, active", "committed offsets")})
"""Whole, valid batches of another partition: they do not name their partition."""
REFUSED_BY_RULE = ("bootstrap.checkpoint / ", "metadata log / ", "committed offsets / flip ")
"""Kafka accepts the first and the third without verifying checksums, and truncates the second without a log line: by
luck it lost only no-op records, and the flipped bits left the committed offset readable. Our rules require a refusal
that names the file."""
SAMPLE = frozenset(
    {
        ("meta.properties", "garbage"), ("bootstrap.checkpoint", "flip in middle"), ("metadata log", "flip in middle"),
        ("quorum-state", "truncated"), ("recovery-point-offset-checkpoint", "garbage"),
        (".kafka_cleanshutdown", "zeros"), ("barnabas-topic-ids", "garbage"), ("committed offsets", "flip in middle"),
        ("log, active", "wrong permissions"), ("quorum-state", "read-only directory"), ("metadata log", "no space"),
    }
)  # fmt: skip
SAMPLE_OF_THREE = frozenset(
    {
        ("metadata log", "flip in middle"), ("quorum-state", "garbage"), ("log, active", "no space"),
    }
)  # fmt: skip


def diagonal(file: str, fault: str) -> int:
    """Return the one of four diagonals of the matrix with the cell of a partition's file."""
    return (list(PARTITION_FILES).index(file) + list(FAULTS).index(fault)) % 4


def is_sampled(file: str, fault: str) -> bool:
    return (file in PARTITION_FILES and fault in FAULTS and diagonal(file, fault) == 0) or (file, fault) in SAMPLE


def is_sampled_after_a_kill(file: str, fault: str) -> bool:
    return fault in FAULTS and diagonal(file, fault) == 1


def is_sampled_of_three(file: str, fault: str) -> bool:
    is_log = file in PARTITION_FILES and file.startswith("log, ")
    return (is_log and fault in FAULTS and diagonal(file, fault) == 2) or (file, fault) in SAMPLE_OF_THREE


def problems(cells: Iterator[tuple[str, Cell]], nodes: str, ended: str) -> dict[str, Cell]:
    """Return the cells that are not good, and those that are worse than Kafka's."""
    theirs = recorded("kafka").get(nodes, {}).get(ended, {})
    return {name: cell for name, cell in cells if is_problem(nodes, name, cell, theirs.get(name))}


def is_problem(nodes: str, name: str, cell: Cell, theirs: list[str] | None) -> bool:
    """Return whether the cell is neither good nor undetectable, or worse than Kafka's.

    While the environment of one of three nodes is at fault, *kept* is not better than *refused*: the other nodes serve
    everything, and Kafka's node goes on only if it happens not to write at that moment.
    """
    if name in UNDETECTABLE:
        return False
    if cell.verdict == "refused" and name.startswith(REFUSED_BY_RULE):
        return False
    if cell.verdict == "refused" and nodes == "three" and name.endswith(tuple(SURROUNDINGS)):
        return False
    return cell.verdict not in GOOD or (theirs is not None and worse(cell.verdict, theirs[0]))


def test_a_sample_of_the_faults_on_a_single_node(tmp_path: Path) -> None:
    assert can_refuse(), "permissions do not apply to root without `setpriv`"
    with closing(SCENES["alone"]("barnabas", tmp_path, ended="cleanly")) as scene:
        assert not problems(scene.cells(is_sampled), "alone", "cleanly")


def test_a_sample_of_the_faults_after_a_kill(tmp_path: Path) -> None:
    with closing(SCENES["alone"]("barnabas", tmp_path, ended="by a kill")) as scene:
        cells = scene.cells(is_sampled_after_a_kill, of_nodes=False)
        assert not problems(cells, "alone", "by a kill")


def test_a_sample_of_the_faults_on_one_of_three_nodes(tmp_path: Path) -> None:
    with closing(SCENES["three"]("barnabas", tmp_path, ended="by a kill")) as scene:
        assert not problems(scene.cells(is_sampled_of_three), "three", "by a kill")


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("ended", ENDS)
@pytest.mark.parametrize("nodes", SCENES)
def test_every_fault_of_the_matrix(tmp_path: Path, nodes: str, ended: Ended) -> None:
    with closing(SCENES[nodes]("barnabas", tmp_path, ended=ended)) as scene:
        assert not problems(scene.cells(), nodes, ended)


def test_the_recorded_cells_belong_to_this_matrix() -> None:
    names = {f"{file} / {fault}" for file in (*PARTITION_FILES, *NODE_FILES) for fault in ALL_FAULTS}
    for kind in ("barnabas", "kafka"):
        for nodes, by_end in recorded(kind).items():
            assert nodes in SCENES
            for ended, cells in by_end.items():
                assert ended in ENDS
                assert set(cells) <= names


def test_no_recorded_cell_of_ours_is_bad_or_worse_than_kafkas() -> None:
    kafkas = recorded("kafka")
    for nodes, by_end in recorded("barnabas").items():
        for ended, cells in by_end.items():
            theirs = kafkas.get(nodes, {}).get(ended, {})
            assert not {name for name, cell in cells.items() if is_problem(nodes, name, Cell(*cell), theirs.get(name))}


@pytest.mark.parametrize("ended", ENDS)
@pytest.mark.parametrize("nodes", SCENES)
def test_the_matrix_is_recorded_and_kafkas_cell_is_known_where_ours_is_not_kept(nodes: str, ended: Ended) -> None:
    names = {f"{file} / {fault}" for file in (*PARTITION_FILES, *NODE_FILES) for fault in ALL_FAULTS}
    assert set(recorded("barnabas")[nodes][ended]) == names
    theirs = recorded("kafka")[nodes][ended]
    assert names - kept_by_ours(nodes, ended) <= set(theirs)
