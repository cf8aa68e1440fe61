"""A real Connect worker and a member of ours in one group: each leads the other in turn, and each moves work to the
other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.group.membership_events import ProtocolChanged
from barnabas.testing import Node
from tests.interop.connect_member import ConnectMember
from tests.peers import KafkaNode, free_ports
from tests.peers.connect_worker import ConnectWorker, worker_settings

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

GROUP = "shared-group"
CONNECTOR_CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
TASK_CLASS = "org.apache.kafka.connect.file.FileStreamSourceTask"
NAMES = ("first", "second")
EVERYTHING = {*NAMES, *(f"{name}-0" for name in NAMES)}
DELAY_MS = 2_000


def url() -> str:
    return f"http://127.0.0.1:{free_ports(1)[0]}/"


def connector(name: str, folder: Path) -> dict[str, str]:
    (folder / f"{name}.txt").touch()
    return {
        "name": name,
        "connector.class": CONNECTOR_CLASS,
        "tasks.max": "1",
        "file": str(folder / f"{name}.txt"),
        "topic": f"lines-of-{name}",
    }


def member(bootstrap: str, protocol: ProtocolVersion = ProtocolVersion.SESSIONED) -> ConnectMember:
    return ConnectMember(bootstrap, url(), group=GROUP, protocol=protocol, scheduled_rebalance_max_delay_ms=DELAY_MS)


async def until_runs(worker: ConnectWorker, wanted: set[str]) -> None:
    """Wait until the real worker runs these, according to the states that it wrote."""
    for task in sorted(wanted):
        await asyncio.to_thread(wait_for_state, worker, *task.partition("-")[::2])


def wait_for_state(worker: ConnectWorker, name: str, task: str) -> None:
    def runs(status: Any) -> bool:
        parts = [part for part in status["tasks"] if str(part["id"]) == task] if task else [status["connector"]]
        return [(part["state"], part["worker_id"]) for part in parts] == [("RUNNING", f"127.0.0.1:{worker.port}")]

    worker.until("GET", f"/connectors/{name}/status", runs)


async def ours_leads_then_theirs(bootstrap: str, folder: Path, *, switches: bool) -> None:
    """One real worker through all roles, because it takes seconds to start."""
    settings = {
        **worker_settings(bootstrap, GROUP),
        "scheduled.rebalance.max.delay.ms": str(DELAY_MS),
        "heartbeat.interval.ms": "300",  # It learns of a rebalance from its heartbeats.
    }
    java = ConnectWorker(folder / "java", settings)
    async with member(bootstrap) as ours:
        await ours.until(lambda: ours.leader_url is not None, "a member")
        for name in NAMES:
            config = connector(name, folder)
            await ours.configure(name, config, {**config, "task.class": TASK_CLASS})
        await ours.until(lambda: ours.running == EVERYTHING, "running everything alone")
        await asyncio.to_thread(java.start)
        try:
            await ours.until(lambda: len(ours.running) == 2, "half of it moved to the real worker")
            assert ours.client.membership.is_leader
            assert {name.partition("-")[2] for name in ours.running} == {"", "0"}, "a connector and a task each"
            await until_runs(java, EVERYTHING - ours.running)
            await ours.leave()
            await until_runs(java, EVERYTHING)
            await theirs_leads(bootstrap, java)
            if switches:
                await down_and_up_again(bootstrap, java)
        finally:
            await asyncio.to_thread(java.stop)


async def theirs_leads(bootstrap: str, java: ConnectWorker) -> None:
    async with member(bootstrap) as follower:
        await follower.until(lambda: len(follower.running) == 2, "given its share by the real worker")
        assert not follower.client.membership.is_leader
        assert follower.leader_url == f"{java.url}/"
        await until_runs(java, EVERYTHING - follower.running)
        await follower.leave()
    await until_runs(java, EVERYTHING)


async def down_and_up_again(bootstrap: str, java: ConnectWorker) -> None:
    """A member with an older protocol downgrades the whole group, and its departure reverts that."""
    async with member(bootstrap) as ours:
        membership = ours.client.membership
        await ours.until(lambda: len(ours.running) == 2, "a member")
        for older in (ProtocolVersion.COMPATIBLE, ProtocolVersion.EAGER):
            await beside_an_older_member(bootstrap, older, ours, java)
            await ours.until(lambda: membership.protocol is ProtocolVersion.SESSIONED, "sessioned again")
            await ours.until(lambda: len(ours.running) == 2 and membership.is_settled, "settled again")
        changes = [notice for notice in ours.notices if isinstance(notice, ProtocolChanged)]
        assert [change.now for change in changes] == [
            ProtocolVersion.COMPATIBLE,
            ProtocolVersion.SESSIONED,
            ProtocolVersion.EAGER,
            ProtocolVersion.SESSIONED,
        ]
        assert [change.is_warning for change in changes] == [True, False, True, False]
        await ours.leave()
    await until_runs(java, EVERYTHING)


async def beside_an_older_member(
    bootstrap: str, older: ProtocolVersion, ours: ConnectMember, java: ConnectWorker
) -> None:
    async with member(bootstrap, older) as other:
        membership, other_membership = ours.client.membership, other.client.membership
        await ours.until(lambda: membership.protocol is older and membership.is_settled, f"{older.name} now")
        await other.until(
            lambda: other_membership.is_settled and other_membership.generation == membership.generation,
            "settled with the others",
        )
        assert other_membership.protocol is older
        assert not ours.running & other.running
        await until_runs(java, EVERYTHING - ours.running - other.running)
        await other.leave()


def test_a_real_worker_follows_ours_and_leads_ours(kafka_peer: Path, barnabas_node: Node, tmp_path: Path) -> None:
    asyncio.run(ours_leads_then_theirs(barnabas_node.bootstrap_servers, tmp_path, switches=False))


@pytest.mark.long
def test_a_member_with_an_older_protocol_downgrades_both_kinds_on_a_real_broker(
    kafka_peer: Path, real_kafka: KafkaNode, tmp_path: Path
) -> None:
    asyncio.run(ours_leads_then_theirs(real_kafka.bootstrap_servers, tmp_path, switches=True))
