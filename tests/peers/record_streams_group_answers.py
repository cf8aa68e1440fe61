"""Record the answers of Kafka's classes to random questions about streams groups.

::

    python -m tests.peers.record_streams_group_answers SEED | gzip -9n > answers-4.3.1.jsonl.gz
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.peers.java import run_source
from tests.peers.streams_group_questions import group_questions, heartbeat_questions, topology_questions

__all__ = ["answers_of_kafka"]

TOPOLOGIES = 400
HEARTBEATS = 300
GROUPS = 30
STEPS = 60


def answers_of_kafka(questions: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return Kafka's answer to each question."""
    file = folder / "questions.jsonl"
    file.write_text("".join(f"{json.dumps(question)}\n" for question in questions))
    return [json.loads(line) for line in run_source("StreamsGroups", str(file)).splitlines()]


def main(seed: int) -> None:
    questions = topology_questions(seed, TOPOLOGIES)
    questions += heartbeat_questions(seed, HEARTBEATS)
    questions += group_questions(seed, GROUPS, STEPS)
    with tempfile.TemporaryDirectory() as folder:
        answers = answers_of_kafka(questions, Path(folder))
    for question, answer in zip(questions, answers, strict=True):
        print(json.dumps({"question": question, "answer": answer}, sort_keys=True, separators=(",", ":")))


if __name__ == "__main__":
    main(int(sys.argv[1]))
