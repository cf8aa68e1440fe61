"""Run the ``directory_story`` on a real Kafka, and record its answers.

::

    python -m tests.peers.record_directory_answers FOLDER > tests/vectors/log_dirs/answers-4.3.1.json

It starts the node itself, in an empty folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.peers import KafkaNode
from tests.peers.directory_story import SETTINGS, DirectoryStory, log_dirs, repair_directory
from tests.peers.node_process import NodeProcess

__all__ = ["kafka_node", "answers_of"]


def kafka_node(folder: Path) -> KafkaNode:
    """Return a node with its log directories in ``folder``/dirs."""
    return KafkaNode(folder / "node", settings={"log.dirs": log_dirs(folder / "dirs"), **SETTINGS})


def answers_of(node: NodeProcess, directories: Path) -> dict[str, Any]:
    """Return the node's answers by step. The node is started, and stopped twice."""
    directories.mkdir()
    node.start()
    story = DirectoryStory(node.port, directories)
    try:
        story.run_moves()
        story.run_throttled_move()
        story.run_cordoned()
        story.run_failure()
    finally:
        story.client.close()
        node.stop()
    repair_directory(directories / "c")
    node.start()
    after = DirectoryStory(node.port, directories)
    try:
        after.run_after_repair()
    finally:
        after.client.close()
        node.stop()
    return {**story.answers, **after.answers}


def main(folder: Path) -> None:
    print(json.dumps(answers_of(kafka_node(folder), folder / "dirs"), sort_keys=True, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
