"""Topics of thousands of partitions are described in steps, from the metadata of one moment."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker import encoded_topic_metadata
from barnabas.broker.apis import describe_topic_partitions, metadata
from barnabas.common.steps import whole
from barnabas.network import stepped_responses
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.apis.test_denials import World
from tests.unit.controller.controller_harness import topic

LARGE = 300
A_STEP = 40
Ask = Callable[["Topics"], Any]


class Topics(World):
    def __init__(self) -> None:
        super().__init__("TOPIC:DESCRIBE")
        self.broker.settings.max_request_partition_size_limit = 2_000
        self.harness.create(topic("large", LARGE), *(topic(f"t{number}", 15) for number in range(10)))
        self.publish()

    def publish(self) -> None:
        manifest: Any = None
        self.broker.metadata.publish(SimpleNamespace(), self.harness.controller.committed_image, manifest)


def metadata_of(*names: str, version: int = 12, **fields: Any) -> Ask:
    wanted = None if not names else [MetadataRequestTopic(name=name) for name in names]
    return lambda world: world.ask(MetadataRequest(topics=wanted, **fields), version)


def description_of(*names: str, limit: int = 2_000, cursor: Cursor | None = None) -> Ask:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
    )
    return lambda world: world.ask(request, 0)


REQUESTS: dict[str, Ask] = {
    **{f"Metadata {version} of a topic": metadata_of("large", version=version) for version in (1, 4, 7, 8, 9, 13)},
    "Metadata of a topic and operations": metadata_of("large", include_topic_authorized_operations=True),
    "Metadata of all topics": metadata_of(),
    "Metadata of many topics": metadata_of(*(f"t{number}" for number in range(10))),
    "Metadata of a topic, others and a missing one": metadata_of("t1", "large", "t2", allow_auto_topic_creation=False),
    "a topic's description": description_of("large"),
    "a description of all topics": description_of(),
    "the middle of a topic's description": description_of(
        "large", cursor=Cursor(topic_name="large", partition_index=70), limit=150
    ),
}


@pytest.fixture(params=REQUESTS)
def ask(request: pytest.FixtureRequest) -> Ask:
    return REQUESTS[request.param]


def test_a_step_encodes_a_fixed_number_of_partitions_and_the_response_is_the_same(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = ask(Topics())
    for module in (encoded_topic_metadata, metadata, describe_topic_partitions):
        monkeypatch.setattr(module, "PARTITIONS_A_STEP", A_STEP)
    steps = [0]
    describe, serve = encoded_topic_metadata.metadata_partitions, stepped_responses.serve_others

    def counted(*arguments: Any) -> Any:
        described = describe(*arguments)
        steps[-1] += len(described)
        return described

    async def served() -> None:
        steps.append(0)
        await serve()

    for module in (encoded_topic_metadata, describe_topic_partitions):
        monkeypatch.setattr(module, "metadata_partitions", counted)
    monkeypatch.setattr(stepped_responses, "serve_others", served)
    world = Topics()
    assert ask(world) == at_once
    assert sum(steps) >= 150
    assert max(steps) < 2 * A_STEP
    encoded = sum(steps)
    assert ask(world) == at_once
    assert sum(steps) - encoded in {0, 150}, "whole entries are kept, parts of them are not"


def test_a_response_in_steps_describes_the_brokers_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_topic_metadata, "PARTITIONS_A_STEP", A_STEP)
    world = Topics()
    cache = world.broker.metadata
    expected = whole(encoded_topic_metadata.segment_in_steps(cache, cache.topic("large"), "PLAINTEXT", 12))
    steps = encoded_topic_metadata.segment_in_steps(cache, cache.topic("large"), "PLAINTEXT", 12)
    next(steps)
    world.harness.heartbeat(1, want_fence=True)
    world.publish()
    assert whole(steps) == expected
    assert whole(encoded_topic_metadata.segment_in_steps(cache, cache.topic("large"), "PLAINTEXT", 12)) != expected
