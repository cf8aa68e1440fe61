"""controller_mutation_rate: each partition costs a token, and a client without tokens waits."""

from __future__ import annotations

from barnabas.common.errors import ErrorCode
from barnabas.controller.apis import alter_client_quotas, create_partitions, create_topics, delete_topics
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.controller.controller_harness import ControllerHarness, topic


def with_rate(rate: float | None) -> ControllerHarness:
    harness = ControllerHarness().activate()
    harness.start_broker(1)
    if rate is not None:
        entry = AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type="user", entity_name=None)],
            ops=[OpData(key="controller_mutation_rate", value=rate)],
        )
        harness.call(alter_client_quotas.handle, AlterClientQuotasRequest(entries=[entry]), 1)
    return harness


def create(harness: ControllerHarness, name: str, partitions: int, version: int = 7) -> tuple[int, int]:
    response = harness.call(create_topics.handle, CreateTopicsRequest(topics=[topic(name, partitions)]), version)
    return response.topics[0].error_code, response.throttle_time_ms


def test_without_a_quota_no_client_waits() -> None:
    harness = with_rate(None)
    assert [create(harness, f"t{number}", 500) for number in range(3)] == [(0, 0)] * 3


def test_an_overdrawn_bucket_refuses_until_it_is_full_enough() -> None:
    harness = with_rate(1.0)
    assert create(harness, "first", 13) == (0, 0)
    assert create(harness, "second", 1) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 2000)
    harness.clock.ms += 2000
    assert create(harness, "second", 1) == (0, 0)
    assert create(harness, "third", 1) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1000)


def test_an_old_client_is_served_and_throttled() -> None:
    harness = with_rate(1.0)
    create(harness, "first", 13)
    assert create(harness, "second", 1, version=5) == (0, 3000)


def test_adding_partitions_and_deleting_topics_cost_tokens_too() -> None:
    harness = with_rate(1.0)
    create(harness, "first", 10)
    grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="first", count=15, assignments=None)])
    assert harness.call(create_partitions.handle, grow, 3).throttle_time_ms == 0
    grow.topics[0].count = 16
    refused = harness.call(create_partitions.handle, grow, 3)
    assert (refused.results[0].error_code, refused.throttle_time_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 4000)
    remove = DeleteTopicsRequest(topics=[DeleteTopicState(name="first")])
    assert harness.call(delete_topics.handle, remove, 6).responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    old = harness.call(delete_topics.handle, remove, 4)
    assert (old.responses[0].error_code, old.throttle_time_ms) == (0, 19_000)


def test_a_failed_request_costs_no_tokens() -> None:
    harness = with_rate(1.0)
    create(harness, "first", 1)
    for _ in range(20):
        assert create(harness, "first", 1)[0] == ErrorCode.TOPIC_ALREADY_EXISTS
    assert create(harness, "second", 1) == (0, 0)
