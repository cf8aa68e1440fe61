"""Write the recorded cells into ``docs/storage-faults.md``: ``python -m tests.storage_faults.table``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.storage_faults.__main__ import ENDS, recorded
from tests.storage_faults.content import NODE_FILES, PARTITION_FILES
from tests.storage_faults.faults import ALL_FAULTS

__all__ = ["write_table"]

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "storage-faults.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of matrix -->"
TITLES = {"alone": "A node alone", "three": "One of three nodes"}


def _lines() -> Iterator[str]:
    ours, kafkas = recorded("barnabas"), recorded("kafka")
    for nodes, title in TITLES.items():
        for ended in ENDS:
            cells = ours.get(nodes, {}).get(ended, {})
            if cells:
                yield f"{title}, which had ended {ended}; barnabas / Kafka where recorded.\n"
                yield from _table(cells, kafkas.get(nodes, {}).get(ended, {}))
                yield ""


def _table(ours: Mapping[str, list[str]], kafkas: Mapping[str, list[str]]) -> Iterator[str]:
    yield f"| file | {' | '.join(ALL_FAULTS)} |"
    yield "|---" * (len(ALL_FAULTS) + 1) + "|"
    for file in (*PARTITION_FILES, *NODE_FILES):
        names = [f"{file} / {fault}" for fault in ALL_FAULTS]
        if any(ours.get(name, ["-"])[0] != "-" for name in names):
            both = [_cell(ours.get(name), kafkas.get(name)) for name in names]
            yield f"| {file} | {' | '.join(both)} |"


def _cell(ours: list[str] | None, kafkas: list[str] | None) -> str:
    return " / ".join(cell[0] for cell in (ours, kafkas) if cell is not None)


def write_table() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n".join(["", *_lines()]) + END + after)


if __name__ == "__main__":
    write_table()
