"""Members of ours in one group on our own node, over sockets: they share work, leave fast, and survive a broker
restart."""

from __future__ import annotations

import asyncio
import time

import pytest

from barnabas.clients.client_config import client_config
from barnabas.clients.network_client import NetworkClient
from barnabas.connect.decide.backing_stores.config_state import ConfigState
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership_events import Lost, MembershipProblem
from barnabas.connect.run.group_client import GroupClient
from barnabas.testing import Node
from tests.interop.connect_member import ConnectMember
from tests.peers import free_ports

pytestmark = pytest.mark.interop

CONFIG = {"connector.class": "somewhere.Else"}
CLEAN_LEAVE_MAX_S = 3.0


def member(bootstrap: str, group: str, name: str) -> ConnectMember:
    return ConnectMember(bootstrap, f"http://{name}:8083/", group=group)


async def shared_by_two(first: ConnectMember, second: ConnectMember) -> None:
    await first.until(lambda: first.leader_url is not None, "a member")
    await first.configure("orders", CONFIG, *([CONFIG] * 3))
    await first.configure("flights", CONFIG, *([CONFIG] * 3))
    await first.until(lambda: len(first.running | second.running) == 8, "running everything")
    await first.until(lambda: len(first.running) == len(second.running) == 4, "sharing it")
    assert not first.running & second.running


def test_the_work_of_a_member_that_leaves_has_moved_within_three_seconds(barnabas_node: Node) -> None:
    async def scenario() -> float:
        async with (
            member(barnabas_node.bootstrap_servers, "members-that-leave", "one") as first,
            member(barnabas_node.bootstrap_servers, "members-that-leave", "two") as second,
        ):
            await shared_by_two(first, second)
            began = time.monotonic()
            await first.leave()  # Either may lead: the other one knows its assignment.
            await second.until(lambda: len(second.running) == 8, "running everything")
            return time.monotonic() - began

    assert asyncio.run(scenario()) < CLEAN_LEAVE_MAX_S


@pytest.mark.long
def test_members_outlive_a_restart_of_the_broker() -> None:
    async def scenario(node: Node) -> None:
        async with (
            member(node.bootstrap_servers, "restarts", "one") as first,
            member(node.bootstrap_servers, "restarts", "two") as second,
        ):
            await shared_by_two(first, second)
            await asyncio.to_thread(node.stop)
            await first.until(lambda: not first.running and not second.running, "stopped without a coordinator")
            assert [notice for notice in first.notices if isinstance(notice, Lost)]
            await asyncio.to_thread(node.start)
            await first.until(lambda: len(first.running) == len(second.running) == 4, "sharing it again")
            assert not first.running & second.running

    with Node() as node:
        asyncio.run(scenario(node))


def test_without_a_broker_the_member_logs_it_once_and_retries() -> None:
    async def scenario() -> None:
        bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
        notices: list[object] = []
        async with NetworkClient(client_config({"bootstrap.servers": bootstrap}, source="test")) as network:
            settings = GroupSettings("nowhere", "http://one:8083/")
            client = GroupClient(network, settings, snapshot=ConfigState().snapshot, on_notice=notices.append)
            client.start()
            await asyncio.sleep(0.5)
            await client.leave("the test is over")
            await client.close()
        (trouble,) = [notice for notice in notices if isinstance(notice, MembershipProblem)]
        assert "nothing listens at" in trouble.message

    asyncio.run(scenario())
