"""Kafka's StandardAuthorizer and ours on the same rules, in one run; every decision is compared and must be equal.

Each side is a process that reads the same files. Times are CPU time of the thread that asks, and the best of several
passes, because the machine can only add to them; loading and the questions about a whole resource type come once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.authorizer_shapes import SHAPES, TOPIC_NAMES, Shape, make_shape
from tests.peers import peer_lib

__all__ = ["measure_authorizer"]

Figures = dict[str, dict[str, float]]
"""By side (``kafka``, ``barnabas``), then by name of the figure."""

_JAVA_LIMIT_S = 10
"""What Kafka's may take for one kind of question; what it answers until then is scaled up."""

_PROJECT = Path(__file__).resolve().parent.parent


def measure_authorizer(shapes: Iterable[str] = SHAPES) -> dict[str, Figures]:
    """The figures of each shape. Raises AssertionError when the two decide differently."""
    results = {}
    for name in shapes:
        shape = make_shape(name)
        with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
            _write(shape, Path(folder))
            del shape
            results[name] = {"kafka": _run_java(Path(folder)), "barnabas": _run_ours(Path(folder))}
            _compare(name, Path(folder), results[name]["kafka"])
        for side, figures in results[name].items():
            shown = "  ".join(f"{key} {value:,.3f}" for key, value in figures.items())
            print(f"authorizer: {name}: {side}: {shown}", flush=True)
    return results


def _write(shape: Shape, folder: Path) -> None:
    for file, rows in (("acls", shape.acls), ("queries", shape.queries), ("caller", [shape.caller])):
        with (folder / f"{file}.tsv").open("w") as out:
            out.writelines("\t".join(map(_text, row)) + "\n" for row in rows)
    (folder / "names.txt").write_text("\n".join(TOPIC_NAMES))


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, int) else str(value)


def _run_java(folder: Path) -> dict[str, float]:
    source = Path(__file__).parent / "java" / "AuthorizerBench.java"
    command = ["java", "-Xmx2g", "-cp", f"{peer_lib()}/*", str(source), str(folder), str(_JAVA_LIMIT_S)]
    return _figures(command)


def _run_ours(folder: Path) -> dict[str, float]:
    return _figures([sys.executable, "-m", "bench.authorizer_side", str(folder)])


def _figures(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=_PROJECT)
    if done.returncode:
        raise AssertionError(f"{command[0]} failed:\n{done.stderr[-4000:]}")
    lines = (line.split() for line in done.stdout.splitlines())
    return {name: float(value) for name, value in lines if name != "sink"}


def _compare(name: str, folder: Path, kafka: dict[str, float]) -> None:
    """All decisions, then the operations of as many topics as Kafka's had time for, then those by type."""
    theirs = (folder / "decisions.txt").read_text().split()
    ours = (folder / "decisions-ours.txt").read_text().split()
    decided = len((folder / "queries.tsv").read_text().splitlines())
    topics, types = int(kafka["operations_answered"]), int(kafka["by_type_answered"])
    expected = ours[: decided + topics] + ours[decided + len(TOPIC_NAMES) :][:types]
    if theirs != expected:
        different = [index for index, pair in enumerate(zip(theirs, expected, strict=False)) if pair[0] != pair[1]]
        raise AssertionError(f"{name}: {len(different)} of {len(theirs)} answers differ, first {different[:5]}")
