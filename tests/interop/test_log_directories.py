"""Several log directories: replicas move, directories are cordoned, one fails. Told as a real Kafka tells it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.peers.barnabas_node import BarnabasNode
from tests.peers.directory_story import SETTINGS, log_dirs
from tests.peers.record_directory_answers import kafka_node, told_by

pytestmark = pytest.mark.interop

RECORDED = Path(__file__).parent.parent / "vectors" / "log_dirs" / "answers-4.3.1.json"


def recorded() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(RECORDED.read_text())
    return answers


def test_our_node_tells_of_its_directories_what_kafka_tells(tmp_path: Path) -> None:
    node = BarnabasNode(tmp_path / "node", settings={"log.dirs": log_dirs(tmp_path / "dirs"), **SETTINGS})
    assert told_by(node, tmp_path / "dirs") == recorded()


@pytest.mark.long
def test_the_recorded_answers_are_kafkas(tmp_path: Path) -> None:
    assert told_by(kafka_node(tmp_path), tmp_path / "dirs") == recorded()
