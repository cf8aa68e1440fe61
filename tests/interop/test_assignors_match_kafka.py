"""New lives of groups in each run: our assignors write the records that Kafka's own write, in the same order."""

from __future__ import annotations

from random import Random, SystemRandom

import pytest

from tests.peers import require_peer
from tests.peers.assignor_answers import answers_of_kafka, answers_of_ours, compared_steps
from tests.peers.assignor_lives import CONSUMER, SHARE, STREAMS, Life, generated_lives

pytestmark = pytest.mark.interop

LIVES = {CONSUMER: 150, SHARE: 80, STREAMS: 100}


def test_random_groups_are_assigned_as_by_kafka() -> None:
    require_peer()
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    random = Random(seed)
    lives: list[Life] = [life for kind, count in LIVES.items() for life in generated_lives(random, kind, count)]
    compared = 0
    for number, (life, kafkas) in enumerate(zip(lives, answers_of_kafka(lives), strict=True)):
        ours = answers_of_ours(life)
        for step in range(compared_steps(kafkas)):
            where = f"step {step} of life {number}, seed {seed}: {life['assignor']}"
            assert ours[step] == kafkas[step], where
            compared += 1
    assert compared > 1_000
