"""Tell a real Kafka's broker the ``LeaderStory`` and write down what it says.

::

    python -m tests.peers.record_leader_answers FOLDER > leader-answers-4.3.1.jsonl

It starts the node itself, in an empty folder.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.peers import KafkaNode
from tests.peers.leader_story import SETTINGS, LeaderStory
from tests.peers.node_process import NodeProcess

__all__ = ["told"]


def told(node: NodeProcess) -> dict[str, Any]:
    """By step what a node answers that was made with ``SETTINGS``. Its followers exist nowhere: it has to be killed."""
    node.start()
    try:
        lines = (node.folder / "data" / "meta.properties").read_text().splitlines()
        cluster_id = next(line.partition("=")[2] for line in lines if line.startswith("cluster.id"))
        with closing(LeaderStory(node.port, node.controller_port, cluster_id)) as story:
            return story.tell()
    finally:
        node.kill()


def main(folder: Path) -> None:
    for name, answer in told(KafkaNode(folder, settings=SETTINGS)).items():
        print(json.dumps({"step": name, "answer": answer}, sort_keys=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
