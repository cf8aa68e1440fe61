from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.backing_stores.config_records import task_commit_record, task_record
from barnabas.connect.decide.herder.autoscaling import Autoscaling
from barnabas.connect.decide.lag.consumer_lag import GroupLag, PartitionLag, SinkGroup
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.run.sink_lags import SinkLags
from tests.unit.connect.decide.herder.herder_driver import SINK, SOURCE, HerderDriver, connector, started

TASK = ConnectorTaskId("sink", 0)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeLags:
    def __init__(self) -> None:
        self.asked: list[Mapping[str, SinkGroup]] = []
        self.rows: list[PartitionLag] = []
        self.problem = ""

    async def lags(self, groups: Mapping[str, SinkGroup]) -> Mapping[str, GroupLag]:
        self.asked.append(groups)
        return {name: GroupLag(tuple(self.rows), self.problem) for name in groups}


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []

    def observe(self: Any, name: str, partitions: Any, *, position: int, end: int, may_skip: bool) -> None:
        found.append((name, partitions, position, end, may_skip))

    monkeypatch.setattr(Autoscaling, "observe", observe)
    return found


@pytest.fixture
def driver() -> HerderDriver:
    """Return the driver of a worker with a sink that reads two partitions, and with a source."""
    driver = started()
    connector(driver, "sink", config={**SINK, "consumer.override.group.id": "readers"})
    driver.written(task_record(TASK, {TASK_PARTITIONS: '{"t":[0,1]}'}), task_commit_record("sink", 1))
    connector(driver, "source", tasks=1, config=SOURCE)
    driver.hold("generate_task_configs")
    driver.member("sink", TASK, "source")
    return driver


def sample(driver: HerderDriver, source: FakeLags, reset: str = "earliest") -> SinkLags:
    lags = SinkLags(driver.herder, source, reset)
    asyncio.run(lags.sample())
    return lags


def test_only_sinks_with_partitions_are_sampled(driver: HerderDriver, observed: list[tuple[Any, ...]]) -> None:
    source = FakeLags()
    source.rows = [PartitionLag("t", 0, 5, 10), PartitionLag("t", 1, 7, 10), PartitionLag("former", 0, 1, 9)]
    lags = sample(driver, source)
    assert source.asked == [{"sink": SinkGroup("readers", frozenset({T0, T1}), "earliest")}]
    assert observed == [("sink", frozenset({T0, T1}), 12, 20, False)]
    assert lags.lags == {"sink": 16}


def test_an_unknown_lag_is_no_sample(driver: HerderDriver, observed: list[tuple[Any, ...]]) -> None:
    source = FakeLags()
    source.problem = "no broker answered in time"
    assert sample(driver, source).lags == {}
    source.problem, source.rows = "", [PartitionLag("t", 0, 5, 10)]  # The other partition is being deleted.
    sample(driver, source)
    assert observed == []


def test_records_that_a_restart_would_skip_are_noticed(driver: HerderDriver, observed: list[tuple[Any, ...]]) -> None:
    source = FakeLags()
    source.rows = [PartitionLag("t", 0, 5, 10), PartitionLag("t", 1, 10, 10, is_committed=False)]
    sample(driver, source, "latest")
    sample(driver, source, "earliest")
    assert [may_skip for *_, may_skip in observed] == [True, False]


@pytest.mark.parametrize(
    "settings",
    [
        {"consumer.override.bootstrap.servers": "other:9092"},
        {"consumer.override.group.id": "${file:/etc/groups.properties:readers}"},
    ],
)
def test_a_group_that_this_cluster_does_not_know_is_not_requested(
    driver: HerderDriver, observed: list[tuple[Any, ...]], settings: dict[str, str]
) -> None:
    connector(driver, "sink", config={**SINK, **settings})
    source = FakeLags()
    source.rows = [PartitionLag("t", 0, 5, 10), PartitionLag("t", 1, 7, 10)]
    assert (sample(driver, source).lags, observed) == ({}, [])
    assert all(groups == {} for groups in source.asked)


def test_sampling_continues_after_an_error(driver: HerderDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.connect.run.sink_lags._INTERVAL_S", 0.01)
    asked = 0

    class Defective:
        async def lags(self, groups: Mapping[str, SinkGroup]) -> Mapping[str, GroupLag]:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise RuntimeError("a defect")
            again.set()
            return {}

    async def story() -> None:
        lags = SinkLags(driver.herder, Defective(), "earliest")
        lags.begin()
        async with asyncio.timeout(5):
            await again.wait()
        await lags.close()

    again = asyncio.Event()
    asyncio.run(story())
