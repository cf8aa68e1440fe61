"""Send the walk of ``share_requests`` to a real Kafka, and record its answers.

::

    python -m tests.peers.record_share_requests FILE.json.gz
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tests.peers import running_kafka
from tests.peers.live_share_broker import LiveShareBroker
from tests.peers.share_requests import walk


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running_kafka(Path(folder) / "kafka") as node,
        closing(LiveShareBroker(node.port)) as broker,
    ):
        steps = walk(broker)
    Path(sys.argv[1]).write_bytes(gzip.compress(json.dumps(steps).encode(), mtime=0))
    print(f"{len(steps)} answers")


if __name__ == "__main__":
    main()
