"""Run every case of the ACL table on a real Kafka, and record the denials that its authorizer logs.

::

    python -m tests.peers.record_denials tests/vectors/acl_matrix/denials.json

The format is that of ``record_acl_matrix``: for each row the distinct sets of lines, and for each case the index of its
set.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.peers import KafkaNode
from tests.peers.acl_matrix import Case, cases_of
from tests.peers.acl_stage import Stage, all_rows, secure_settings
from tests.peers.node_process import NodeProcess
from tests.peers.record_acl_matrix import Recorded, written

__all__ = ["denials_of_all_cases"]

_LINE = re.compile(
    r"Principal = User:(?P<user>\S+) is Denied operation = (?P<operation>\w+) from host = \S+ on resource = "
    r"(?P<resource>\S+) for request = (?P<api>\w+) with resourceRefCount = (?P<references>\d+)"
)


def denials_of_all_cases(node: NodeProcess) -> Recorded:
    """Start the node, run the cases, stop it, and read its output. Cases that share a user are omitted."""
    node.change_settings(secure_settings(node, (case.me for case in cases_of(all_rows()))))
    node.start(timeout_s=90)
    sent: list[Case] = []
    try:
        stage = Stage(node, all_rows())
        for case in stage.cases:
            if case.row.user is None and stage.serves(case):
                stage.ask(case)
                sent.append(case)
        token_ids = {token_id: owner for owner, (token_id, _) in stage.world.tokens.items()}
        stage.close()
    finally:
        node.stop()
    lines_by_user = defaultdict(list)
    for match in _LINE.finditer(node.printed()):
        kind, pattern, name = match["resource"].split(":", 2)
        if kind == "DelegationToken":
            name = f"token of {token_ids.get(name, '<another>')}"
        name = re.sub(r"\bc\d{4}(?!\d)", lambda m: "<me>" if m[0] == match["user"] else "<another>", name)  # noqa: B023
        line = f"{match['operation']} {kind}:{pattern}:{name} {match['api']} x{match['references']}"
        lines_by_user[match["user"]].append(line)
    return {(case.row.name, case.version, case.rights): sorted(lines_by_user[case.me]) for case in sent}


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        denials = denials_of_all_cases(KafkaNode(Path(folder)))
    path.write_text(written(denials))
    print(f"{len(denials)} cases in {path}, {sum(map(bool, denials.values()))} with denials")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
