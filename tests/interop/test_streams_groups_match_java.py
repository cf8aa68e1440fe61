"""Streams groups: our answers to new random questions, compared with those of Kafka's own classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import require_peer
from tests.peers.record_streams_group_answers import answers_of_kafka
from tests.peers.record_streams_group_lives import life_in_kafka
from tests.peers.streams_group_answers import differences
from tests.peers.streams_group_lives import differences as differences_of_lives
from tests.peers.streams_group_questions import group_questions, heartbeat_questions, topology_questions
from tests.peers.streams_group_steps import life

pytestmark = pytest.mark.interop

SEED = 20261127


def test_our_answers_are_those_of_kafka(tmp_path: Path) -> None:
    require_peer()
    questions = topology_questions(SEED, 1000) + heartbeat_questions(SEED, 500) + group_questions(SEED, 60, 60)
    answers = answers_of_kafka(questions, tmp_path)
    found = [
        difference
        for question, answer in zip(questions, answers, strict=True)
        for difference in differences(question, answer)
    ]
    assert not found, f"{len(found)} parts of {len(questions)} answers differ: {found[:3]}"


@pytest.mark.timeout(300)
def test_new_lives_are_those_of_kafkas_coordinator(tmp_path: Path) -> None:
    require_peer()
    assert differences_of_lives(life_in_kafka(life(SEED, 700), tmp_path)) == []
