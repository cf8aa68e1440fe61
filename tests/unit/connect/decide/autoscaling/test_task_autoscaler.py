from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.autoscaling.autoscale_settings import AutoscaleSettings, autoscale_problems
from barnabas.connect.decide.autoscaling.task_autoscaler import LagSample, Outlook, TaskAutoscaler
from barnabas.connect.plugins.api import SinkConnector, SourceConnector
from tests.unit.connect.decide.autoscaling.simulated_sink import SimulatedSink

SETTINGS = AutoscaleSettings(tasks_min=1, tasks_max=8, catch_up_ms=60_000, cool_down_ms=300_000)
HOUR_S = 3_600
PARTITIONS = frozenset(TopicPartition("t", number) for number in range(8))


def sink(arrival: float, *, tasks: int = 1, partitions: int = 8, total_rate: float = float("inf")) -> SimulatedSink:
    return SimulatedSink(SETTINGS, partitions, 100, lambda now_s: arrival, tasks=tasks, total_rate=total_rate)


def samples(*positions: tuple[int, int], tasks: int = 2, every_s: int = 60) -> list[LagSample]:
    """Return samples of position and end, one a minute."""
    return [
        LagSample(number * every_s * 1000, tasks, PARTITIONS, position, end)
        for number, (position, end) in enumerate(positions)
    ]


# -- growing


def test_a_sink_that_falls_behind_grows_until_it_keeps_up() -> None:
    slow = sink(250)
    slow.run(3 * HOUR_S)
    assert slow.tasks == 4  # 3 keep up with 250 records/s of 300, busy 83 % of the time: that is not enough to return.
    assert slow.lag < 250 * 60
    assert [tasks for _, tasks in slow.history] == sorted(tasks for _, tasks in slow.history)


def test_growth_at_most_doubles_the_tasks_at_once() -> None:
    slow = sink(700)
    slow.run(4 * HOUR_S)
    assert [tasks for _, tasks in slow.history][:3] == [2, 4, 8]


def test_a_reason_names_the_lag_and_the_rates() -> None:
    slow = sink(250)
    slow.run(600)
    [decision] = [decision for decision in slow.decisions if decision.outlook is Outlook.CHANGE]
    assert decision.reason.startswith("from 1 to 2 tasks: ")
    assert "records behind at 100 records/s, 250/s arrive, so that the lag takes more than 60 s" in decision.reason


def test_at_the_limit_the_decision_says_what_limits() -> None:
    by_setting, by_partitions = sink(2_000), sink(2_000, partitions=3)
    for slow in (by_setting, by_partitions):
        slow.run(4 * HOUR_S)
        assert slow.decisions[-1].outlook is Outlook.LIMIT
    assert by_setting.tasks == 8
    assert by_setting.decisions[-1].reason.endswith("tasks.max allows no more than 8 tasks")
    assert by_partitions.tasks == 3
    assert by_partitions.decisions[-1].reason.endswith("the number of partitions allows no more than 3 tasks")


def test_tasks_that_do_not_help_are_not_added() -> None:
    """The target takes 100 records a second, from however many tasks."""
    slow = sink(150, total_rate=100)
    slow.run(HOUR_S * 2 / 3)
    assert slow.tasks == 2
    assert slow.decisions[-1].outlook is Outlook.FRUITLESS


def test_a_burst_is_worked_off_and_the_tasks_are_given_back() -> None:
    burst = SimulatedSink(SETTINGS, 8, 100, lambda now_s: 1_000 if now_s < 600 else 20)
    burst.run(5 * HOUR_S)
    assert max(tasks for _, tasks in burst.history) >= 4
    assert (burst.tasks, burst.lag) == (1, 0)


# -- shrinking


def test_a_sink_with_too_many_tasks_gives_them_back_one_at_a_time() -> None:
    idle = sink(10, tasks=5)
    idle.run(2 * HOUR_S)
    assert [tasks for _, tasks in idle.history] == [4, 3, 2, 1]
    pauses = [after - before for (before, _), (after, _) in zip(idle.history, idle.history[1:], strict=False)]
    assert min(pauses) * 1000 >= SETTINGS.cool_down_ms


