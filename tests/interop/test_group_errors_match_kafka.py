"""Our group coordinator answers as Kafka 4.3.1's does: the same scenarios run against both."""

from __future__ import annotations

import pytest

from barnabas.testing import Node
from tests.interop.group_scenarios import SCENARIOS, story_of
from tests.peers import KafkaNode

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_nodes_answer_the_same_story_alike(scenario: str, real_kafka: KafkaNode, barnabas_node: Node) -> None:
    theirs = story_of(real_kafka.port, scenario)
    ours = story_of(barnabas_node.port, scenario)
    assert [label for label, _ in ours] == [label for label, _ in theirs]
    differences = [
        f"{label}\n    kafka: {expected}\n     ours: {seen}"
        for (label, expected), (_, seen) in zip(theirs, ours, strict=True)
        if expected != seen
    ]
    assert not differences, "\n".join(differences)
