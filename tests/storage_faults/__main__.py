"""Run the whole matrix on one kind of node and write what it did: ``python -m tests.storage_faults --kind kafka``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.storage_faults.matrix import Cell, Scene, all_node_cells

RECORDED = Path(__file__).resolve().parent.parent / "vectors" / "storage_faults"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storage_faults", description=__doc__)
    parser.add_argument("--kind", choices=["barnabas", "kafka"], default="barnabas")
    parser.add_argument("--ended", choices=["cleanly", "by a kill"], action="append", default=[])
    parser.add_argument("--part", choices=["partition", "node"], action="append", default=[])
    parser.add_argument("--file", help="only files whose name contains this")
    parser.add_argument("--fault", help="only faults whose name contains this")
    parser.add_argument("--write", action="store_true", help=f"write the cells under {RECORDED}")
    parsed = parser.parse_args()

    def wanted(file: str, fault: str) -> bool:
        return (parsed.file or "") in file and (parsed.fault or "") in fault

    for ended in parsed.ended or ["cleanly", "by a kill"]:
        with tempfile.TemporaryDirectory(prefix="storage-faults-") as folder:
            scene = Scene(parsed.kind, Path(folder), is_clean=ended == "cleanly")
            scene.make()
            if "partition" in (parsed.part or ["partition"]):
                scene.partition_cells(wanted, partial(_finish_one, parsed, ended))
            if "node" in (parsed.part or ["node"]):
                for name, cell in all_node_cells(scene, wanted):
                    _finish(parsed, ended, "node", {name: cell})
    return 0


def _finish_one(parsed: argparse.Namespace, ended: str, name: str, cell: Cell) -> None:
    _finish(parsed, ended, "partition", {name: cell})


def _finish(parsed: argparse.Namespace, ended: str, part: str, cells: dict[str, Cell]) -> None:
    """Each cell is written as soon as it is known: the whole matrix takes long."""
    for name, cell in cells.items():
        sys.stdout.write(f"{ended:10} {name:55} {cell.verdict:14} {cell.detail[:150]}\n")
    sys.stdout.flush()
    cells = {name: cell for name, cell in cells.items() if parsed.kind == "barnabas" or cell.verdict != "hang"}
    if parsed.write and cells:  # A start that took too long on a busy machine says nothing about Kafka.
        RECORDED.mkdir(parents=True, exist_ok=True)
        path = RECORDED / f"{parsed.kind}.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        known.setdefault(ended, {}).setdefault(part, {}).update({name: list(cell) for name, cell in cells.items()})
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