def test_a_number_that_was_not_enough_is_not_tried_again() -> None:
    """It does not know at first what a task can do, so it tries once."""
    tried = sink(250, tasks=6)
    tried.run(6 * HOUR_S)
    went_below = [tasks for _, tasks in tried.history if tasks < 3]
    assert len(went_below) <= 1
    assert tried.tasks >= 3
    assert not [when for when, _ in tried.history if when > 3 * HOUR_S]


# -- waiting


def test_nothing_changes_before_the_rates_are_known() -> None:
    autoscaler = TaskAutoscaler(SETTINGS)
    decisions = [autoscaler.decide(sample) for sample in samples(*[(n, 1_000_000 + n) for n in range(5)])]
    assert {decision.outlook for decision in decisions} == {Outlook.WAIT}


def behind() -> list[LagSample]:
    return samples(*[(number * 600, 1_000_000 + number * 6_000) for number in range(7)])


def test_a_task_that_does_not_run_is_waited_for() -> None:
    autoscaler = TaskAutoscaler(SETTINGS)
    for sample in behind()[:-1]:
        autoscaler.decide(sample)
    decision = autoscaler.decide(replace(behind()[-1], are_running=False))
    assert (decision.outlook, decision.reason) == (Outlook.WAIT, "not all tasks run")
    assert TaskAutoscaler(SETTINGS).decide(replace(behind()[0], tasks=0)).tasks == 0


@pytest.mark.parametrize("change", ["reset", "recreated", "partitions"])
def test_samples_before_a_reset_of_positions_or_topics_do_not_count(change: str) -> None:
    autoscaler = TaskAutoscaler(SETTINGS)
    *before, last = behind()
    for sample in before:
        autoscaler.decide(sample)
    other = {
        "reset": replace(last, position=0),
        "recreated": replace(last, end=last.position),
        "partitions": replace(last, partitions=PARTITIONS | {TopicPartition("t", 8)}),
    }[change]
    assert autoscaler.decide(other).outlook is Outlook.WAIT
    assert autoscaler.decide(replace(other, now_ms=other.now_ms + 60_000)).outlook is Outlook.WAIT


def test_without_progress_nothing_is_concluded() -> None:
    autoscaler = TaskAutoscaler(SETTINGS)
    decisions = [autoscaler.decide(sample) for sample in samples(*[(0, 1_000 * n) for n in range(1, 9)])]
    assert decisions[-1].outlook is Outlook.WAIT
    assert decisions[-1].reason == "no batch has ended for 300 s"


def test_a_restart_that_would_skip_records_waits_for_commits() -> None:
    autoscaler = TaskAutoscaler(SETTINGS)
    decisions = [autoscaler.decide(replace(sample, may_skip=True)) for sample in behind()]
    assert decisions[-1].outlook is Outlook.WAIT
    assert "auto.offset.reset=latest" in decisions[-1].reason


def test_tasks_outside_of_the_bounds_are_brought_back() -> None:
    autoscaler = TaskAutoscaler(replace(SETTINGS, tasks_min=3, tasks_max=4))
    few = [autoscaler.decide(sample) for sample in samples(*[(n, n) for n in range(8)], tasks=2)]
    assert 3 in {decision.tasks for decision in few}
    many = TaskAutoscaler(replace(SETTINGS, tasks_max=4))
    assert 4 in {many.decide(sample).tasks for sample in samples(*[(n, n) for n in range(8)], tasks=7)}


# -- properties


