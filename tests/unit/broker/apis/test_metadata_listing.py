"""Metadata of all topics: in steps if there are many, and from the metadata of one moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.apis import metadata
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.unit.broker.apis.test_denials import World
from tests.unit.controller.controller_harness import topic

NAMES = [f"t{number}" for number in range(7)]


class Topics(World):
    def __init__(self, *rights: str) -> None:
        super().__init__(*rights)
        self.harness.create(*map(topic, NAMES))
        self.publish()

    def publish(self) -> None:
        manifest: Any = None
        self.broker.metadata.publish(SimpleNamespace(), self.harness.controller.committed_image, manifest)

    def listed(self, version: int = 12, **fields: Any) -> list[str]:
        return [entry.name for entry in self.ask(MetadataRequest(topics=None, **fields), version).topics]


@pytest.fixture(params=[1, 3, 1_000])
def partitions_a_step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(metadata, "PARTITIONS_A_STEP", request.param)
    return int(request.param)


@pytest.mark.parametrize("version", [1, 7, 8, 9, 10, 13])
def test_all_topics_are_listed_in_order(partitions_a_step: int, version: int) -> None:
    world = Topics("TOPIC:DESCRIBE")
    listed = world.listed(version)
    assert [name for name in listed if name in NAMES] == NAMES
    assert listed == sorted(listed)
    assert world.listed(version) == listed, "the cached response is a different one"


def test_operations_are_returned_with_their_topics(partitions_a_step: int) -> None:
    world = Topics("TOPIC:DESCRIBE")
    answer = world.ask(MetadataRequest(topics=None, include_topic_authorized_operations=True), 12)
    assert {entry.topic_authorized_operations for entry in answer.topics} != {-(2**31)}
    assert [entry.name for entry in answer.topics] == world.listed()


def test_a_caller_without_rights_sees_no_topic(partitions_a_step: int) -> None:
    assert Topics().listed() == []


def test_a_topic_created_between_two_steps_is_not_in_the_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "PARTITIONS_A_STEP", 2)
    world = Topics("TOPIC:DESCRIBE")
    listed = world.listed()
    world.harness.create(topic("t0a"))
    kept = world.broker.metadata.at_this_moment()
    world.publish()
    assert "t0a" in world.listed()
    world.broker.metadata = kept
    assert world.listed() == listed
