from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.admin.group_offsets import OffsetAndMetadata
from barnabas.clients.admin.results import Results
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import OffsetRange, TerminalError
from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect_spark.positions.group_positions import (
    GroupPositions,
    first_positions,
    from_kafka_json,
    kafka_json,
)
from barnabas.connect_spark.queries.sink_query import ranges_of

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Committed:
    """An admin client of a cluster that keeps the offsets of one group."""

    def __init__(self) -> None:
        self.values: dict[TopicPartition, OffsetAndMetadata] = {}

    def list_group_offsets(self, groups: Mapping[str, Sequence[TopicPartition]]) -> Any:
        return {name: Results(dict(self.values), {}) for name in groups}

    def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> Any:
        for partition, offset in offsets.items():
            self.values[partition] = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        return Results(dict.fromkeys(offsets), {})


def test_the_end_of_a_batch_is_noted_until_the_batch_is_committed() -> None:
    group = GroupPositions(Committed(), "g")  # type: ignore[arg-type]
    group.plan({P0: OffsetRange(3, 9), P1: OffsetRange(0, 4)})
    assert group.committed([P0, P1]) == {P0: 3, P1: 0}
    assert group.planned([P0, P1], {P0: 3, P1: 0}) == {P0: 9, P1: 4}
    assert group.planned([P0, P1], {P0: 4, P1: 0}) == {P1: 4}, "somebody has moved the position"
    group.commit({P0: 9, P1: 4})
    assert group.planned([P0, P1], {P0: 9, P1: 4}) == {}


def test_a_task_continues_from_a_committed_offset_inside_the_partition() -> None:
    positions, warnings = first_positions([P0, P1], {P0: 5, P1: 9}, {P0: (0, 9), P1: (0, 9)}, "earliest")
    assert (positions, warnings) == ({P0: 5, P1: 9}, [])


@pytest.mark.parametrize(("reset", "begins_at"), [("earliest", 3), ("latest", 9)])
def test_without_a_committed_offset_the_reset_policy_decides(reset: str, begins_at: int) -> None:
    assert first_positions([P0], {}, {P0: (3, 9)}, reset) == ({P0: begins_at}, [])


@pytest.mark.parametrize("lost", [2, 10])
def test_a_committed_offset_outside_the_partition_is_reset_with_a_warning(lost: int) -> None:
    positions, (warning,) = first_positions([P0], {P0: lost}, {P0: (3, 9)}, "earliest")
    assert positions == {P0: 3}
    assert f"t-0: offset {lost} is not in the partition (it has 3 to 9)" in warning


def test_the_reset_policy_none_refuses_to_guess() -> None:
    with pytest.raises(TerminalError, match="t-0: no position to continue from"):
        first_positions([P0], {}, {P0: (0, 9)}, "none")
    with pytest.raises(ConfigException, match="earliest, latest, none"):
        first_positions([P0], {}, {P0: (0, 9)}, "smallest")


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.sampled_from(["a", "b.c"]), st.integers(0, 30)), st.integers(0, 1 << 62)
    )
)
def test_positions_survive_sparks_notation(positions: dict[TopicPartition, int]) -> None:
    assert from_kafka_json(kafka_json(positions)) == positions


def test_partitions_without_new_records_are_not_in_a_batch() -> None:
    assert ranges_of({P0: 3, P1: 4}, {P0: 5, P1: 4}) == {P0: OffsetRange(3, 5)}