@given(
    arrival=st.floats(0, 2_000),
    task_rate=st.floats(1, 500),
    total_rate=st.one_of(st.just(float("inf")), st.floats(1, 2_000)),
    tasks=st.integers(1, 12),
    partitions=st.integers(1, 12),
    bounds=st.tuples(st.integers(1, 10), st.integers(1, 10)).map(sorted),
    pause_s=st.floats(0, 60),
)
@settings(max_examples=40, deadline=None)
def test_a_constant_load_leads_to_a_constant_number_within_the_bounds(
    arrival: float,
    task_rate: float,
    total_rate: float,
    tasks: int,
    partitions: int,
    bounds: list[int],
    pause_s: float,
) -> None:
    tasks_min, tasks_max = bounds
    given_settings = replace(SETTINGS, tasks_min=tasks_min, tasks_max=tasks_max)
    simulated = SimulatedSink(
        given_settings,
        partitions,
        task_rate,
        lambda now_s: arrival,
        tasks=min(tasks, partitions),
        total_rate=total_rate,
        pause_s=pause_s,
    )
    simulated.run(6 * HOUR_S)
    limit = min(tasks_max, partitions)
    assert all(min(tasks_min, limit) <= count <= limit for _, count in simulated.history)
    settled_s = simulated.now_s
    simulated.run(6 * HOUR_S)
    later = [count for when, count in simulated.history if when > settled_s]
    assert later == sorted(later), "it flaps: a constant load may only lead to more tasks, where more did not help"
    falls = sum(
        after < before for (_, before), (_, after) in zip(simulated.history, simulated.history[1:], strict=False)
    )
    assert falls <= 2 * 12
    if total_rate == float("inf") and arrival < 0.9 * limit * task_rate:
        assert simulated.lag <= max(1, arrival) * 120, "it does not keep up, though enough tasks are allowed"


@given(
    levels=st.lists(st.floats(0, 1_000), min_size=1, max_size=6),
    partitions=st.integers(1, 12),
    tasks_max=st.integers(1, 10),
)
@settings(max_examples=25, deadline=None)
def test_bounds_and_cool_downs_are_kept_under_any_load(levels: list[float], partitions: int, tasks_max: int) -> None:
    given_settings = replace(SETTINGS, tasks_max=tasks_max)
    simulated = SimulatedSink(given_settings, partitions, 100, lambda now_s: levels[int(now_s // HOUR_S) % len(levels)])
    simulated.run(len(levels) * HOUR_S)
    assert all(1 <= count <= min(tasks_max, partitions) for _, count in simulated.history)
    times = [when for when, _ in simulated.history]
    assert all(after - before >= 300 for before, after in itertools.pairwise(times))


# -- settings


def test_the_settings_of_a_connector_are_read() -> None:
    config = {"barnabas.tasks.autoscale.enable": "true", "tasks.max": "6", "barnabas.tasks.autoscale.min": "2"}
    assert AutoscaleSettings.of(config) == AutoscaleSettings(2, 6, 60_000, 300_000)
    assert AutoscaleSettings.of({"tasks.max": "6"}) is None
    assert AutoscaleSettings.of({**config, "barnabas.tasks.autoscale.enable": "false"}) is None
    assert AutoscaleSettings.of({**config, "tasks.max": "many"}) is None


class _Sink(SinkConnector):
    pass


class _OneTask(SinkConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}]


class _Source(SourceConnector):
    pass


def test_connectors_whose_tasks_can_not_be_split_are_refused_by_name() -> None:
    config = {"barnabas.tasks.autoscale.enable": "true", "tasks.max": "4"}
    assert autoscale_problems(_Sink, config) == []
    [(name, text)] = autoscale_problems(_Source, config)
    assert name == "barnabas.tasks.autoscale.enable"
    assert "_Source is a source" in text
    [(_, text)] = autoscale_problems(_OneTask, config)
    assert "_OneTask decides itself how many tasks it has" in text
    assert autoscale_problems(_Source, {"tasks.max": "4"}) == []


def test_settings_that_contradict_each_other_are_refused() -> None:
    config = {"barnabas.tasks.autoscale.enable": "true", "tasks.max": "4"}
    [(name, text)] = autoscale_problems(_Sink, {**config, "barnabas.tasks.autoscale.min": "5"})
    assert name == "barnabas.tasks.autoscale.min"
    assert "more than tasks.max (4)" in text
    for client in ("consumer", "admin"):
        [(_, text)] = autoscale_problems(_Sink, {**config, f"{client}.override.bootstrap.servers": "other:9092"})
        assert f"{client}.override.bootstrap.servers names another" in text
