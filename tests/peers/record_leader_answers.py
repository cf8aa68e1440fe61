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

from barnabas.clients.admin import SyncAdminClient
from barnabas.testing import Node
from tests.peers import KafkaNode
from tests.peers.leader_story import SETTINGS, LeaderStory

__all__ = ["answers_of"]


def answers_of(node: KafkaNode | Node) -> dict[str, Any]:
    """Return by step the answers of a running node with ``SETTINGS``. Its followers do not exist, so it must be killed
    afterwards."""
    with SyncAdminClient(node.bootstrap_servers) as admin:
        cluster_id = admin.describe_cluster().cluster_id
    with closing(LeaderStory(node.port, node.controller_port, cluster_id)) as story:
        return story.run()


def main(folder: Path) -> None:
    node = KafkaNode(folder, settings=SETTINGS)
    node.start()
    try:
        answers = answers_of(node)
    finally:
        node.kill()
    for name, answer in answers.items():
        print(json.dumps({"step": name, "answer": answer}, sort_keys=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
