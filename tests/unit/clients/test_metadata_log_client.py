"""The metadata log read from drivers in this process: nothing is sent, and the quorum does not learn of the reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.client_config import Address
from barnabas.clients.errors import Disconnected
from barnabas.clients.metadata_log_client import MetadataLogClient, NoLeader, NotAllowed
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.schema import Message
from barnabas.server.metadata_log.snapshots import MetadataSnapshots
from tests.unit.server.quorum.test_raft_exchange import FEATURE, Network, run, topic


def reader_of(network: Network, *, first: int = 1) -> MetadataLogClient:
    """``first`` is the node that is contacted before a leader is known."""

    async def ask(address: Address | None, request: Message) -> Any:
        node_id = first if address is None else int(address.host.removeprefix("host"))
        member = network.members.get(node_id)
        if member is None:
            raise Disconnected(f"{node_id} is not there")
        version = type(request).MAX_VERSION
        answer = await member.driver.handle_request(type(request).decode(request.encode(version), version), version)
        return type(answer).decode(answer.encode(version), version)

    return MetadataLogClient(ask, timeout_s=0.3)


def names(client: MetadataLogClient) -> list[str]:
    return sorted(client.image.topics.by_name.keys())


def test_the_log_is_read_and_later_continued_from_its_end(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        leader = network.start(1)
        await network.leader()
        await leader.driver.append([FEATURE, topic("a")])
        client = reader_of(network)
        await client.catch_up()
        assert names(client) == ["a"]
        await leader.driver.append([topic("b")])
        await client.catch_up()
        assert names(client) == ["a", "b"]
        assert client.image.offset + 1 == leader.driver.high_watermark

    run(tmp_path, [1], test)


def test_a_snapshot_is_read_first_and_then_the_log_after_it(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        leader = network.start(1)
        await network.leader()
        await leader.driver.append([FEATURE, topic("a")])
        await MetadataSnapshots(leader.driver).save(leader.loader.image)
        await leader.driver.append([topic("b")])
        client = reader_of(network)
        await client.catch_up()
        assert names(client) == ["a", "b"]

    run(tmp_path, [1], test)


def test_any_node_names_the_leader(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        for node_id in (1, 2, 3):
            network.start(node_id)
        leader = await network.leader()
        await leader.driver.append([FEATURE, topic("a")])
        follower = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
        client = reader_of(network, first=follower)
        await client.catch_up()
        assert names(client) == ["a"]

    run(tmp_path, [1, 2, 3], test)


def test_a_quorum_without_a_leader_causes_a_timeout(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        network.start(1)
        with pytest.raises(NoLeader):
            await reader_of(network).catch_up()

    run(tmp_path, [1, 2], test)


def test_a_denied_reader_learns_which_right_is_missing(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        async def ask(address: Address | None, request: Message) -> Any:
            return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        with pytest.raises(NotAllowed, match="CLUSTER_ACTION"):
            await MetadataLogClient(ask, timeout_s=1).catch_up()

    run(tmp_path, [1], test)
