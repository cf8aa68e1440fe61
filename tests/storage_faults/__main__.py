"""Run the matrix on one kind of node and write the results: ``python -m tests.storage_faults --kind kafka --write``."""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
import tempfile
from pathlib import Path

from tests.storage_faults.alone import Alone
from tests.storage_faults.scene import Ended, Scene
from tests.storage_faults.three import Three
from tests.storage_faults.verdicts import Cell

RECORDED = Path(__file__).resolve().parent.parent / "vectors" / "storage_faults"
SCENES: dict[str, type[Scene]] = {"alone": Alone, "three": Three}
ENDS: tuple[Ended, ...] = ("cleanly", "by a kill")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storage_faults", description=__doc__)
    parser.add_argument("--kind", choices=["barnabas", "kafka"], default="barnabas")
    parser.add_argument("--nodes", choices=[*SCENES], action="append", default=[])
    parser.add_argument("--ended", choices=ENDS, action="append", default=[])
    parser.add_argument("--part", choices=["partition", "node"], action="append", default=[])
    parser.add_argument("--file", action="append", default=[], help="only files whose name contains this")
    parser.add_argument("--fault", action="append", default=[], help="only faults whose name contains this")
    parser.add_argument("--missing", action="store_true", help="only cells that were not recorded yet")
    parser.add_argument("--not-kept", action="store_true", help="only cells in which ours did not keep all data")
    parser.add_argument("--hangs", action="store_true", help="write Kafka's hangs too: only on an idle machine")
    parser.add_argument("--write", action="store_true", help=f"write the cells under {RECORDED}")
    parsed = parser.parse_args()
    for nodes in parsed.nodes or [*SCENES]:
        for ended in parsed.ended or ENDS:
            left_out = set(recorded(parsed.kind).get(nodes, {}).get(ended, {})) if parsed.missing else set()
            if parsed.not_kept:
                left_out |= kept_by_ours(nodes, ended)
            with tempfile.TemporaryDirectory(prefix="storage-faults-") as folder:
                scene = SCENES[nodes](parsed.kind, Path(folder), ended=ended)
                try:
                    _run(scene, parsed, nodes, ended, left_out)
                finally:
                    scene.close()
    return 0


def _run(scene: Scene, parsed: argparse.Namespace, nodes: str, ended: str, left_out: set[str]) -> None:
    def wanted(file: str, fault: str) -> bool:
        return (
            f"{file} / {fault}" not in left_out
            and any(part in file for part in parsed.file or [""])
            and any(part in fault for part in parsed.fault or [""])
        )

    parts = parsed.part or ["partition", "node"]
    for name, cell in scene.cells(wanted, of_partitions="partition" in parts, of_nodes="node" in parts):
        cell = Cell(cell.verdict, cell.detail.replace(str(scene.folder), "FOLDER"))
        sys.stdout.write(f"{nodes:5} {ended:10} {name:55} {cell.verdict:14} {cell.detail[:150]}\n")
        sys.stdout.flush()
        # A start that took too long on a busy machine is not evidence about Kafka.
        if parsed.write and (parsed.kind == "barnabas" or parsed.hangs or cell.verdict != "hang"):
            _write(parsed.kind, nodes, ended, name, cell)


def recorded(kind: str) -> dict[str, dict[str, dict[str, list[str]]]]:
    """Number of nodes -> how the node ended before -> ``file / fault`` -> verdict and detail."""
    path = RECORDED / f"{kind}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def kept_by_ours(nodes: str, ended: str) -> set[str]:
    """Return the cells in which Kafka can't be better."""
    cells = recorded("barnabas").get(nodes, {}).get(ended, {})
    return {name for name, (verdict, _) in cells.items() if verdict in ("kept", "-")}


def _write(kind: str, nodes: str, ended: str, name: str, cell: Cell) -> None:
    """Each cell is written as soon as it is known: the whole matrix takes long."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    with (Path(tempfile.gettempdir()) / "storage-faults.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Several scenes may run in parallel.
        known = recorded(kind)
        known.setdefault(nodes, {}).setdefault(ended, {})[name] = list(cell)
        path = RECORDED / f"{kind}.json"
        path.with_suffix(".part").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        path.with_suffix(".part").replace(path)


if __name__ == "__main__":
    sys.exit(main())
