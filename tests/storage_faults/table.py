"""Write the recorded cells into ``docs/storage-faults.md``: ``python -m tests.storage_faults.table``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.storage_faults.__main__ import RECORDED
from tests.storage_faults.faults import FAULTS
from tests.storage_faults.matrix import NODE_FILES, PARTITION_FILES

__all__ = ["write_table"]

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "storage-faults.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of matrix -->"


def _cells(kind: str) -> Mapping[str, Mapping[str, str]]:
    path = RECORDED / f"{kind}.json"
    recorded = json.loads(path.read_text()) if path.exists() else {}
    return {
        ended: {name: cell[0] for cells in parts.values() for name, cell in cells.items()}
        for ended, parts in recorded.items()
    }


def _lines() -> Iterator[str]:
    ours, kafkas = _cells("barnabas"), _cells("kafka")
    for ended in ("cleanly", "by a kill"):
        if ended not in ours:
            continue
        yield f"A node that had ended {ended}; ours / Kafka's where it was recorded.\n"
        yield f"| file | {' | '.join(FAULTS)} |"
        yield "|---" * (len(FAULTS) + 1) + "|"
        for file in (*PARTITION_FILES, *NODE_FILES):
            names = [f"{file} / {fault}" for fault in FAULTS]
            if any(ours[ended].get(name, "-") != "-" for name in names):
                both = [_cell(ours[ended].get(name, ""), kafkas.get(ended, {}).get(name)) for name in names]
                yield f"| {file} | {' | '.join(both)} |"
        yield ""


def _cell(ours: str, kafkas: str | None) -> str:
    return ours if kafkas is None else f"{ours} / {kafkas}"


def write_table() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n".join(["", *_lines()]) + END + after)


if __name__ == "__main__":
    write_table()
