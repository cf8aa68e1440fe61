"""Reads of a coordinator's state next to the fetches of its followers, 2 and 3, in their sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker import coordinator_reads
from barnabas.broker.apis.fetch import handle_fetch
from barnabas.broker.coordinator_reads import CoordinatorReads
from barnabas.broker.session_lease import SessionLease
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from tests.unit.broker.apis.replicated_broker import TOPIC_ID, ReplicatedBroker
from tests.unit.broker.replication.leader import EPOCHS, registration

LONG_MS = 60_000


class World(ReplicatedBroker):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.append()
        self.lease = SessionLease(9.0)
        self.heartbeats = 0
        self.reads = CoordinatorReads(self.lease, self.replicas.read_rounds, hurry_heartbeat=self._hurry)
        self._sessions: dict[int, tuple[int, int]] = {}

    def _hurry(self) -> None:
        self.heartbeats += 1

    async def fetch(self, follower: int, *, leader_epoch: int | None = None, wait_ms: int = LONG_MS) -> FetchResponse:
        """Send the next request of its session. It names the partition in the first one, or with a ``leader_epoch``."""
        session_id, epoch = self._sessions.get(follower, (0, 0))
        fetch_partition = FetchPartition(
            partition=0, fetch_offset=1, current_leader_epoch=leader_epoch or 5, partition_max_bytes=1000
        )
        names = epoch == 0 or leader_epoch is not None
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=follower, replica_epoch=EPOCHS[follower]),
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[fetch_partition])] if names else [],
        )
        response: FetchResponse = await self.ask(handle_fetch, request, 17)
        assert response.error_code == 0
        self._sessions[follower] = (response.session_id, epoch + 1)
        return response

    def read(self) -> asyncio.Task[set[int]]:
        leader = self.partition.leader_replica
        assert leader is not None
        return asyncio.get_running_loop().create_task(self.reads.confirm({7: leader}))


def run_scenario(tmp_path: Path, scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World(tmp_path)
        try:
            async with asyncio.timeout(20):
                await scenario(world)
        finally:
            world.close()

    asyncio.run(main())


def begin(work: Coroutine[Any, Any, FetchResponse]) -> asyncio.Task[FetchResponse]:
    return asyncio.get_running_loop().create_task(work)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_waiting_followers_are_answered_and_confirm_with_their_next_fetch(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        for follower in (2, 3):
            await world.fetch(follower, wait_ms=0)
        parked = [begin(world.fetch(follower)) for follower in (2, 3)]
        await settle()
        read = world.read()
        await asyncio.gather(*parked)  # Nothing was written: the read causes these responses.
        assert not read.done()
        parked = [begin(world.fetch(follower)) for follower in (2, 3)]
        assert await read == set()
        await settle()
        assert not any(fetch_task.done() for fetch_task in parked)
        assert not world.replicas.read_rounds.is_awaited
        for fetch_task in parked:
            fetch_task.cancel()

    run_scenario(tmp_path, scenario)


def test_a_fetch_that_arrives_while_a_read_waits_is_answered_immediately(
    tmp_path: Path,
) -> None:
    async def scenario(world: World) -> None:
        for follower in (2, 3):
            await world.fetch(follower, wait_ms=0)
        read = world.read()
        await settle()
        for follower in (2, 3):
            await world.fetch(follower)
        await settle()
        assert not read.done()
        parked = [begin(world.fetch(follower)) for follower in (2, 3)]
        assert await read == set()
        for fetch_task in parked:
            fetch_task.cancel()

    run_scenario(tmp_path, scenario)


def test_a_fetch_with_another_leader_epoch_confirms_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_reads, "_TIMEOUT_S", 0.05)

    async def scenario(world: World) -> None:
        for follower in (2, 3):
            await world.fetch(follower, wait_ms=0)
        read = world.read()
        await settle()
        for _ in range(3):
            await world.fetch(2, wait_ms=0)
            response = await world.fetch(3, leader_epoch=6, wait_ms=0)
            assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await read == {7}

    run_scenario(tmp_path, scenario)


def test_a_read_ends_when_the_lease_holds_again_or_leadership_ends(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        now_s = asyncio.get_running_loop().time()
        first = world.read()
        await settle()
        assert world.heartbeats == 1
        assert not world.reads.are_safe
        world.lease.renewed(sent_s=now_s, answered_s=now_s)
        await settle()
        assert not first.done()
        world.lease.caught_up(world.lease.session)
        assert await first == set()
        assert world.reads.are_safe
        world.lease.fenced()
        second = world.read()
        await settle()
        world.follow(registration(leader=2, leader_epoch=6, partition_epoch=11))
        world.reads.recheck()
        assert await second == {7}

    run_scenario(tmp_path, scenario)


def test_many_reads_hasten_few_heartbeats_and_are_refused_when_the_broker_stops(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        reads = [world.read() for _ in range(50)]
        await settle()
        assert world.heartbeats == 1
        world.reads.stop()
        assert await asyncio.gather(*reads) == [{7}] * 50

    run_scenario(tmp_path, scenario)
