"""An operator's policies: their input, the errors that callers receive, and that no policy harms the controller."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.policies import AlterConfigPolicy, CreateTopicPolicy, NewTopic, PolicyResource, PolicyViolation
from barnabas.controller.sensitive_configs import config_record
from barnabas.metadata.image.configs import ConfigResource
from barnabas.network.api_handler import Access
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.request_context import RequestContext
from barnabas.server.controller.api_handlers import SERVED_TO_OWN_BROKER, ControllerHandlers
from barnabas.server.controller.policy_worker import Policies, PolicyWorker, policies_of
from barnabas.server.settings.node_config import InvalidSettings
from barnabas.server.settings.policy_classes import ALTER_POLICY, CREATE_POLICY, PolicyProblem, load_policy
from tests.peers.admin_requests import BROKER, DELETE, SET, TOPIC, alter, create, new_topic, replace
from tests.unit.controller.controller_harness import ControllerHarness
from tests.unit.server.settings.test_dynamic_broker_config import config_of

LONG_MS = 60_000


class NoSmallTopics(CreateTopicPolicy):
    def __init__(self) -> None:
        self.seen: list[NewTopic] = []

    def validate(self, topic: NewTopic) -> None:
        self.seen.append(topic)
        if topic.num_partitions == 1:
            raise PolicyViolation(f"{topic.name} needs at least two partitions")


class OnlyShortRetention(AlterConfigPolicy):
    def __init__(self) -> None:
        self.seen: list[tuple[PolicyResource, Mapping[str, str | None], Mapping[str, str], str]] = []
        self.before: Callable[[], None] = lambda: None

    def validate(  # type: ignore[override]
        self,
        resource: PolicyResource,
        configs: Mapping[str, str | None],
        *,
        existing_configs: Mapping[str, str],
        principal: str,
    ) -> None:
        self.before()
        self.seen.append((resource, configs, existing_configs, principal))
        if int(configs.get("retention.ms") or 0) > 100:
            raise PolicyViolation("nothing is kept for so long here")


class World:
    """A controller and its handlers, with policies."""

    def __init__(self, *, create: Any = None, alter: Any = None, timeout_ms: int = LONG_MS) -> None:
        self.policies = Policies(
            create=None if create is None else PolicyWorker(CREATE_POLICY, create, timeout_ms=timeout_ms),
            alter=None if alter is None else PolicyWorker(ALTER_POLICY, alter, timeout_ms=timeout_ms),
        )
        self.harness = ControllerHarness(
            create_topic_policy=self.policies.gate if create is not None else None,
            alter_config_policy=self.policies.gate if alter is not None else None,
        ).activate()
        self.harness.start_broker(1)
        self.handlers = ControllerHandlers(SERVED_TO_OWN_BROKER, self.policies)

    async def ask(self, request: Any) -> Any:
        key = ApiKey(request.API_KEY)
        version = SERVED_TO_OWN_BROKER[key][1]
        handler = self.handlers.handler(key)
        context = RequestContext(api_key=key, api_version=version)
        access = Access(AllowAllAuthorizer(), context, handler.acl)
        waiting = asyncio.ensure_future(handler.function(self.harness.controller, request, access))
        while not waiting.done():
            await asyncio.sleep(0)
            self.harness.settle()
        return waiting.result()

    def codes(self, request: Any) -> list[tuple[str, int]]:
        answer = asyncio.run(self.ask(request))
        if isinstance(request, type(create())):
            return [(topic.name, topic.error_code) for topic in answer.topics]
        return [(response.resource_name, response.error_code) for response in answer.responses]

    @property
    def topics(self) -> set[str]:
        return set(self.harness.controller.committed_image.topics.by_name)

    def configs(self, topic: str) -> Mapping[str, str]:
        return self.harness.controller.committed_image.configs.of_topic(topic)


def test_a_policy_refuses_single_topics_and_is_called_once_for_each() -> None:
    policy = NoSmallTopics()
    world = World(create=policy)
    answer = asyncio.run(world.ask(create(new_topic("small"), new_topic("big", 2), new_topic("bad name", 2))))
    by_name = {topic.name: topic for topic in answer.topics}
    assert (by_name["small"].error_code, by_name["small"].error_message) == (44, "small needs at least two partitions")
    assert (by_name["big"].error_code, by_name["bad name"].error_code) == (0, 17)
    assert world.topics == {"big"}
    assert policy.seen == [NewTopic("small", 1, 1, None, {}), NewTopic("big", 2, 1, None, {})]


def test_a_policy_receives_the_change_the_current_configs_and_the_principal() -> None:
    policy = OnlyShortRetention()
    world = World(alter=policy)
    assert world.codes(create(new_topic("t", configs=[("retention.bytes", "5")]))) == [("t", 0)]
    topic = PolicyResource("TOPIC", "t")
    assert policy.seen == [(topic, {"retention.bytes": "5"}, {}, "User:ANONYMOUS")]
    assert world.codes(alter((TOPIC, "t", ("retention.ms", SET, "500"), ("no.such", DELETE, None)))) == [("t", 44)]
    assert policy.seen[1][1:3] == ({"retention.ms": "500", "no.such": None}, {"retention.bytes": "5"})
    assert world.codes(replace((TOPIC, "t", ("retention.ms", "5")))) == [("t", 0)]
    assert policy.seen[2][1] == {"retention.ms": "5", "retention.bytes": None}
    assert world.configs("t") == {"retention.ms": "5"}
    assert world.codes(alter((BROKER, "", ("log.retention.ms", SET, "5")))) == [("", 0)]
    assert policy.seen[3][0] == PolicyResource("BROKER", "")


def test_both_policies_decide_about_a_new_topic() -> None:
    world = World(create=NoSmallTopics(), alter=OnlyShortRetention())
    long: list[tuple[str, str | None]] = [("retention.ms", "500")]
    short: list[tuple[str, str | None]] = [("retention.ms", "5")]
    request = create(
        new_topic("a", 1, configs=short), new_topic("b", 2, configs=long), new_topic("c", 2, configs=short)
    )
    assert dict(world.codes(request)) == {"a": 44, "b": 44, "c": 0}
    assert world.topics == {"c"}


def test_policies_are_called_for_validate_only_requests() -> None:
    world = World(create=NoSmallTopics(), alter=OnlyShortRetention())
    assert world.codes(create(new_topic("a"), validate_only=True)) == [("a", 44)]
    assert world.codes(create(new_topic("b", 2))) == [("b", 0)]
    assert world.codes(alter((TOPIC, "b", ("retention.ms", SET, "500")), validate_only=True)) == [("b", 44)]
    assert world.codes(alter((TOPIC, "b", ("retention.ms", SET, "5")), validate_only=True)) == [("b", 0)]
    assert (world.topics, dict(world.configs("b"))) == ({"b"}, {})


def test_a_change_during_the_policy_call_causes_another_call() -> None:
    policy = OnlyShortRetention()
    world = World(alter=policy)
    world.codes(create(new_topic("t")))
    is_called, may_go_on = threading.Event(), threading.Event()

    def before() -> None:
        if not policy.seen:
            is_called.set()
            may_go_on.wait(10)

    policy.before = before

    async def both() -> list[Any]:
        change = asyncio.ensure_future(world.ask(alter((TOPIC, "t", ("retention.ms", SET, "5")))))
        await asyncio.get_running_loop().run_in_executor(None, is_called.wait, 10)
        # Another request changes the topic, without the policy.
        record = config_record(ConfigResource.topic("t"), "retention.bytes", "9")
        world.harness.controller.submit(lambda: ControllerResult([record], None), lambda error: None)
        may_go_on.set()
        return [await change]

    (answer,) = asyncio.run(both())
    assert answer.responses[0].error_code == 0
    assert [existing for _, _, existing, _ in policy.seen] == [{}, {"retention.bytes": "9"}]


@pytest.mark.parametrize("raised", [RuntimeError("secret text"), SystemExit(3), KeyboardInterrupt()])
def test_an_exception_of_a_policy_fails_only_the_change(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(CreateTopicPolicy):
        def validate(self, topic: NewTopic) -> None:
            if topic.name == "a":
                raise raised

    world = World(create=Broken())
    answer = asyncio.run(world.ask(create(new_topic("a"), new_topic("b"))))
    outcomes = {topic.name: (topic.error_code, topic.error_message) for topic in answer.topics}
    text = "The policy of create.topic.policy.class.name failed; the controller's log says why."
    assert outcomes == {"a": (-1, text), "b": (0, None)}
    assert world.harness.controller.is_active
    assert world.policies.create is not None
    assert world.policies.create.failed == 1
    assert "the policy of create.topic.policy.class.name failed" in caplog.text


def test_other_kafka_errors_are_passed_on() -> None:
    class Careful(CreateTopicPolicy):
        def validate(self, topic: NewTopic) -> None:
            raise ApiException(ErrorCode.INVALID_REPLICATION_FACTOR, "three, please")

    assert World(create=Careful()).codes(create(new_topic("a"))) == [("a", 38)]


class Hanging(CreateTopicPolicy):
    def __init__(self) -> None:
        self.called = threading.Event()
        self.goes_on = threading.Event()

    def validate(self, topic: NewTopic) -> None:
        self.called.set()
        if topic.name == "hangs":
            self.goes_on.wait(30)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    policy = Hanging()
    yield policy
    policy.goes_on.set()


def test_a_policy_that_hangs_refuses_everything_until_it_answers(
    hanging: Hanging, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(create=hanging, timeout_ms=20)
    worker = world.policies.create
    assert worker is not None

    async def scenario() -> None:
        first = await world.ask(create(new_topic("hangs")))
        assert (first.topics[0].error_code, world.topics) == (44, set())
        assert "did not answer within 0.02 s" in first.topics[0].error_message
        assert "changes are refused until it does" in caplog.text
        hanging.called.clear()
        second = await world.ask(create(new_topic("other")))
        assert second.topics[0].error_code == 44
        assert "changes are refused until it does" in second.topics[0].error_message
        assert not hanging.called.is_set()
        assert (worker.is_hanging, worker.timed_out, worker.refused) == (True, 1, 2)
        hanging.goes_on.set()
        for _ in range(100_000):
            if not worker.is_hanging:
                break
            await asyncio.sleep(0)
        monkeypatch.setattr(worker, "_timeout_s", 20)  # A busy machine may need more than 20 ms for this answer.
        third = await world.ask(create(new_topic("other")))
        assert third.topics[0].error_code == 0

    asyncio.run(scenario())
    assert world.harness.controller.is_active
    assert "answers again" in caplog.text


def test_the_queue_of_a_policy_is_short(hanging: Hanging) -> None:
    world = World(create=hanging)

    async def scenario() -> list[int]:
        requests = [create(new_topic("hangs"))] + [create(new_topic(f"t{i}")) for i in range(70)]
        tasks = [asyncio.ensure_future(world.ask(request)) for request in requests]
        for _ in range(200):
            await asyncio.sleep(0)
        busy = sum(task.done() for task in tasks)
        hanging.goes_on.set()
        await asyncio.gather(*tasks)
        return [busy, sum(task.result().topics[0].error_code == 44 for task in tasks)]

    assert asyncio.run(scenario()) == [7, 7]


def test_a_standby_controller_calls_no_policy() -> None:
    policy = NoSmallTopics()
    world = World(create=policy)
    world.harness.controller.deactivate()
    assert world.codes(create(new_topic("a"))) == [("a", ErrorCode.NOT_CONTROLLER)]
    assert policy.seen == []


# Loading


class Unloadable(CreateTopicPolicy):
    def __init__(self) -> None:
        raise OSError("no licence")


class Configured(CreateTopicPolicy):
    configs: Mapping[str, str] = {}
    closed = 0

    def configure(self, configs: Mapping[str, str]) -> None:
        Configured.configs = configs

    def close(self) -> None:
        Configured.closed += 1


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    module = ModuleType("policies_of_a_test")
    for found in (NoSmallTopics, OnlyShortRetention, Unloadable, Configured):
        setattr(module, found.__name__, found)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


def test_a_policy_is_configured_without_secrets_and_closed(module: str) -> None:
    config = config_of(
        create_topic_policy_class_name=f"{module}:Configured",
        num_partitions="3",
        delegation_token_secret_key="hidden",
    )
    policies = policies_of(config)
    assert policies is not None
    assert (policies.alter, Configured.configs["num.partitions"]) == (None, "3")
    assert "delegation.token.secret.key" not in Configured.configs
    policies.close()
    assert Configured.closed == 1


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("org.example.Policy", "is a Java class"),
        ("no_such_module:Policy", "can't be loaded: ModuleNotFoundError"),
        ("{}:Missing", "can't be loaded: AttributeError"),
        ("{}:OnlyShortRetention", "is not a CreateTopicPolicy"),
        ("{}:Unloadable", "can't be loaded: OSError: no licence"),
    ],
)
def test_a_policy_that_cannot_be_loaded_stops_the_start(module: str, name: str, what: str) -> None:
    with pytest.raises(PolicyProblem, match=what):
        load_policy(CREATE_POLICY, name.format(module))
    with pytest.raises(InvalidSettings, match=what):
        config_of(create_topic_policy_class_name=name.format(module))


def test_the_name_in_the_kip_is_accepted_with_a_warning(module: str) -> None:
    config = config_of(alter_configs_policy_class_name=f"{module}:OnlyShortRetention")
    assert config.alter_config_policy_class_name == f"{module}:OnlyShortRetention"
    assert any("alter.configs.policy.class.name is treated as" in warning for warning in config.warnings)
    with pytest.raises(InvalidSettings, match=r"alter\.config\.policy\.class\.name is set too"):
        config_of(
            alter_configs_policy_class_name=f"{module}:OnlyShortRetention",
            alter_config_policy_class_name=f"{module}:OnlyShortRetention",
        )


def test_without_a_policy_no_thread_is_used() -> None:
    assert policies_of(config_of()) is None
