"""Fetches of followers while their partition is throttled on the leader (KIP-73)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from barnabas.broker.replication.replication_quota import ReplicationQuota
from tests.unit.broker.apis.replicated_broker import TOPIC, ReplicatedBroker
from tests.unit.broker.apis.test_replicated_partitions import Follower, run_scenario, turn
from tests.unit.broker.replication.leader import registration

LIMIT = 1000


def throttle(world: ReplicatedBroker) -> ReplicationQuota:
    quota = world.leader_quota
    quota.throttle(TOPIC, ["0:1"], 1)
    quota.limit = LIMIT
    return quota


async def commit(world: ReplicatedBroker, in_sync: Follower) -> None:
    """Append a hundred records, so that a follower without any of them can't be in sync."""
    world.append(100)
    await in_sync.fetch(0)
    await in_sync.fetch(100)
    assert world.partition.log.high_watermark == 100


def test_a_lagging_follower_is_throttled_and_an_in_sync_follower_is_not(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        lags, in_sync = Follower(world, 3), Follower(world, 2)
        await commit(world, in_sync)
        quota = throttle(world)
        first = await lags.fetch(0)
        assert first is not None
        assert first.records
        assert quota.throttled_bytes == len(first.records)
        held = await lags.fetch(0)
        assert held is None or not held.records
        world.append(100)
        fetched = await in_sync.fetch(100)
        assert fetched is not None
        assert fetched.records  # It counts towards the rate, and is not held back.
        assert quota.throttled_bytes == len(first.records) + len(fetched.records)
        while wait_ms := quota.wait_ms(world.clock.ms):
            world.clock.ms += wait_ms
        again = await lags.fetch(0)
        assert again is not None
        assert again.records

    run_scenario(tmp_path, scenario, registration(1, 2))


def test_new_data_does_not_end_the_wait_of_a_throttled_follower(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        lags = Follower(world, 3)
        await commit(world, Follower(world, 2))
        quota = throttle(world)
        await lags.fetch(0)
        quota.record(50 * LIMIT, world.clock.ms)
        waiting = asyncio.ensure_future(lags.fetch(0, max_wait_ms=100))
        await turn()
        world.append(1)
        await turn()
        assert not waiting.done()
        held = await waiting
        assert held is None or not held.records

    run_scenario(tmp_path, scenario, registration(1, 2))
