"""Cases that the recorded responses of a real controller cannot show: records, policies, several brokers."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.controller.apis import alter_configs, describe_configs, incremental_alter_configs, update_features
from barnabas.controller.config_validation import UNKNOWN_BROKER_CONFIGS_MAX
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.policies import PolicyViolation
from barnabas.controller.sensitive_configs import config_record
from barnabas.metadata.image.configs import ConfigResource
from barnabas.protocol.messages.alter_configs import AlterConfigsResponse
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from barnabas.protocol.messages.update_features import UpdateFeaturesResponse
from barnabas.protocol.records.clear_elr_record import ClearElrRecord
from barnabas.protocol.records.config_record import ConfigRecord
from tests.peers.admin_requests import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SAFE_DOWNGRADE,
    SET,
    TOPIC,
    UPGRADE,
    alter,
    replace,
    update,
)
from tests.peers.config_requests import describe
from tests.unit.controller.controller_harness import ControllerHarness, topic


@pytest.fixture
def harness() -> ControllerHarness:
    harness = ControllerHarness().activate()
    harness.start_broker(1)
    harness.create(topic("orders"), topic("payments"))
    return harness


def change(harness: ControllerHarness, *resources: Any) -> IncrementalAlterConfigsResponse:
    return harness.call(incremental_alter_configs.handle, alter(*resources), 1)


def swap(harness: ControllerHarness, *resources: Any) -> AlterConfigsResponse:
    return harness.call(alter_configs.handle, replace(*resources), 2)


def set_features(harness: ControllerHarness, *features: Any) -> UpdateFeaturesResponse:
    return harness.call(update_features.handle, update(*features), 2)


def of_orders(harness: ControllerHarness) -> Any:
    return harness.controller.committed_image.configs.of_topic("orders")


def test_an_invalid_resource_does_not_stop_the_others(harness: ControllerHarness) -> None:
    response = change(
        harness, (TOPIC, "orders", ("nonsense", SET, "1")), (TOPIC, "payments", ("retention.ms", SET, "5"))
    )
    assert [r.error_code for r in response.responses] == [ErrorCode.INVALID_CONFIG, 0]
    assert harness.controller.committed_image.configs.of_topic("payments") == {"retention.ms": "5"}
    assert of_orders(harness) == {}


def test_an_unchanged_value_writes_nothing_but_on_brokers(harness: ControllerHarness) -> None:
    change(harness, (TOPIC, "orders", ("retention.ms", SET, "5")))
    end = harness.end_offset
    change(harness, (TOPIC, "orders", ("retention.ms", SET, "5")))
    assert harness.end_offset == end
    change(harness, (BROKER, "1", ("log.cleaner.threads", SET, "2")))
    change(harness, (BROKER, "1", ("log.cleaner.threads", SET, "2")))
    assert harness.end_offset == end + 2


def test_appending_starts_at_the_built_in_default(harness: ControllerHarness) -> None:
    change(harness, (TOPIC, "orders", ("cleanup.policy", APPEND, "compact")))
    assert of_orders(harness) == {"cleanup.policy": "delete,compact"}


def test_replacing_removes_configs_that_are_not_named(harness: ControllerHarness) -> None:
    change(harness, (TOPIC, "orders", ("retention.ms", SET, "5"), ("retention.bytes", SET, "6")))
    swap(harness, (TOPIC, "orders", ("retention.bytes", "7")))
    assert of_orders(harness) == {"retention.bytes": "7"}
    assert swap(harness, (TOPIC, "orders")).responses[0].error_code == 0
    assert of_orders(harness) == {}


def test_deleting_a_topic_removes_its_configs_for_its_successor(harness: ControllerHarness) -> None:
    change(harness, (TOPIC, "orders", ("retention.ms", SET, "5")))
    created = harness.controller.committed_image.topics.get("orders")
    assert created is not None
    harness.answer(
        harness.controller.submit_in_steps(harness.controller.replication.delete_topics([created.id]), lambda error: {})
    )
    harness.create(topic("orders"))
    assert of_orders(harness) == {}


def test_a_new_min_insync_replicas_clears_eligible_replicas(harness: ControllerHarness) -> None:
    change(harness, (TOPIC, "orders", ("min.insync.replicas", SET, "2")))
    assert harness.log[-1].records[-1] == ClearElrRecord(topic_name="orders")
    change(harness, (BROKER, "", ("min.insync.replicas", SET, "2")))
    assert harness.log[-1].records[-1] == ClearElrRecord(topic_name="")


def test_enabling_eligible_replicas_sets_the_minimum_for_the_cluster(harness: ControllerHarness) -> None:
    assert set_features(harness, ("eligible.leader.replicas.version", 0, SAFE_DOWNGRADE)).error_code == 0
    change(
        harness, (BROKER, "1", ("min.insync.replicas", SET, "3")), (BROKER, "", ("min.insync.replicas", DELETE, None))
    )
    assert harness.controller.committed_image.configs.of_broker(1) == {"min.insync.replicas": "3"}
    assert set_features(harness, ("eligible.leader.replicas.version", 1, UPGRADE)).error_code == 0
    assert harness.log[-1].records[:-1] == [
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value=None),
    ]


def test_a_level_that_a_broker_does_not_know_is_refused() -> None:
    harness = ControllerHarness().activate()
    set_features(harness, ("share.version", 0, SAFE_DOWNGRADE))
    old = [f for f in harness.registration(1).features if f.name != "share.version"]
    harness.start_broker(1, features=old)
    answer = set_features(harness, ("share.version", 1, UPGRADE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message is not None
    assert answer.error_message.endswith("Broker 1 does not support this feature.")


class OnlyShortRetention:
    session = None

    def __init__(self) -> None:
        self.seen: list[tuple[ConfigResource, dict[str, str | None]]] = []

    def check(self, question: Any) -> None:
        self.seen.append((ConfigResource(*question[:2]), dict(question.configs)))
        self.existing = question.existing
        if int(question.configs.get("retention.ms") or 0) > 100:
            raise PolicyViolation("nothing is kept for so long here")


def test_a_policy_receives_the_changed_keys_and_may_refuse() -> None:
    policy = OnlyShortRetention()
    harness = ControllerHarness(alter_config_policy=policy).activate()
    harness.start_broker(1)
    harness.create(topic("orders"))
    change(harness, (TOPIC, "orders", ("retention.bytes", SET, "1"), ("cleanup.policy", APPEND, "compact")))
    vetoed = change(harness, (TOPIC, "orders", ("retention.ms", SET, "500"), ("retention.bytes", DELETE, None)))
    (result,) = vetoed.responses
    assert (result.error_code, result.error_message) == (44, "nothing is kept for so long here")
    orders = ConfigResource.topic("orders")
    assert policy.seen == [
        (orders, {"retention.bytes": "1", "cleanup.policy": "delete,compact"}),
        (orders, {"retention.ms": "500", "retention.bytes": None}),
    ]
    swap(harness, (TOPIC, "orders", ("retention.ms", "7")))
    removed = {"retention.bytes": None, "cleanup.policy": None}
    assert policy.existing == {"retention.bytes": "1", "cleanup.policy": "delete,compact"}
    assert policy.seen[-1] == (orders, {"retention.ms": "7", **removed})


def test_the_legacy_api_logs_who_replaced_the_settings(
    harness: ControllerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    change(harness, (TOPIC, "orders", ("retention.ms", SET, "5"), ("retention.bytes", SET, "6")))
    swap(harness, (TOPIC, "orders", ("retention.ms", "7")))
    assert "User:ANONYMOUS at 127.0.0.1 replaced all settings of topic orders" in caplog.text
    assert "removed retention.bytes" in caplog.text


def test_the_legacy_api_keeps_other_configs_if_it_is_set_to_merge() -> None:
    harness = ControllerHarness(legacy_alter_merges=True).activate()
    harness.start_broker(1)
    harness.create(topic("orders"))
    swap(harness, (TOPIC, "orders", ("retention.ms", "5")))
    swap(harness, (TOPIC, "orders", ("retention.bytes", "6")))
    assert of_orders(harness) == {"retention.ms": "5", "retention.bytes": "6"}


def test_every_invalid_setting_of_a_resource_is_named(harness: ControllerHarness) -> None:
    broker = (BROKER, "1", ("log.cleaner.threads", SET, "many"), ("num.io.threads", SET, "0"))
    group = (GROUP, "g", ("consumer.session.timeout", SET, "5"), ("share.isolation.level", SET, "none"))
    metrics = (CLIENT_METRICS, "m", ("interval", SET, "5"), ("interval.ms", SET, "soon"))
    answers = [
        (response.error_code, response.error_message) for response in change(harness, broker, group, metrics).responses
    ]
    assert [code for code, _ in answers] == [42, 40, 42]
    for (_, message), names in zip(
        answers,
        (
            ("log.cleaner.threads: Not a number of type INT", "num.io.threads: Value must be at least 1"),
            ("consumer.session.timeout (did you mean consumer.session.timeout.ms?)", "share.isolation.level: "),
            ("interval (did you mean interval.ms?)", "interval.ms: Not a number"),
        ),
        strict=True,
    ):
        assert message is not None
        assert all(name in message for name in names), message


@pytest.mark.parametrize("broker", ["", "1", "2"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.dirs", "/elsewhere"),
        ("log.dir", "/elsewhere"),
        ("metadata.log.dir", "/elsewhere"),
        ("node.id", "7"),
        ("broker.id", "7"),
        ("process.roles", "controller"),
        ("controller.quorum.voters", "7@a:1"),
        ("controller.listener.names", "OTHER"),
    ],
)
def test_read_only_settings_of_nodes_cannot_be_changed(
    harness: ControllerHarness, broker: str, name: str, value: str
) -> None:
    """A client that sends requests to the controller has bypassed the broker, which refuses such a change too."""
    harness.start_broker(2)
    (answer,) = change(harness, (BROKER, broker, (name, SET, value))).responses
    assert (answer.error_code, answer.error_message) == (
        42,
        f"Cannot update these configs dynamically: [{name}]; they need a restart of the node",
    )
    (answer,) = change(harness, (BROKER, broker, (name, DELETE, None))).responses
    assert answer.error_code == 0


# As Kafka 4.3.1 answered.
@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        (r"client_id=\p{Alpha}+", 0),
        (r"client_id=(?<n>a)\k<n>", 0),
        (r"client_id=\Qa.b\E", 0),
        (r"client_id=\h", 0),
        ("client_software_name=.*, client_id = b ", 0),
        ("client_id=a=", 0),
        ("client_id=(?P<n>a)", 40),
        ("client_id=(?#c)", 40),
        ("client_id=a{", 40),
        ("client_id=a=b", 40),
        ("client_id==a", 40),
        ("client_id=", 40),
        ("client_id", 40),
        ("other=a", 40),
        ("client_id=(a", 40),
    ],
)
def test_a_client_metrics_pattern_is_a_java_regular_expression(
    harness: ControllerHarness, pattern: str, code: int
) -> None:
    (answer,) = change(harness, (CLIENT_METRICS, "m", ("match", SET, pattern))).responses
    assert answer.error_code == code, answer.error_message


def test_an_invalid_setting_stored_by_kafka_does_not_block_others(harness: ControllerHarness) -> None:
    record = config_record(ConfigResource.broker(1), "num.io.threads", "many")
    harness.controller.submit(lambda: ControllerResult([record], None), lambda error: None)
    (kept,) = change(harness, (BROKER, "1", ("log.cleaner.threads", SET, "2"))).responses
    (repaired,) = change(harness, (BROKER, "1", ("num.io.threads", DELETE, None))).responses
    assert (kept.error_code, repaired.error_code) == (0, 0)
    assert harness.controller.committed_image.configs.of_broker(1) == {"log.cleaner.threads": "2"}


def test_log_levels_change_on_the_controller_that_receives_the_request(harness: ControllerHarness) -> None:
    logger = logging.getLogger("barnabas.test.controller")
    try:
        own = (BROKER_LOGGER, "1", (logger.name, SET, "DEBUG"))
        answers = change(harness, own, (BROKER_LOGGER, "2", (logger.name, SET, "ERROR")), (TOPIC, "orders")).responses
        assert {response.resource_name: response.error_code for response in answers} == {"1": 0, "2": 42, "orders": 0}
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(logging.NOTSET)


def test_a_controller_describes_itself_and_committed_configs(harness: ControllerHarness) -> None:
    change(harness, (TOPIC, "orders", ("retention.ms", SET, "5")))
    resources = [(TOPIC, "orders", ["retention.ms"]), (BROKER, "1", ["num.partitions"]), (BROKER, "2", None)]
    request = describe(*resources, (TOPIC, "missing", None))
    topic_, own, other, missing = harness.call(describe_configs.handle, request, 4).results
    assert [(config.value, config.config_source) for config in topic_.configs] == [("5", 1)]
    assert ([config.value for config in own.configs], other.error_code, missing.error_code) == (["1"], 42, 3)


@pytest.mark.parametrize("name", ["1", ""])
def test_the_number_of_stored_unknown_broker_settings_is_limited(harness: ControllerHarness, name: str) -> None:
    def ask(*settings: Any) -> int:
        return change(harness, (BROKER, name, *settings)).responses[0].error_code

    assert ask(*((f"odd.{number}", SET, "1") for number in range(UNKNOWN_BROKER_CONFIGS_MAX))) == 0
    assert ask(("odd.more", SET, "1")) == ErrorCode.POLICY_VIOLATION
    assert ask(("odd.7", SET, "2"), ("log.cleaner.threads", SET, "2")) == 0
    assert ask(("odd.7", DELETE, None), ("odd.more", SET, "1")) == 0
    assert ask(*((f"odder.{number}", SET, "1") for number in range(5_000))) == ErrorCode.POLICY_VIOLATION


def test_an_error_names_only_some_of_many_unknown_settings(harness: ControllerHarness) -> None:
    (result,) = change(harness, (CLIENT_METRICS, "m", *((f"odd.{n}", SET, "1") for n in range(5_000)))).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message.count("Unknown client metrics configuration") == 10
