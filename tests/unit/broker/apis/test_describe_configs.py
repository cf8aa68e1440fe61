"""How a broker describes settings."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.apis.describe_configs import handle_describe_configs
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.metadata.image.configs import ConfigResourceType, ConfigsDelta, ConfigsImage
from barnabas.network.api_handler import Access
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext

TOPIC, BROKER, LOGGER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER
METRICS, GROUP = ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP


class Denying(Authorizer):
    """Refuses the resources with these names."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

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
        return resource_name not in self._names


@pytest.fixture
def broker() -> Any:
    """Broker 1 with the topics t and u, and a setting on every level."""
    delta = ConfigsDelta(ConfigsImage.EMPTY)
    for type_, name, key, value in (
        (TOPIC, "t", "retention.ms", "5"),
        (BROKER, "", "message.max.bytes", "7"),
        (BROKER, "1", "log.segment.bytes", "1048576"),
        (GROUP, "g", "consumer.heartbeat.interval.ms", "6000"),
    ):
        delta.replay(ConfigRecord(resource_type=int(type_), resource_name=name, name=key, value=value))
    metadata = SimpleNamespace(
        image=SimpleNamespace(configs=delta.apply(), topics=dict.fromkeys(("t", "u"), "a topic"))
    )
    return SimpleNamespace(broker_id=1, static_configs={"num.partitions": "3"}, metadata=metadata, other_brokers=None)


def _ask(
    broker: Any, *resources: tuple[int, str, list[str] | None], denied: set[str] | None = None, **flags: Any
) -> list[DescribeConfigsResult]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=int(type_), resource_name=name, configuration_keys=keys)
            for type_, name, keys in resources
        ],
        **flags,
    )
    context = RequestContext(api_key=ApiKey.DESCRIBE_CONFIGS, api_version=4)
    rules = handle_describe_configs.api_handler.acl  # type: ignore[attr-defined]
    access = Access(Denying(denied or set()), context, rules)
    response = handle_describe_configs(broker, request, access)
    if not isinstance(response, DescribeConfigsResponse):
        response = asyncio.run(response)  # type: ignore[arg-type]
    assert DescribeConfigsResponse.decode(response.encode(4), 4) == response
    return response.results


def test_a_topic_is_described_with_values_of_all_levels(broker: Any) -> None:
    (result,) = _ask(broker, (TOPIC, "t", None))
    configs = {config.name: config for config in result.configs}
    assert (result.error_code, result.error_message, len(configs)) == (0, "", 33)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert (configs["max.message.bytes"].value, configs["max.message.bytes"].config_source) == ("7", 3)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1048576", 2)
    assert [config.name for config in result.configs] == sorted(configs)


def test_synonyms_and_documentation_are_returned_only_on_request(broker: Any) -> None:
    (plain,) = _ask(broker, (TOPIC, "t", ["retention.ms"]))
    assert (plain.configs[0].synonyms, plain.configs[0].documentation) == ([], None)
    (full,) = _ask(broker, (TOPIC, "t", ["retention.ms"]), include_synonyms=True, include_documentation=True)
    assert [synonym.name for synonym in full.configs[0].synonyms] == ["retention.ms"]
    assert "segment is deleted" in (full.configs[0].documentation or "")


@pytest.mark.parametrize("type_", [TOPIC, BROKER, GROUP, METRICS])
def test_everything_is_documented(type_: ConfigResourceType, broker: Any) -> None:
    name = {TOPIC: "t", BROKER: "1", GROUP: "g", METRICS: "m"}[type_]
    (result,) = _ask(broker, (type_, name, None), include_documentation=True)
    assert all(config.documentation for config in result.configs)


def test_a_resource_named_twice_is_returned_once_with_both_keys(broker: Any) -> None:
    results = _ask(broker, (TOPIC, "t", ["flush.ms"]), (TOPIC, "u", ["flush.ms"]), (TOPIC, "t", ["segment.ms"]))
    assert [result.resource_name for result in results] == ["t", "u"]
    assert [config.name for config in results[0].configs] == ["flush.ms", "segment.ms"]
    (all_of_it,) = _ask(broker, (TOPIC, "t", ["flush.ms"]), (TOPIC, "t", []))
    assert len(all_of_it.configs) == 33


def test_denied_resources_come_last_and_do_not_reveal_whether_they_exist(broker: Any) -> None:
    results = _ask(broker, (TOPIC, "t", None), (TOPIC, "gone", None), (TOPIC, "u", None), denied={"t", "gone"})
    assert [result.resource_name for result in results] == ["u", "t", "gone"]
    for result in results[1:]:
        assert (result.error_code, result.configs) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
        assert result.error_message == "User:ANONYMOUS lacks DESCRIBE_CONFIGS on Topic:" + result.resource_name


