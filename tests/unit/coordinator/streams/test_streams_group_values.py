"""The records of a streams group keep everything."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.group.streams.streams_group_member import Endpoint, MemberState, StreamsGroupMember
from barnabas.coordinator.group.streams.streams_group_values import (
    current_assignment_value,
    group_metadata_value,
    member_metadata_value,
    member_with_assignment,
    member_with_metadata,
    member_without_assignment,
    target_assignment_tasks,
    target_assignment_value,
)
from barnabas.coordinator.group.streams.tasks import TasksTuple, TasksTupleWithEpochs
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)

INT32 = st.integers(0, 2**31 - 1)
NAMES = st.text(max_size=5)
TASKS = st.dictionaries(NAMES, st.frozensets(INT32, min_size=1, max_size=4), max_size=3)
EPOCH_TASKS = st.dictionaries(NAMES, st.dictionaries(INT32, INT32, min_size=1, max_size=4), max_size=3)
HELD = st.builds(TasksTupleWithEpochs, EPOCH_TASKS, TASKS, TASKS)
MEMBERS = st.builds(
    StreamsGroupMember,
    member_id=NAMES,
    member_epoch=INT32,
    previous_member_epoch=INT32,
    state=st.sampled_from(MemberState),
    instance_id=st.none() | NAMES,
    rack_id=st.none() | NAMES,
    client_id=NAMES,
    client_host=NAMES,
    rebalance_timeout_ms=INT32,
    topology_epoch=INT32,
    process_id=NAMES,
    user_endpoint=st.none() | st.builds(Endpoint, NAMES, st.integers(0, 65535)),
    client_tags=st.dictionaries(NAMES, NAMES, max_size=3),
    assigned_tasks=HELD,
    tasks_pending_revocation=HELD,
)


def reread(value: Any) -> Any:
    return type(value).decode(encode_versioned(value, 0), 0, 2)


@given(member=MEMBERS)
def test_a_member_is_the_same_after_both_of_its_records(member: StreamsGroupMember) -> None:
    with_metadata = member_with_metadata(StreamsGroupMember(member.member_id), reread(member_metadata_value(member)))
    assert member_with_assignment(with_metadata, reread(current_assignment_value(member))) == member


@given(target=st.builds(TasksTuple, TASKS, TASKS, TASKS))
def test_a_target_is_the_same_after_its_record(target: TasksTuple) -> None:
    assert target_assignment_tasks(reread(target_assignment_value(target))) == target


def test_tasks_without_epochs_count_as_received_at_the_epoch_of_the_member() -> None:
    ids = [
        TaskIds(subtopology_id="a", partitions=[1, 2], assignment_epochs=None),
        TaskIds(subtopology_id="b", partitions=[3]),
        TaskIds(subtopology_id="c", partitions=[4, 5], assignment_epochs=[1]),
        TaskIds(subtopology_id="d", partitions=[6], assignment_epochs=[2]),
    ]
    value = StreamsGroupCurrentMemberAssignmentValue(member_epoch=9, active_tasks=ids)
    assert member_with_assignment(StreamsGroupMember("m"), value).assigned_tasks.active == {
        "a": {1: 9, 2: 9},
        "b": {3: 9},
        "c": {4: 9, 5: 9},
        "d": {6: 2},
    }


def test_a_state_of_a_newer_version_is_unknown() -> None:
    value = StreamsGroupCurrentMemberAssignmentValue(state=4)
    assert member_with_assignment(StreamsGroupMember("m"), value).state is MemberState.UNKNOWN


@given(member=MEMBERS)
def test_without_its_assignment_a_member_has_nothing(member: StreamsGroupMember) -> None:
    left = member_without_assignment(member)
    assert (left.member_epoch, left.previous_member_epoch) == (-1, -1)
    assert left.assigned_tasks.is_empty
    assert left.tasks_pending_revocation.is_empty


def test_the_record_of_a_group_has_its_assignment_configs_in_order() -> None:
    value = group_metadata_value(
        epoch=7, metadata_hash=-5, validated_topology_epoch=-1, assignment_configs={"b": "2", "a": "1"}
    )
    assert reread(value) == value
    assert [(config.key, config.value) for config in value.last_assignment_configs] == [("a", "1"), ("b", "2")]
