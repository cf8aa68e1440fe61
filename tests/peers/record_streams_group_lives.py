"""Record the answers and records of Kafka's group coordinator in random lives of streams groups.

::

    python -m tests.peers.record_streams_group_lives SEED LIVES STEPS | gzip -9n > lives-4.3.1.jsonl.gz
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.peers.java import run_source
from tests.peers.streams_group_steps import SETTINGS, life

__all__ = ["life_in_kafka"]


def life_in_kafka(steps: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return the settings, and the steps with what Kafka answers and writes."""
    file = folder / "life.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in [SETTINGS, *steps]))
    return [json.loads(line) for line in run_source("StreamsGroupLives", str(file), timeout_s=300).splitlines()]


def main(seed: int, lives: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(lives):
            lived = life_in_kafka(life(seed + number, steps), Path(folder))
            print(json.dumps(lived, sort_keys=True, separators=(",", ":")))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
