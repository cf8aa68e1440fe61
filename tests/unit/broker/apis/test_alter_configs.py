"""How a broker itself handles alterations of configs, and how the results are ordered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.broker.broker_settings import BrokerSettings
from barnabas.broker.metadata_cache import MetadataCache
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.image.configs import ConfigResource
from barnabas.network.api_handler import HandlerTable
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.security.request_context import RequestContext
from barnabas.server.controller.api_handlers import SERVED_TO_OWN_BROKER, ControllerHandlers
from barnabas.server.controller_channel.in_process import InProcessChannel
from tests.peers.admin_requests import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    TOPIC,
    alter,
    replace,
    requests_for_broker,
)
from tests.unit.broker.apis.test_denials import Denying
from tests.unit.controller.controller_harness import ControllerHarness, topic
from tests.unit.controller.test_recorded_answers import BETTER, comparable, recorded

TABLE = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
RIGHTS = [
    f"{kind}:{operation}_CONFIGS" for kind in ("TOPIC", "GROUP", "CLUSTER") for operation in ("ALTER", "DESCRIBE")
]


class Settings:
    """Accepts every change except those of ``num.io.threads``; remembers the configs that would be in force."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.checked: list[Mapping[str, str]] = []

    def current(self, resource: ConfigResource) -> Mapping[str, str]:
        return self._world.metadata.image.configs.of(resource)

    async def check(self, resource: ConfigResource, changed: Mapping[str, Any], after: Mapping[str, str]) -> None:
        self.checked.append(after)
        if "num.io.threads" in changed:
            raise ApiException(ErrorCode.INVALID_REQUEST, "not with this file")


class World:
    def __init__(self, *rights: str) -> None:
        self.authorizer = Denying(*rights)
        self.harness = ControllerHarness().activate()
        self.harness.controller.features.kraft_version = 1
        self.harness.start_broker(1)
        self.metadata = MetadataCache()
        self.settings = Settings(self)
        channel = InProcessChannel(
            controller=self.harness.controller,
            handlers=ControllerHandlers(SERVED_TO_OWN_BROKER),
            authorizer=self.authorizer,
            own_context=lambda key, version: RequestContext(api_key=key, api_version=version),
        )
        self.broker = SimpleNamespace(
            broker_id=1,
            static_configs={},
            other_brokers=None,
            settings=BrokerSettings(),
            metadata=self.metadata,
            controller=channel,
            dynamic_settings=self.settings,
        )
        self.refresh()

    def refresh(self) -> None:
        self.metadata.image = self.harness.controller.committed_image

    def ask(self, request: Any, version: int | None = None) -> Any:
        key = ApiKey(request.API_KEY)
        version = SERVED_BY_BROKER[key][1] if version is None else version
        handler = TABLE.handler(key)
        dispatcher = RequestDispatcher(server=self.broker, handlers=TABLE, authorizer=self.authorizer, stats={})
        context = RequestContext(api_key=key, api_version=version, listener_name="PLAINTEXT")

        async def answer() -> Any:
            response = dispatcher.call(handler, request, context)
            if isinstance(response, Awaitable):
                waiting = asyncio.ensure_future(response)
                while not waiting.done():
                    await asyncio.sleep(0)
                    self.harness.controller.take_step()
                    self.harness.settle()
                response = await waiting
            return response

        response = asyncio.run(answer())
        self.refresh()
        return response

    def outcomes(self, request: Any) -> list[tuple[str, int]]:
        return [(response.resource_name, response.error_code) for response in self.ask(request).responses]


@pytest.fixture
def world() -> World:
    world = World(*RIGHTS)
    world.harness.create(topic("ok"))
    world.refresh()
    return world


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("barnabas.test.levels")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_a_broker_returns_kafkas_recorded_answers_too() -> None:
    world = World(*RIGHTS, "CLUSTER:CREATE", "CLUSTER:ALTER", "TOPIC:DESCRIBE", "TOPIC:ALTER", "TOPIC:DELETE")
    answers, different = recorded(), {}
    for name, request, version in requests_for_broker():
        response = world.ask(request, version)
        seen = comparable(type(response).decode(response.encode(version), version).to_json(version))
        if seen != comparable(answers["broker", name]) and ("broker", name) not in BETTER:
            different[name] = (comparable(answers["broker", name]), seen)
    assert different == {}


