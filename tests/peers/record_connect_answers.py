"""Run all of ``connect_questions`` on a real Kafka's classes, and record questions and answers.

::

    python -m tests.peers.record_connect_answers tests/vectors/connect/answers-4.3.1.jsonl.gz
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path

from tests.peers.connect_questions import questions
from tests.peers.java import run_source

__all__ = ["main"]


def main(target: Path) -> None:
    wanted = questions()
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "questions.jsonl"
        file.write_text("".join(json.dumps(question) + "\n" for question in wanted), encoding="utf-8")
        answers = run_source("ConnectAnswers", str(file)).splitlines()
    lines = [
        json.dumps({"question": question, "answer": json.loads(answer)}, ensure_ascii=False) + "\n"
        for question, answer in zip(wanted, answers, strict=True)
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
        packed.write("".join(lines).encode())
    print(f"{len(lines)} answers in {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
