"""Let Kafka's own assignors assign in generated lives of groups, and record lives and answers.

::

    python -m tests.peers.record_assignor_lives tests/vectors/assignors/lives-4.3.1.jsonl.gz
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.peers.assignor_answers import answers_of_kafka, compared_steps
from tests.peers.assignor_lives import CONSUMER, SHARE, STREAMS, Life, generated_lives

__all__ = ["main"]

SEED = 20261126
COUNTS = {CONSUMER: 520, SHARE: 180, STREAMS: 320}


def main(target: Path) -> None:
    lives = list(_lives())
    lines = []
    for life, answers in zip(lives, answers_of_kafka(lives), strict=True):
        count = compared_steps(answers)
        if count:
            recorded = {"life": {**life, "steps": life["steps"][:count]}, "answers": answers[:count]}
            lines.append(json.dumps(recorded, separators=(",", ":")) + "\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
        packed.write("".join(lines).encode())
    print(f"{len(lines)} lives in {target}")


def _lives() -> Iterator[Life]:
    random = Random(SEED)
    for kind, count in COUNTS.items():
        yield from generated_lives(random, kind, count)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
