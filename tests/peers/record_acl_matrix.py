"""Ask a real Kafka every case of the ACL table and keep its answers.

::

    python -m tests.peers.record_acl_matrix tests/vectors/acl_matrix/answers.json

The file has, for each row of the table, the distinct answers, and for each case which of them it got.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.peers import KafkaNode
from tests.peers.acl_matrix import cases_of
from tests.peers.acl_stage import Stage, all_rows, secure_settings

__all__ = ["Recorded", "read_recorded", "written"]

Recorded = dict[tuple[str, int, str], Any]
"""Answers by row, version and rights."""


def written(answers: Recorded) -> str:
    """One line per distinct answer and per set of rights, so that a change is a small diff."""
    rows: dict[str, dict[str, Any]] = {}
    for (name, version, rights), answer in answers.items():
        row = rows.setdefault(name, {"answers": [], "cases": []})
        if answer not in row["answers"]:
            row["answers"].append(answer)
        row["cases"].append([version, row["answers"].index(answer), rights])
    lines = ["{"]
    for name, row in rows.items():
        lines.append(f"{json.dumps(name)}: {{")
        for part, end in (("answers", ","), ("cases", "")):
            items = ",\n".join(json.dumps(item, sort_keys=True) for item in row[part])
            lines.append(f'"{part}": [\n{items}\n]{end}')
        lines.append("},")
    lines[-1] = "}"
    return "\n".join([*lines, "}", ""])


def read_recorded(path: Path) -> Recorded:
    return {
        (name, version, rights): row["answers"][index]
        for name, row in json.loads(path.read_text()).items()
        for version, index, rights in row["cases"]
    }


def main(path: Path) -> None:
    answers: Recorded = {}
    with tempfile.TemporaryDirectory() as folder:
        node = KafkaNode(Path(folder))
        node.change_settings(secure_settings(node, (case.me for case in cases_of(all_rows()))))
        node.start()
        try:
            stage = Stage(node, all_rows())
            for case in stage.cases:
                if stage.serves(case):
                    answer = stage.comparable(case, stage.ask(case))
                    answers[case.row.name, case.version, case.rights] = answer
        finally:
            node.stop()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written(answers))
    print(f"{len(answers)} cases of {len({key[0] for key in answers})} rows in {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
