"""Outgoing requests of the quorum: which outcome the driver receives, for any fate of the connection."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.clients.client_config import Address
from barnabas.clients.errors import ConnectFailed, Disconnected, UnsupportedVersion
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.messages.vote import VoteRequest, VoteResponse
from barnabas.raft.inbound import RaftResponse, RequestFailed
from barnabas.raft.ready import OutboundRequest
from barnabas.raft.voter_set import Endpoint
from barnabas.server.quorum.raft_channel import RaftChannel
from barnabas.server.settings.node_config import NodeConfig, load_node_config

Outcome = RaftResponse | RequestFailed


class ScriptedClient:
    """Connects to any address; each request is answered by ``answer``."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer
        self.addresses: list[Address] = []

    async def connection_to(self, address: Address) -> ScriptedClient:
        self.addresses.append(address)
        return self

    async def request(self, message: Any, *, timeout_s: float) -> Any:
        return self.answer()

    async def close(self) -> None: ...


def config() -> NodeConfig:
    return load_node_config(None)


def outcomes(*answers: Callable[[], Any]) -> list[Outcome]:
    """Return the outcomes that the driver receives for the requests, in order."""

    async def run() -> list[Outcome]:
        arriving: asyncio.Queue[Outcome] = asyncio.Queue()
        outcomes: list[Outcome] = []
        channel = RaftChannel(config(), arriving.put_nowait)
        for number, answer in enumerate(answers):
            channel._client = ScriptedClient(answer)  # type: ignore[assignment]
            channel.send(
                OutboundRequest(
                    correlation_id=number,
                    destination_id=2,
                    endpoint=Endpoint("host2", 9093),
                    body=VoteRequest(),
                    timeout_ms=1000,
                )
            )
            outcomes.append(await arriving.get())
        await channel.close()
        return outcomes

    return asyncio.run(run())


def failing(error: Exception, cause: Exception | None = None) -> Callable[[], Any]:
    def fail() -> Any:
        raise error from cause

    return fail


def test_a_response_has_the_id_of_its_request() -> None:
    [answer] = outcomes(VoteResponse)
    assert isinstance(answer, RaftResponse)
    assert (answer.correlation_id, answer.source_id, type(answer.body)) == (0, 2, VoteResponse)


@pytest.mark.parametrize(
    ("error", "cause", "is_refused"),
    [
        (Disconnected("gone"), None, False),
        (ConnectFailed("too slow"), TimeoutError(), False),
        (ConnectFailed("refused"), ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), True),
        (
            ConnectFailed("refused"),
            OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect call failed"),
            True,
        ),
        (
            ConnectFailed("one of both"),
            OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 113] No route to host"),
            False,
        ),
    ],
)
def test_a_failure_reports_whether_the_port_is_closed(
    error: Exception, cause: Exception | None, is_refused: bool
) -> None:
    [failure] = outcomes(failing(error, cause))
    assert isinstance(failure, RequestFailed)
    assert (failure.is_refused, failure.is_unsupported_version) == (is_refused, False)


@pytest.mark.parametrize("error", [UnsupportedVersion("old"), EncodeError("a field that old versions lack")])
def test_a_peer_that_is_too_old_is_not_a_broken_connection(error: Exception) -> None:
    [failure] = outcomes(failing(error))
    assert isinstance(failure, RequestFailed)
    assert failure.is_unsupported_version


def test_an_unreachable_controller_and_its_return_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    gone = failing(Disconnected("gone"))
    with caplog.at_level(logging.INFO):
        outcomes(gone, gone, gone, VoteResponse, VoteResponse)
    assert [record.message for record in caplog.records if record.name.endswith("raft_channel")] == [
        "the controller at host2:9093 can't be reached: gone",
        "the controller at host2:9093 answers again",
    ]
