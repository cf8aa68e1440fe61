from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.tasks.task_work import (
    SPARK_TASK,
    SPARK_TASKS,
    TaskWork,
    check_spark_positions,
    declared_work,
    default_work,
)

CONNECTOR = {"name": "ticks", "connector.class": "Ticks", "tasks.max": "3", "rows": "10"}


def works(task_configs: Sequence[Mapping[str, str]], connector: Mapping[str, str] = CONNECTOR) -> list[TaskWork]:
    return [default_work(connector, task_configs, task) for task in range(len(task_configs))]


def shards(count: int) -> list[dict[str, str]]:
    return [{**CONNECTOR, "task.class": "ticks:Task", "shard": str(number)} for number in range(count)]


def test_the_only_task_with_the_settings_of_its_connector_has_all_of_the_work() -> None:
    assert works([{**CONNECTOR, "task.class": "ticks:Task"}]) == [TaskWork({}, is_all=True)]


def test_tasks_are_distinguished_by_their_own_settings() -> None:
    first, second = works(shards(2))
    assert first == TaskWork({SPARK_TASK: '{"shard":"0"}', SPARK_TASKS: 2}, is_all=False)
    assert second.partition == {SPARK_TASK: '{"shard":"1"}', SPARK_TASKS: 2}


def test_another_number_of_tasks_is_another_division_of_the_work() -> None:
    """Task 0 of 3 reads every third record, task 0 of 2 every second: a position of one is invalid for the other."""
    assert works(shards(3))[0].partition != works(shards(2))[0].partition


def test_work_keeps_its_position_when_its_task_number_changes() -> None:
    before = works([{"table": "b"}, {"table": "c"}])
    after = works([{"table": "a"}, {"table": "b"}])
    assert before[0].partition == after[1].partition


def test_tasks_with_equal_settings_are_distinguished_by_their_numbers() -> None:
    found = works([dict(CONNECTOR)] * 3)
    assert [work.partition for work in found] == [{SPARK_TASK: str(task), SPARK_TASKS: 3} for task in range(3)]


def test_a_single_task_is_distinguished_by_the_part_that_it_reads() -> None:
    (before,), (after,) = works([{**CONNECTOR, "tables": "a,b"}]), works([{**CONNECTOR, "tables": "a,c"}])
    assert before.is_all
    assert before.partition != after.partition


def test_a_setting_that_the_connector_has_changed_for_all_of_its_tasks_is_part_of_the_work() -> None:
    before = works([{"modulus": "8", "rest": "0"}, {"modulus": "8", "rest": "1"}])
    after = works([{"modulus": "9", "rest": "0"}, {"modulus": "9", "rest": "1"}])
    assert before[0].partition != after[0].partition


def test_a_setting_that_does_not_select_data_may_change() -> None:
    changed = {**CONNECTOR, "rows": "99"}
    configs = [{**config, "rows": "99"} for config in shards(3)]
    assert works(configs, changed) == works(shards(3))


def test_long_settings_become_a_digest() -> None:
    (work, other) = works([{"tables": ",".join(map(str, range(1000)))}, {"tables": "x" * 5000}])
    assert len(str(work.partition[SPARK_TASK])) < 100
    assert work.partition != other.partition


@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "b", "tasks.max"]), st.text(max_size=3)), min_size=1, max_size=6),
    st.dictionaries(st.sampled_from(["a", "b", "tasks.max"]), st.text(max_size=3)),
)
def test_no_two_tasks_share_a_position(task_configs: list[dict[str, str]], connector: dict[str, str]) -> None:
    found = [tuple(sorted(work.partition.items())) for work in works(task_configs, connector)]
    assert len(set(found)) == len(found)


def test_a_connector_can_define_the_work_of_its_tasks() -> None:
    assert declared_work([{"table": "a"}, {"table": "b"}], 1) == TaskWork({"table": "b"}, is_all=False)
    assert declared_work([None, None], 0) is None


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([{"table": "a"}, {"table": "a"}], "for the tasks 0, 1"),
        ([{"spark.source": 3}], "without spark.source"),
        ([{"tables": ["a", "b"]}], "a flat map"),
    ],
)
def test_a_definition_of_work_with_shared_or_unstorable_positions_is_refused(
    partitions: list[Mapping[str, object]], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        declared_work(partitions, 0)


POSITION = {"offset": '{"offset":7}'}
OF_A_TASK = {"spark.source": 0, "spark.task": "0", "spark.tasks": 3}


def test_positions_are_set_under_the_displayed_names() -> None:
    check_spark_positions([(OF_A_TASK, POSITION), ({"spark.source": 0}, None)], [OF_A_TASK])
    check_spark_positions([({"spark.source": 0}, POSITION)], [{"spark.source": 0}, None])
    check_spark_positions([({"file": "a"}, {"line": 3}), (None, None)], [OF_A_TASK])


def test_a_position_without_a_task_is_refused_if_tasks_have_their_own_positions() -> None:
    with pytest.raises(ValueError, match=r'such as \{"spark.source": 0, "spark.task": "0", "spark.tasks": 3\}'):
        check_spark_positions([({"spark.source": 0}, POSITION)], [OF_A_TASK])


@pytest.mark.parametrize("offset", [{"offset": "{"}, {"offset": 7}, {"position": "7"}, {"offset": "7", "more": 1}])
def test_a_position_that_no_task_could_read_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="with Spark's offset as JSON text"):
        check_spark_positions([({"spark.source": 0}, offset)], [])
