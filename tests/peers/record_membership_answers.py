"""Run the ``membership_story`` on a real Kafka's controller, and record its answers.

::

    python -m tests.peers.record_membership_answers FOLDER > membership-answers-4.3.1.jsonl

It starts the node itself, in an empty folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.membership_story import membership_story

__all__ = ["answers_of"]


def answers_of(controller_port: int, cluster_id: str) -> dict[str, Any]:
    """Return a controller's answers by step."""
    client, answers = RawClient(controller_port), {}
    story = membership_story(cluster_id)
    step = next(story)
    while True:
        answer = client.call(step.request, step.version)
        answers[step.name] = answer.to_json(step.version)
        try:
            step = story.send(answer)
        except StopIteration:
            return answers


def main(folder: Path) -> None:
    node = KafkaNode(folder)
    node.start()
    try:
        lines = (folder / "data" / "meta.properties").read_text().splitlines()
        cluster_id = next(line.partition("=")[2] for line in lines if line.startswith("cluster.id"))
        for name, answer in answers_of(node.controller_port, cluster_id).items():
            print(json.dumps({"step": name, "answer": answer}, sort_keys=True))
    finally:
        node.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
