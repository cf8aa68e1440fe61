"""``python -m tests.interop.recorded_walk``: record the answers of Kafka 4.3.1 to a random walk through transactions.

Walks with the same seed and number of steps send the same requests, so a recording needs only what was answered.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

from tests.interop.transaction_walk import Step, walk
from tests.peers import running_kafka

__all__ = ["COUNT", "SEED", "recorded_walk"]

SEED, COUNT = 18, 2_100
_FILE = Path(__file__).parent.parent / "vectors" / "transactions" / "walk-4.3.1.jsonl.gz"


def recorded_walk() -> list[Step]:
    return [Step(*json.loads(line)) for line in gzip.decompress(_FILE.read_bytes()).decode().splitlines()]


def _record() -> None:
    with tempfile.TemporaryDirectory() as folder, running_kafka(Path(folder) / "kafka") as node:
        steps = walk(node.port, SEED, COUNT)
    lines = "".join(f"{json.dumps(step)}\n" for step in steps)
    _FILE.write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    _record()
