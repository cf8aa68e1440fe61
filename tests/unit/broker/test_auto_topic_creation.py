"""Creation of topics on demand: the requested values, and the handling of refusals by the controller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.broker.auto_topic_creation import AutoTopicCreation
from barnabas.broker.broker_settings import BrokerSettings
from barnabas.broker.internal_topics import InternalTopic
from barnabas.common.errors import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.security.request_context import RequestContext

CLIENT = RequestContext(api_key=ApiKey.METADATA, api_version=12, client_id="terminal")


class Controller:
    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.requests: list[CreateTopicsRequest] = []
        self.contexts: list[RequestContext] = []

    async def forward(self, request: Any, context: RequestContext) -> CreateTopicsResponse:
        self.requests.append(request)
        self.contexts.append(context)
        results = [CreatableTopicResult(name=topic.name, error_code=int(self.code)) for topic in request.topics]
        return CreateTopicsResponse(topics=results)

    send = forward


async def created(controller: Controller, **settings: Any) -> AutoTopicCreation:
    made: Any = controller
    creation = AutoTopicCreation(settings=BrokerSettings(**settings), controller=made)
    await creation.create_and_wait(["orders"], CLIENT)
    return creation


def test_counts_are_the_controllers_defaults_unless_set_on_this_broker() -> None:
    async def run() -> list[tuple[int, int]]:
        controller = Controller(ErrorCode.NONE)
        await created(controller)
        await created(controller, num_partitions=3, default_replication_factor=2)
        topics = [request.topics[0] for request in controller.requests]
        return [(topic.num_partitions, topic.replication_factor) for topic in topics]

    assert asyncio.run(run()) == [(-1, -1), (3, 2)]


SHARE_CONFIGS = {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"}


@pytest.mark.parametrize(
    ("name", "configs"),
    [
        ("__consumer_offsets", {"cleanup.policy": "compact", "compression.type": "producer"}),
        (
            "__transaction_state",
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
                "min.insync.replicas": "2",
            },
        ),
        ("__share_group_state", {**SHARE_CONFIGS, "min.insync.replicas": "2"}),
    ],
)
def test_an_internal_topic_has_kafkas_settings_and_is_created_as_the_client(name: str, configs: dict[str, str]) -> None:
    async def run() -> Controller:
        controller = Controller(ErrorCode.NONE)
        made: Any = controller
        shape = InternalTopic(7, 2, 1000, None if name == "__consumer_offsets" else 2)
        settings = BrokerSettings(num_partitions=1, default_replication_factor=1, internal_topics={name: shape})
        await AutoTopicCreation(settings=settings, controller=made).create_and_wait([name], CLIENT)
        return controller

    controller = asyncio.run(run())
    (topic,) = controller.requests[0].topics
    assert (topic.num_partitions, topic.replication_factor) == (7, 2)
    assert {config.name: config.value for config in topic.configs} == {**configs, "segment.bytes": "1000"}
    assert controller.contexts[0].client_id == CLIENT.client_id


@pytest.mark.parametrize(
    ("fails_fast", "code", "remembered"),
    [
        (True, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
        (True, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR),
        (True, ErrorCode.THROTTLING_QUOTA_EXCEEDED, None),
        (True, ErrorCode.NOT_CONTROLLER, None),
        (True, ErrorCode.TOPIC_ALREADY_EXISTS, None),
        (True, ErrorCode.NONE, None),
        (False, ErrorCode.POLICY_VIOLATION, None),
    ],
)
def test_the_reason_of_a_refusal_is_remembered_where_clients_shall_fail_fast(
    fails_fast: bool, code: ErrorCode, remembered: ErrorCode | None
) -> None:
    async def run() -> tuple[ErrorCode | None, ErrorCode | None]:
        creation = await created(Controller(code), autocreate_fails_fast=fails_fast)
        return creation.refusal_of("orders"), creation.refusal_of("another")

    assert asyncio.run(run()) == (remembered, None)


def test_a_refused_creation_is_retried_after_some_seconds() -> None:
    async def run() -> ErrorCode | None:
        creation = await created(Controller(ErrorCode.POLICY_VIOLATION), autocreate_fails_fast=True)
        loop = asyncio.get_running_loop()
        now = loop.time()
        loop.time = lambda: now + 6  # type: ignore[method-assign]
        try:
            return creation.refusal_of("orders")
        finally:
            del loop.time

    assert asyncio.run(run()) is None


def test_topics_that_cannot_be_created_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        creation = await created(Controller(ErrorCode.INVALID_REPLICATION_FACTOR))
        for number in range(200):
            await creation.create_and_wait(["orders", f"t{number}"], CLIENT)
        loop = asyncio.get_running_loop()
        later = loop.time() + 61
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(loop, "time", lambda: later)
            creation.create(["orders"], CLIENT)
            await creation._under_way["orders"]

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records]
    assert (
        sum(line.startswith("auto creation of topic orders failed: INVALID_REPLICATION_FACTOR") for line in lines) == 2
    )
    assert lines[20:] == [
        "auto creation failed 381 more times within a minute",
        "auto creation of topic orders failed: INVALID_REPLICATION_FACTOR ",
    ]