def test_results_have_the_order_of_the_request(world: World) -> None:
    request = alter(
        (BROKER, "1", ("log.cleaner.threads", SET, "2")),
        (TOPIC, "missing", ("retention.ms", SET, "5")),
        (7, "what"),
        (TOPIC, "ok", ("retention.ms", SET, "5")),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
        (BROKER, "", ("num.io.threads", SET, "4")),
    )
    assert world.outcomes(request) == [("1", 0), ("missing", 3), ("what", 42), ("ok", 0), ("g", 0), ("", 42)]
    assert world.metadata.image.configs.of_broker(1) == {"log.cleaner.threads": "2"}


def test_a_resource_named_twice_fails_both_times(world: World) -> None:
    twice = (TOPIC, "ok", ("retention.ms", SET, "5"))
    other = (CLIENT_METRICS, "m", ("interval.ms", SET, "5000"))
    assert world.outcomes(alter(twice, other, twice)) == [("ok", 42), ("m", 0), ("ok", 42)]


def test_broker_settings_are_checked_as_they_would_be_after_the_change(world: World) -> None:
    world.ask(alter((BROKER, "1", ("a.b", SET, "1"), ("c.d", SET, "2"))))
    world.ask(alter((BROKER, "1", ("a.b", DELETE, None), ("sasl.enabled.mechanisms", APPEND, "X"))))
    assert world.settings.checked[-1] == {"c.d": "2", "sasl.enabled.mechanisms": "GSSAPI,X"}
    world.ask(replace((BROKER, "1", ("e.f", "3"))))
    assert world.settings.checked[-1] == {"e.f": "3"}
    assert world.metadata.image.configs.of_broker(1) == {"e.f": "3"}


def test_a_likely_typo_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.ask(alter((BROKER, "", ("log.cleaner.backof.ms", SET, "hunter2"))))
    world.ask(alter((BROKER, "", ("log.cleaner.backof.ms", DELETE, None))))
    (record,) = caplog.records
    assert record.getMessage() == (
        "User:ANONYMOUS sets log.cleaner.backof.ms for all brokers: no such broker setting exists"
        " (did you mean log.cleaner.backoff.ms?)"
    )


