"""Our transaction coordinator answers as Kafka 4.3.1's did in a recorded life."""

from __future__ import annotations

import pytest

from barnabas.testing import Node
from tests.interop.recorded_walk import COUNT, SEED, recorded_walk
from tests.interop.transaction_walk import walk

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def test_a_recorded_life_of_kafkas_coordinator_is_repeated(barnabas_node: Node) -> None:
    theirs, ours = recorded_walk(), walk(barnabas_node.port, SEED, COUNT)
    for number, (expected, seen) in enumerate(zip(theirs, ours, strict=True)):
        before = "\n".join(f"    {step.what}: {step.answer}" for step in theirs[max(number - 8, 0) : number])
        assert seen == expected, f"seed {SEED}, step {number}: after\n{before}\nkafka: {expected}\n ours: {seen}"
