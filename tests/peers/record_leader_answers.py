"""Run the ``LeaderStory`` on a real Kafka's broker, and record its answers.

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

__all__ = ["answers_of"]


def answers_of(node: NodeProcess) -> dict[str, Any]:
    """Return by step the answers of a node created with ``SETTINGS``. Its followers do not exist, so it must be
    killed."""
    node.start()
    try:
        lines = (node.folder / "data" / "meta.properties").read_text().splitlines()
        cluster_id = next(line.partition("=")[2] for line in lines if line.startswith("cluster.id"))
        with closing(LeaderStory(node.port, node.controller_port, cluster_id)) as story:
            return story.run()
    finally:
        node.kill()


def main(folder: Path) -> None:
    for name, answer in answers_of(KafkaNode(folder, settings=SETTINGS)).items():
        print(json.dumps({"step": name, "answer": answer}, sort_keys=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