def test_a_denied_alteration_of_client_metrics_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A client without the right used to write a line for each of 10,000 names, as often as it liked."""
    subscriptions = [(CLIENT_METRICS, f"m{number}", ("interval.ms", SET, "5000")) for number in range(300)]
    World().ask(alter(*subscriptions))
    assert [record for record in caplog.records if "client-metrics" in record.getMessage()] == []


def test_many_client_metrics_are_logged_in_one_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.ask(alter(*((CLIENT_METRICS, f"m{number}", ("interval.ms", SET, "5000")) for number in range(300))))
    assert [record.getMessage() for record in caplog.records] == [
        "User:ANONYMOUS alters the client-metrics subscription m0 and 299 more: it is stored, but barnabas brokers "
        "do not collect client metrics"
    ]


def test_thousands_of_unknown_settings_are_logged_in_a_few_lines(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.ask(alter((BROKER, "", *((f"odd.{number}", SET, "1") for number in range(5_000)))))
    assert len(caplog.records) == 11
    assert caplog.records[-1].getMessage() == "User:ANONYMOUS sets 4990 more unknown settings for all brokers"


@pytest.mark.parametrize("name", ["2", "x", "-1"])
def test_a_broker_changes_only_its_own_settings(world: World, name: str) -> None:
    assert world.outcomes(alter((BROKER, name, ("a.b", SET, "1")))) == [(name, 42)]


@pytest.mark.parametrize("kind", [BROKER, BROKER_LOGGER])
@pytest.mark.parametrize("name", ["1", "2", "x", ""])
@pytest.mark.parametrize("change", [("num.io.threads", SET, None), ("no.such.logger", 9, "x"), ("root", SET, "INFO")])
def test_a_denied_alteration_reveals_nothing_else(kind: int, name: str, change: Any) -> None:
    world = World()
    (result,) = world.ask(alter((kind, name, change))).responses
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert result.error_message == "User:ANONYMOUS lacks ALTER_CONFIGS on Cluster:kafka-cluster"


def test_log_levels_change_on_this_broker_and_are_not_stored(world: World, logger: logging.Logger) -> None:
    name = logger.name
    assert world.outcomes(alter((BROKER_LOGGER, "1", (name, SET, "DEBUG")))) == [("1", 0)]
    assert logger.level == logging.DEBUG
    assert world.outcomes(alter((BROKER_LOGGER, "1", (name, DELETE, None)))) == [("1", 0)]
    assert logger.level == logging.NOTSET
    assert list(world.metadata.image.configs.names(BROKER_LOGGER)) == []


def test_validating_log_levels_changes_nothing(world: World, logger: logging.Logger) -> None:
    assert world.outcomes(alter((BROKER_LOGGER, "1", (logger.name, SET, "TRACE")), validate_only=True)) == [("1", 0)]
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("no.such.logger", SET, "INFO"), 40),
        (("no.such.logger", DELETE, None), 40),
        (("barnabas.test.levels", SET, "info"), 40),
        (("barnabas.test.levels", SET, "OFF"), 40),
        (("barnabas.test.levels", SET, None), 42),
        (("barnabas.test.levels", APPEND, "INFO"), 42),
        (("root", DELETE, None), 42),
    ],
)
def test_invalid_changes_of_log_levels_are_refused(
    world: World, logger: logging.Logger, change: Any, code: int
) -> None:
    assert world.outcomes(alter((BROKER_LOGGER, "1", change))) == [("1", code)]


def test_all_mistakes_about_log_levels_are_reported_and_nothing_changes(world: World, logger: logging.Logger) -> None:
    changes = ((logger.name, SET, "DEBUG"), ("barnabas.test.level", SET, "INFO"), ("root", SET, "LOUD"))
    (result,) = world.ask(alter((BROKER_LOGGER, "1", *changes))).responses
    assert "Did you mean barnabas.test.levels?" in result.error_message
    assert "'LOUD' is not a level of root" in result.error_message
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize("name", ["", "2", "x"])
def test_log_levels_belong_to_this_broker(world: World, name: str) -> None:
    assert world.outcomes(alter((BROKER_LOGGER, name, ("root", SET, "INFO")))) == [(name, 42)]


def test_the_legacy_api_does_not_alter_log_levels(world: World) -> None:
    assert world.outcomes(replace((BROKER_LOGGER, "1", ("root", "INFO")))) == [("1", 42)]


def test_without_a_controller_forwarded_alterations_fail(world: World, logger: logging.Logger) -> None:
    world.harness.controller.deactivate()
    request = alter((BROKER_LOGGER, "1", (logger.name, SET, "ERROR")), (TOPIC, "ok", ("retention.ms", SET, "5")))
    assert world.outcomes(request) == [("1", 0), ("ok", ErrorCode.NOT_CONTROLLER)]


def listed(answer: Any) -> set[tuple[int, str]]:
    return {(resource.resource_type, resource.resource_name) for resource in answer.config_resources}


def test_config_resources_are_listed(world: World) -> None:
    world.ask(
        alter(
            (GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
            (CLIENT_METRICS, "m", ("interval.ms", SET, "5000")),
        )
    )
    everything = {(TOPIC, "ok"), (BROKER, "1"), (BROKER_LOGGER, "1"), (CLIENT_METRICS, "m"), (GROUP, "g")}
    assert listed(world.ask(ListConfigResourcesRequest())) == everything
    some = ListConfigResourcesRequest(resource_types=[GROUP, TOPIC, GROUP])
    assert listed(world.ask(some)) == {(GROUP, "g"), (TOPIC, "ok")}
    assert listed(world.ask(ListConfigResourcesRequest(), 0)) == {(CLIENT_METRICS, "m")}


def test_an_unknown_config_resource_type_is_not_supported(world: World) -> None:
    answer = world.ask(ListConfigResourcesRequest(resource_types=[TOPIC, 7]))
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
