"""Data of the console: rates, lags of groups, cached answers, and the group of a sink."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.admin.errors import admin_error
from barnabas.clients.admin.group_offsets import OffsetAndMetadata
from barnabas.clients.admin.partitions import ListedOffset, OffsetSpec
from barnabas.clients.admin.results import Results
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.lag.consumer_lag import GroupLag, PartitionLag, SinkGroup
from barnabas.connect.decide.lag.sink_groups import group_of, partitions_of
from barnabas.connect.decide.lag.throughput import Rates
from barnabas.connect.entities import ConnectorInfo
from barnabas.connect.identifiers import ConnectorType
from barnabas.connect.rest.console.answer_cache import AnswerCache
from barnabas.connect.rest.console.views import Failure
from barnabas.connect.run.admin_lags import AdminLags


@given(st.integers(0, 10**6), st.integers(1, 1000), st.integers(2, 60))
def test_a_counter_that_grows_evenly_has_that_rate(begin: int, step: int, looks: int) -> None:
    rates = Rates()
    found = [rates.observe("c", begin + second * step, float(second)) for second in range(looks)]
    assert found[0] is None
    assert found[1:] == pytest.approx([step] * (looks - 1))


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 10**9)), max_size=40))
def test_no_rate_is_negative_however_a_counter_jumps(looks: list[tuple[float, int]]) -> None:
    rates, now_s = Rates(), 0.0
    for passed_s, total in looks:
        now_s += passed_s
        rate = rates.observe("c", total, now_s)
        assert rate is None or rate >= 0


def test_a_rate_covers_the_last_half_minute() -> None:
    rates = Rates()
    rates.observe("c", 0, 0.0)
    assert rates.observe("c", 3_600_000, 3600.0) is None
    assert rates.observe("c", 3_600_010, 3605.0) == 2


@pytest.mark.anyio
async def test_slow_requests_run_once_at_a_time() -> None:
    now_s, requests, go = 0.0, 0, asyncio.Event()

    async def request() -> int:
        nonlocal requests
        requests += 1
        await go.wait()
        return requests

    remembered: AnswerCache[int] = AnswerCache(lambda: now_s, wait_s=0.01)
    assert [await remembered.get("k", request), await remembered.get("k", request)] == [None, None]
    go.set()
    assert await remembered.get("k", request) == 1
    assert await remembered.get("k", request) == 1
    now_s = 2.5
    assert await remembered.get("k", request) == 2
    assert requests == 2


@pytest.mark.anyio
async def test_the_last_answer_is_kept_when_a_request_fails(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0

    async def answer() -> int:
        return 5

    async def fail() -> int:
        raise OSError("no")

    remembered: AnswerCache[int] = AnswerCache(lambda: now_s)
    await remembered.get("k", answer)
    now_s = 10.0
    assert await remembered.get("k", fail) == 5
    assert "failed to read data for a page" in caplog.text


class _Admin:
    """``groups`` has an ErrorCode for a group that can't be read."""

    def __init__(self, groups: Mapping[str, Mapping[TopicPartition, int] | ErrorCode]) -> None:
        self.groups = groups
        self.ends = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 100}
        self.first = {TopicPartition("t", 0): 30, TopicPartition("t", 1): 20}
        self.failure: Exception | None = None

    async def list_group_offsets(self, groups: list[str], timeout_s: float) -> Any:
        if self.failure is not None:
            raise self.failure
        values, errors = {}, {}
        for name in groups:
            found = self.groups[name]
            if isinstance(found, ErrorCode):
                errors[name] = admin_error(found)
            else:
                values[name] = Results({key: OffsetAndMetadata(offset) for key, offset in found.items()}, {})
        return Results(values, errors)

    async def list_offsets(self, partitions: Mapping[TopicPartition, object], timeout_s: float) -> Any:
        assert partitions
        found = {
            partition: (self.first if spec == OffsetSpec.earliest() else self.ends)[partition]
            for partition, spec in partitions.items()
            if partition in self.ends
        }
        return Results({partition: ListedOffset(offset, -1, None) for partition, offset in found.items()}, {})


