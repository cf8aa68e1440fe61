"""Quorum transcripts: each file of ``quorum/`` is a list of commands, each followed by its effects.

A block is a command line, ``----``, and the expected lines. With ``REWRITE_SCENARIOS=1`` in the environment the files
are rewritten instead of compared; the difference is then reviewed like any other change.

Commands: ``voters 1 2 3`` (and ``static``, ``observers 100``) · ``start 1`` · ``run 1000`` (ms) · ``append 1 a b`` ·
``crash 1`` · ``partition 1 | 2 3`` · ``heal`` · ``snapshot 1`` · ``resign 1`` · ``status``.
Fetches without news are not shown, and repeated messages in a block are only counted.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.simulation.raft_cluster import Cluster, Replica

FOLDER = Path(__file__).parent / "quorum"
SEPARATOR = "----"


class Interpreter:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.repeated: dict[str, int] = {}
        self.cluster: Cluster | None = None

    def execute(self, command: str) -> list[str]:
        self.lines = []
        words = command.split()
        self.repeated = {}
        getattr(self, f"do_{words[0]}")(*words[1:])
        return [self.with_count(line) for line in self.lines] or ["ok"]

    def with_count(self, line: str) -> str:
        again = self.repeated.get(line.partition("  ")[2], 0)
        return f"{line}  (and {again} more)" if again else line

    @property
    def running(self) -> Cluster:
        assert self.cluster is not None, "the first command is `voters`"
        return self.cluster

    def replica(self, node_id: str) -> Replica:
        return self.running.replicas[int(node_id)]

    def do_voters(self, *words: str) -> None:
        voters, _, observers = " ".join(words).partition("observers")
        is_static = "static" in voters.split()
        self.cluster = Cluster(
            [int(word) for word in voters.split() if word != "static"],
            observer_ids=[int(word) for word in observers.split()],
            is_static=is_static,
            trace=self.trace_line,
        )
        self.cluster.latency_ms = (1, 1)
        self.cluster.flush_ms = (1, 1)

    def trace_line(self, line: str) -> None:
        is_fetch = "FetchRequest" in line or "FetchResponse" in line
        knows_nothing = "current_leader=-1/" in line
        is_informative = any(word in line for word in ("records=", "error_code=", "diverging", "snapshot_id="))
        if is_fetch and (knows_nothing or not is_informative):
            return
        text = line.partition("  ")[2]
        if text in self.repeated:
            self.repeated[text] += 1
        else:
            self.repeated[text] = 0
            self.lines.append(line)

    def do_start(self, *node_ids: str) -> None:
        self.running.start(*(int(node_id) for node_id in node_ids))
        self.show(node_ids)

    def do_run(self, duration_ms: str) -> None:
        self.running.run_for(int(duration_ms))

    def do_append(self, node_id: str, *records: str) -> None:
        self.running.append(self.replica(node_id), *records)

    def do_crash(self, node_id: str) -> None:
        self.replica(node_id).crash()

    def do_partition(self, *words: str) -> None:
        groups = [[int(word) for word in group.split()] for group in " ".join(words).split("|")]
        self.running.partition(*groups)

    def do_heal(self) -> None:
        self.running.heal()

    def do_snapshot(self, node_id: str) -> None:
        self.lines.append(f"{node_id}: snapshot {self.replica(node_id).snapshot()}")

    def do_resign(self, node_id: str) -> None:
        replica = self.replica(node_id)
        assert replica.node is not None
        replica.carry_out(replica.node.resign(replica.node.epoch, self.running.now_ms))

    def do_status(self) -> None:
        self.show([str(node_id) for node_id in self.running.replicas])

    def show(self, node_ids: list[str] | tuple[str, ...]) -> None:
        for node_id in node_ids:
            replica = self.replica(node_id)
            node = replica.node
            if node is None:
                self.lines.append(f"{node_id}: down")
                continue
            values = " ".join(value for _, value in sorted(replica.applied.items())) or "nothing"
            self.lines.append(
                f"{node_id}: {node.state_name} epoch {node.epoch} leader {node.leader_id} "
                f"end {node.log_end_offset} high watermark {node.high_watermark} applied {values}"
            )


def play(text: str) -> str:
    """Return the same file with the current effects of each command."""
    interpreter = Interpreter()
    written: list[str] = []
    in_expected = False
    for line in text.splitlines():
        if in_expected:
            in_expected = bool(line)
        if in_expected or line == SEPARATOR:
            in_expected = True
            continue
        if not line or line.startswith("#"):
            if not (line == "" and written and written[-1] == ""):
                written.append(line)
            continue
        written += [line, SEPARATOR, *interpreter.execute(line), ""]
    return "\n".join(written).rstrip("\n") + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_run_equals_its_transcript(path: Path) -> None:
    expected = path.read_text()
    happened = play(expected)
    if os.environ.get("REWRITE_SCENARIOS"):
        path.write_text(happened)
    else:
        assert happened == expected