@pytest.mark.parametrize("type_", [BROKER, METRICS])
def test_brokers_and_metrics_require_rights_on_the_cluster(type_: ConfigResourceType, broker: Any) -> None:
    (result,) = _ask(broker, (type_, "1", None), denied={"kafka-cluster"})
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("type_", "name", "code", "message"),
    [
        (TOPIC, "gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "a b"),
        (BROKER, "2", ErrorCode.INVALID_REQUEST, "expected 1 or empty string, but received 2"),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "must be an integer"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (METRICS, "", ErrorCode.INVALID_REQUEST, "Subscription name must not be empty"),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST, "expected 1, but received 2"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (77, "x", ErrorCode.INVALID_REQUEST, "Unexpected resource type 77"),
    ],
)
def test_an_invalid_resource_fails_alone(type_: int, name: str, code: ErrorCode, message: str, broker: Any) -> None:
    bad, good = _ask(broker, (type_, name, None), (TOPIC, "t", None))
    assert (bad.error_code, good.error_code) == (code, ErrorCode.NONE)
    assert message in (bad.error_message or "")


def test_a_broker_describes_itself_and_the_default_of_all(broker: Any) -> None:
    itself, all_brokers = _ask(broker, (BROKER, "1", None), (BROKER, "", None))
    configs = {config.name: config for config in itself.configs}
    assert (configs["num.partitions"].value, configs["num.partitions"].read_only) == ("3", True)
    assert (configs["log.segment.bytes"].config_source, configs["log.segment.bytes"].read_only) == (2, False)
    assert [(config.name, config.value) for config in all_brokers.configs] == [("message.max.bytes", "7")]


def test_groups_and_metrics_need_not_exist(broker: Any) -> None:
    group, metrics = _ask(broker, (GROUP, "new", None), (METRICS, "new", None))
    assert (len(group.configs), len(metrics.configs)) == (17, 3)


def test_log_levels_are_described_by_the_names_of_our_loggers(broker: Any) -> None:
    logger, above = logging.getLogger("barnabas.described.once"), logging.getLogger("barnabas.described")
    logger.setLevel(logging.ERROR)
    above.setLevel(logging.WARNING)
    try:
        (result,) = _ask(broker, (LOGGER, "1", ["root", logger.name, "barnabas.described", "no.such.logger"]))
        (everything,) = _ask(broker, (LOGGER, "1", None), include_documentation=True)
    finally:
        logger.setLevel(logging.NOTSET)
        above.setLevel(logging.NOTSET)
    values = {config.name: config.value for config in result.configs}
    assert values == {"root": values["root"], above.name: "WARN", logger.name: "ERROR"}
    assert {(c.config_source, c.read_only, c.is_sensitive, c.config_type) for c in everything.configs} == {
        (6, False, False, 0)
    }
    assert set(values) < {config.name for config in everything.configs}


class Others:
    """Brokers 2 and 3, of which 3 is unreachable."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, DescribeConfigsRequest]] = []

    async def ask(self, broker_id: int, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        self.requests.append((broker_id, request))
        if broker_id == 3:
            raise ApiException(ErrorCode.BROKER_NOT_AVAILABLE, "broker 3 is unreachable")
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
                for resource in request.resources
            ]
        )


@pytest.fixture
def others(broker: Any) -> Others:
    broker.other_brokers = Others()
    registered = {1, 2, 3}
    broker.metadata.image.cluster = SimpleNamespace(broker=lambda id_: id_ if id_ in registered else None)
    return broker.other_brokers


def test_settings_of_another_broker_are_requested_from_it(broker: Any, others: Others) -> None:
    results = _ask(
        broker, (BROKER, "2", ["num.partitions"]), (TOPIC, "t", None), (LOGGER, "2", None), (BROKER, "1", None),
        include_synonyms=True,
    )  # fmt: skip
    assert [(result.resource_type, result.resource_name, result.error_code) for result in results] == [
        (TOPIC, "t", 0),
        (BROKER, "1", 0),
        (BROKER, "2", 0),
        (LOGGER, "2", 0),
    ]
    ((broker_id, request),) = others.requests
    assert broker_id == 2
    assert request.include_synonyms
    assert request.resources[0].configuration_keys == ["num.partitions"]


def test_an_unreachable_broker_fails_alone(broker: Any, others: Others) -> None:
    answered, failed = _ask(broker, (BROKER, "3", None), (BROKER, "2", None))[::-1]
    assert (answered.resource_name, answered.error_code) == ("2", 0)
    assert (failed.resource_name, failed.error_code) == ("3", ErrorCode.BROKER_NOT_AVAILABLE)
    assert failed.error_message == "broker 3 is unreachable"


@pytest.mark.parametrize("name", ["4", "", "x", "-2", "\u0662"])
def test_no_request_is_sent_for_an_unregistered_broker(name: str, broker: Any, others: Others) -> None:
    _ask(broker, (BROKER, name, None))
    assert others.requests == []


def test_a_denied_description_causes_no_request_to_another_broker(broker: Any, others: Others) -> None:
    (result,) = _ask(broker, (BROKER, "2", None), denied={"kafka-cluster"})
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert others.requests == []