@pytest.mark.anyio
async def test_lag_is_the_distance_from_the_committed_offset_to_the_end() -> None:
    now_s = 0.0
    positions = {TopicPartition("t", 1): 90, TopicPartition("t", 0): 120, TopicPartition("gone", 0): 1}
    admin = _Admin(
        {"g": positions, "none": ErrorCode.GROUP_ID_NOT_FOUND, "closed": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    )
    lags = AdminLags(admin, lambda: now_s)  # type: ignore[arg-type]
    groups = {"a": SinkGroup("g"), "b": SinkGroup("none"), "c": SinkGroup("closed")}
    found = await lags.lags(groups)
    assert found["a"] == GroupLag((PartitionLag("t", 0, 120, 100), PartitionLag("t", 1, 90, 100)))
    assert (found["a"].lag, found["a"].per_second) == (10, None)
    assert found["b"] == GroupLag()
    assert found["b"].lag is None
    assert "The offsets of group closed can't be read" in found["c"].problem
    now_s, positions[TopicPartition("t", 1)] = 2.0, 96
    assert (await lags.lags(groups))["a"].per_second == 3
    assert await lags.lags({}) == {}


@pytest.mark.anyio
async def test_unreachable_brokers_are_reported_and_raise_no_exception() -> None:
    admin = _Admin({})
    admin.failure = TimeoutError()
    found = await AdminLags(admin, lambda: 0.0).lags({"a": SinkGroup("g")})  # type: ignore[arg-type]
    assert found == {"a": GroupLag(problem="The lag can't be read: no broker answered in time")}


@pytest.mark.anyio
@pytest.mark.parametrize(("reset", "begins"), [("earliest", 20), ("latest", 100), ("none", 20)])
async def test_a_partition_without_a_commit_counts_from_where_its_task_begins(reset: str, begins: int) -> None:
    committed, new, gone = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)
    lags = AdminLags(_Admin({"g": {committed: 90}, "none": ErrorCode.GROUP_ID_NOT_FOUND}), lambda: 0.0)  # type: ignore[arg-type]
    partitions = frozenset((committed, new, gone))
    found = await lags.lags({"a": SinkGroup("g", partitions, reset), "b": SinkGroup("none", frozenset((new,)), reset)})
    begun = PartitionLag("t", 1, begins, 100, is_committed=False)
    assert found["a"].partitions == (PartitionLag("t", 0, 90, 100), begun)
    assert found["a"].lag == 10 + 100 - begins
    assert found["b"].partitions == (begun,)


def test_the_partitions_of_a_sink_are_those_of_its_tasks() -> None:
    configs = [{"barnabas.task.partitions": '{"t":[0]}'}, {"barnabas.task.partitions": '{"t":[1],"u":[0]}'}]
    assert {str(partition) for partition in partitions_of(configs)} == {"t-0", "t-1", "u-0"}
    assert partitions_of([{}, {"barnabas.task.partitions": "broken"}]) == frozenset()


@pytest.mark.parametrize(
    ("config", "type_", "group"),
    [
        ({}, ConnectorType.SINK, "connect-c"),
        ({"consumer.override.group.id": "mine"}, ConnectorType.SINK, "mine"),
        ({"consumer.override.group.id": "${env:GROUP}"}, ConnectorType.SINK, None),
        ({"consumer.override.bootstrap.servers": "other:9092"}, ConnectorType.SINK, None),
        ({}, ConnectorType.SOURCE, None),
    ],
)
def test_a_sink_uses_kafkas_default_group_unless_another_is_configured(
    config: dict[str, str | None], type_: ConnectorType, group: str | None
) -> None:
    assert group_of(ConnectorInfo("c", config, [], type_), None) == group


def test_a_failure_shows_its_first_line() -> None:
    assert Failure("Task 0", "\n\nNo disk\nat x").reason == "No disk"
    assert Failure("Task 0", "").reason == "No reason was given."
