"""A broker's channel to the active controller: its own node's controller while that is active, else another."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.security.request_context import RequestContext
from barnabas.server.controller_channel.combined import CombinedChannel, network_channel
from barnabas.server.settings.node_config import node_config_of
from barnabas.server.settings.problem import Given

MINUTE_MS = 60_000
REQUEST = CreateTopicsRequest()
CONTEXT = RequestContext(api_key=ApiKey.CREATE_TOPICS, api_version=7)


class Way:
    """A channel, and the controller at its end."""

    def __init__(self, name: str, outcome: Any = None, *, is_active: bool = False) -> None:
        self.outcome = CreateTopicsResponse(topics=[CreatableTopicResult(name=name)]) if outcome is None else outcome
        self.is_active = is_active
        self.is_closed = False

    async def forward(self, request: Any, context: RequestContext) -> Any:
        return await self.send(request)

    async def send(self, request: Any) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def close(self) -> None:
        self.is_closed = True


def answering_controller(own: Way, *, is_alone: bool = False, remote: Way | None = None) -> str:
    """Return which controller answered."""

    def make_remote() -> Any:
        assert remote is not None, "no client is created while no other node could be the controller"
        return remote

    channel = CombinedChannel(cast(Any, own), cast(Any, own), is_alone=lambda: is_alone, make_remote=make_remote)

    async def run() -> tuple[Any, Any]:
        answers = await channel.forward(REQUEST, CONTEXT), await channel.send(REQUEST)
        await channel.close()
        return answers

    forwarded, sent = asyncio.run(run())
    assert forwarded == sent
    assert remote is None or remote.is_closed
    name: str = forwarded.topics[0].name
    return name


NOT_CONTROLLER = ApiException(ErrorCode.NOT_CONTROLLER, "lost")
LOST = CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=ErrorCode.NOT_CONTROLLER)])


def test_the_active_controller_of_the_same_process_receives_the_request() -> None:
    assert answering_controller(Way("own", is_active=True)) == "own"


def test_another_node_receives_the_request_while_this_one_is_a_standby() -> None:
    assert answering_controller(Way("own"), remote=Way("other")) == "other"


@pytest.mark.parametrize("outcome", [NOT_CONTROLLER, LOST], ids=["before", "while it decides"])
def test_a_controller_that_loses_leadership_leaves_the_request_to_the_next(outcome: Any) -> None:
    assert answering_controller(Way("own", outcome, is_active=True), remote=Way("other")) == "other"


def test_the_only_controller_answers_for_itself() -> None:
    with pytest.raises(ApiException, match="lost"):
        answering_controller(Way("own", NOT_CONTROLLER), is_alone=True)


def test_any_other_error_is_the_response() -> None:
    with pytest.raises(ApiException, match="denied"):
        answering_controller(Way("own", ApiException(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "denied"), is_active=True))


@pytest.mark.parametrize(("setting", "expected"), [("5000", 5_000), ("600000", MINUTE_MS)])
def test_the_time_of_an_attempt_is_limited_by_the_request_timeout(setting: str, expected: int) -> None:
    texts = {
        "process.roles": "broker",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": "data",
        "controller.socket.timeout.ms": setting,
    }
    config = node_config_of({name: Given(text, "a file") for name, text in texts.items()}, source="a file")
    core = SimpleNamespace(
        config=config, driver=None, clock=None, applied=SimpleNamespace(reach=None), on_leader_change=[]
    )
    channel = network_channel(cast(Any, core), lambda context: b"")
    assert channel._client.config.values["request.timeout.ms"] == expected
