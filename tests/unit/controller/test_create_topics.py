from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.controller.policies import CreateTopicQuestion, PolicyViolation
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
)
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext
from tests.unit.controller.controller_harness import ControllerHarness, directory_of, topic


@pytest.fixture
def harness() -> ControllerHarness:
    harness = ControllerHarness().activate()
    harness.start_broker(1)
    return harness


def assigned(name: str, *replicas: list[int], **fields: Any) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(replicas)
    ]
    return topic(name, **{"num_partitions": -1, "replication_factor": -1, "assignments": assignments, **fields})


def config(name: str, value: str | None) -> CreatableTopicConfig:
    return CreatableTopicConfig(name=name, value=value)


def only(harness: ControllerHarness, wanted: CreatableTopic, **fields: Any) -> CreatableTopicResult:
    (result,) = harness.create(wanted, **fields).topics
    return result


def test_a_topic_has_its_partitions_on_the_broker_and_in_its_directory(harness: ControllerHarness) -> None:
    result = only(harness, topic("orders", 3))
    created = harness.controller.committed_image.topics.get("orders")
    assert created is not None
    assert created.id == result.topic_id
    assert sorted(created.partitions) == [0, 1, 2]
    for partition in created.partitions.values():
        assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
        assert partition.directories == (directory_of(1),)
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_defaults_of_the_controller_fill_missing_values() -> None:
    harness = ControllerHarness(num_partitions=4, default_replication_factor=2).activate()
    for broker in (1, 2):
        harness.start_broker(broker)
    result = only(harness, topic("orders", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 2)


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
        (topic(".."), 17, "Topic name is invalid: '..' is not allowed"),
        (
            topic("bad name"),
            17,
            "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        (topic("p", 0), 37, "Number of partitions was set to an invalid non-positive value."),
        (topic("p", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            topic("p", 1, 2),
            38,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached "
            "because only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            assigned("p", [1], num_partitions=1),
            42,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            assigned("p", [1], replication_factor=1),
            42,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (assigned("p", []), 39, "The manual partition assignment includes an empty replica list."),
        (
            assigned("p", [9]),
            39,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (assigned("p", [1, 1]), 39, "The manual partition assignment includes the broker 1 more than once."),
        (topic("p", configs=[config("nonsense", "1")]), 40, "Unknown topic config name: nonsense"),
        (
            topic("p", configs=[config("a", None), config("b", None)]),
            40,
            "Null value not supported for topic configs: a,b",
        ),
        (topic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
    ],
    ids=lambda value: None if not isinstance(value, CreatableTopic) else f"{value.name!r}",
)
def test_an_invalid_topic_is_refused_with_kafkas_message(
    harness: ControllerHarness, wanted: CreatableTopic, code: int, message: str
) -> None:
    result = only(harness, wanted)
    assert (result.error_code, result.error_message) == (code, message)
    assert (result.num_partitions, result.replication_factor) == (-1, -1)
    assert harness.controller.committed_image.topics.get(wanted.name) is None


def test_manual_partitions_must_be_numbered_without_gaps(harness: ControllerHarness) -> None:
    wanted = assigned("p", [1], [1])
    wanted.assignments[1].partition_index = 2
    assert only(harness, wanted).error_message == "partitions should be a consecutive 0-based integer sequence"
    wanted.assignments[1].partition_index = 0
    assert only(harness, wanted).error_message == "Found multiple manual partition assignments for partition 0"


def test_existing_names_and_names_that_collide_in_metrics_are_refused(harness: ControllerHarness) -> None:
    assert only(harness, topic("a.b")).error_code == 0
    again, collides = harness.create(topic("a.b"), topic("a_b")).topics
    assert (again.error_code, again.error_message) == (36, "Topic 'a.b' already exists.")
    assert (collides.error_code, collides.error_message) == (17, "Topic 'a_b' collides with existing topic: a.b")


def test_a_repeated_name_fails_and_the_others_succeed(harness: ControllerHarness) -> None:
    first, second = harness.create(topic("dup"), topic("ok"), topic("dup")).topics
    assert (first.name, first.error_code) == ("ok", 0)
    assert (second.name, second.error_code, second.error_message) == ("dup", 42, "Duplicate topic name.")


def test_configs_are_stored_and_returned_with_their_source(harness: ControllerHarness) -> None:
    result = only(harness, topic("orders", configs=[config("retention.ms", "77")]))
    assert result.configs is not None
    sources = {entry.name: (entry.value, entry.config_source) for entry in result.configs}
    assert sources["retention.ms"] == ("77", 1)
    assert sources["min.insync.replicas"] == ("1", 3)
    assert sources["max.message.bytes"] == ("1048588", 5)
    assert list(sources) == sorted(sources)
    assert harness.controller.committed_image.configs.of_topic("orders") == {"retention.ms": "77"}


def test_settings_of_the_controllers_file_are_returned_as_static() -> None:
    harness = ControllerHarness(static_configs={"log.retention.hours": "1"}).activate()
    harness.start_broker(1)
    result = only(harness, topic("orders"))
    assert result.configs is not None
    assert [(e.value, e.config_source) for e in result.configs if e.name == "retention.ms"] == [("3600000", 4)]


def test_validate_only_returns_the_same_and_writes_nothing(harness: ControllerHarness) -> None:
    before = harness.end_offset
    result = only(harness, topic("orders", 2), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 2)
    assert harness.end_offset == before


def test_too_many_partitions_fail_the_request(harness: ControllerHarness) -> None:
    results = harness.create(topic("a", 5_000), topic("b", 5_001)).topics
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}
    assert results[0].error_message == "Excessively large number of partitions per request."


def test_no_topic_is_created_while_every_broker_is_fenced() -> None:
    harness = ControllerHarness().activate()
    harness.register(1)
    result = only(harness, topic("orders"))
    assert (result.error_code, result.error_message) == (
        38,
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned.",
    )
    manual = only(harness, assigned("orders", [1]))
    assert manual.error_message == (
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown."
    )


class _Only(Authorizer):
    """Allows only what is listed."""

    def __init__(self, *allowed: tuple[AclOperation, ResourceType, str]) -> None:
        self._allowed = set(allowed)

    def authorize(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        return (operation, resource_type, resource_name) in self._allowed

    def authorize_by_resource_type(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        return False

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return 0


def test_create_on_the_topic_suffices_and_configs_need_their_own_right(harness: ControllerHarness) -> None:
    harness.authorizer = _Only((AclOperation.CREATE, ResourceType.TOPIC, "mine"))  # type: ignore[assignment]
    mine, theirs = harness.create(topic("mine"), topic("theirs")).topics
    assert (mine.name, mine.error_code, mine.topic_config_error_code) == ("mine", 0, 29)
    assert (mine.num_partitions, mine.configs) == (-1, [])
    assert (theirs.name, theirs.error_code, theirs.error_message) == (
        "theirs",
        29,
        "User:ANONYMOUS lacks CREATE on Topic:theirs",
    )


def test_create_on_the_cluster_suffices(harness: ControllerHarness) -> None:
    harness.authorizer = _Only((AclOperation.CREATE, ResourceType.CLUSTER, "kafka-cluster"))  # type: ignore[assignment]
    assert only(harness, topic("any")).error_code == 0


def test_a_policy_may_refuse_a_topic() -> None:
    seen: list[tuple[Any, ...]] = []

    class NoSmallTopics:
        session = None

        def check(self, question: CreateTopicQuestion) -> None:
            seen.append(question.topic)
            if question.topic.num_partitions == 1:
                raise PolicyViolation("topics have at least two partitions here")

    harness = ControllerHarness(create_topic_policy=NoSmallTopics()).activate()
    harness.start_broker(1)
    small, big, manual = harness.create(topic("small"), topic("big", 2), assigned("manual", [1])).topics
    assert (small.error_code, small.error_message) == (44, "topics have at least two partitions here")
    assert (big.error_code, manual.error_code) == (0, 0)
    assert seen[1:] == [("big", 2, 1, None, {}), ("manual", None, None, {0: (1,)}, {})]
