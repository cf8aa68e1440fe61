"""What every assignor of consumer and share groups guarantees, whatever Kafka does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor import group_spec
from barnabas.coordinator.group.assignor.assignors import assignor_named
from barnabas.coordinator.group.assignor.group_spec import (
    GroupSpec,
    MemberSubscription,
    PartitionAssignor,
    PartitionAssignorError,
)
from barnabas.coordinator.group.group_state import GroupType
from tests.unit.coordinator.assignor.groups import Topics, load, members, memberships, owners, topic, with_assignments

Group = tuple[dict[str, MemberSubscription], Topics]


def named(name: str) -> PartitionAssignor:
    assignor = assignor_named(name, GroupType.SHARE if name == "simple" else GroupType.CONSUMER)
    assert assignor is not None
    return assignor


UNIFORM, RANGE, SIMPLE = named("uniform"), named("range"), named("simple")
ASSIGNORS = pytest.mark.parametrize("assignor", [UNIFORM, RANGE, SIMPLE], ids=lambda assignor: assignor.name)
EITHER = st.booleans().flatmap(lambda homogeneous: memberships(homogeneous=homogeneous))


def subscribed(group: dict[str, MemberSubscription], topics: Topics) -> set[tuple[Uuid, int]]:
    ids = frozenset[Uuid]().union(*(member.topic_ids for member in group.values()))
    return {(topic_id, partition) for topic_id in ids for partition in range(topics.counts[topic_id])}


@pytest.mark.parametrize("assignor", [UNIFORM, RANGE], ids=lambda assignor: assignor.name)
@given(EITHER)
def test_each_partition_has_one_subscriber(assignor: PartitionAssignor, given_group: Group) -> None:
    group, topics = given_group
    found = owners(assignor.assign(GroupSpec(group), topics))
    assert found.keys() == subscribed(group, topics)
    for (topic_id, _), member_ids in found.items():
        assert len(member_ids) == 1
        assert topic_id in group[member_ids[0]].topic_ids


@given(EITHER)
def test_each_member_of_a_share_group_has_a_partition_and_each_partition_a_member(given_group: Group) -> None:
    group, topics = given_group
    assigned = SIMPLE.assign(GroupSpec(group), topics)
    found = owners(assigned)
    assert found.keys() == subscribed(group, topics)
    for member_id, member in group.items():
        assert (load(assigned.get(member_id, {})) > 0) == bool(member.topic_ids)
        assert assigned.get(member_id, {}).keys() <= member.topic_ids


@pytest.mark.parametrize("assignor", [UNIFORM, SIMPLE], ids=lambda assignor: assignor.name)
@given(memberships(homogeneous=True), st.data())
def test_members_with_one_subscription_have_equally_many_partitions(
    assignor: PartitionAssignor, given_group: Group, data: Any
) -> None:
    """Also after members left and joined."""
    group, topics = given_group
    assigned = assignor.assign(GroupSpec(group), topics)
    left = data.draw(st.sets(st.sampled_from(sorted(group))))
    after = with_assignments({id_: member for id_, member in group.items() if id_ not in left}, assigned)
    after |= members(dict.fromkeys(("new-1", "new-2"), next(iter(group.values())).topic_ids))
    loads = [load(assignment) for assignment in assignor.assign(GroupSpec(after), topics).values()]
    assert len(loads) == len(after)
    assert max(loads) - min(loads) <= 1


@ASSIGNORS
@given(EITHER)
def test_nothing_moves_when_nothing_changes(assignor: PartitionAssignor, given_group: Group) -> None:
    group, topics = given_group
    assigned = assignor.assign(GroupSpec(group), topics)
    assert assignor.assign(GroupSpec(with_assignments(group, assigned)), topics) == assigned


@pytest.mark.parametrize("assignor", [UNIFORM, SIMPLE], ids=lambda assignor: assignor.name)
@given(memberships(homogeneous=True))
def test_the_assignment_of_a_member_that_keeps_it_is_the_same_object(
    assignor: PartitionAssignor, given_group: Group
) -> None:
    group, topics = given_group
    before = with_assignments(group, assignor.assign(GroupSpec(group), topics))
    after = assignor.assign(GroupSpec(before), topics)
    assert all(after[member_id] is member.assigned for member_id, member in before.items())


@given(memberships(homogeneous=True), st.data())
def test_members_that_stay_keep_their_partitions(given_group: Group, data: Any) -> None:
    """When others leave, they have more, so they keep all."""
    group, topics = given_group
    assigned = UNIFORM.assign(GroupSpec(group), topics)
    staying = data.draw(st.sets(st.sampled_from(sorted(group)), min_size=1))
    after = with_assignments({id_: member for id_, member in group.items() if id_ in staying}, assigned)
    now = owners(UNIFORM.assign(GroupSpec(after), topics))
    for partition, (owner,) in owners(assigned).items():
        assert owner not in staying or now[partition] == [owner]


@ASSIGNORS
@given(EITHER)
def test_an_assignment_is_a_function_of_the_group(assignor: PartitionAssignor, given_group: Group) -> None:
    group, topics = given_group
    copies = {
        member_id: member._replace(topic_ids=frozenset(sorted(member.topic_ids))) for member_id, member in group.items()
    }
    assert assignor.assign(GroupSpec(copies), topics) == assignor.assign(GroupSpec(group), topics)


@ASSIGNORS
@given(EITHER)
def test_the_group_is_not_changed(assignor: PartitionAssignor, given_group: Group) -> None:
    group, topics = given_group
    before = with_assignments(group, assignor.assign(GroupSpec(group), topics))
    kept = {member_id: dict(member.assigned) for member_id, member in before.items()}
    more = {**before, **members({"new": next(iter(group.values())).topic_ids})}
    assignor.assign(GroupSpec(more), topics)
    assert {member_id: member.assigned for member_id, member in before.items()} == kept


@ASSIGNORS
def test_a_group_without_members_has_no_assignment(assignor: PartitionAssignor) -> None:
    assert assignor.assign(GroupSpec({}), Topics(1)) == {}


@ASSIGNORS
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_an_unknown_topic_is_refused(assignor: PartitionAssignor, is_homogeneous: bool) -> None:
    group = members({"a": frozenset({topic(0), topic(9)})})
    with pytest.raises(PartitionAssignorError, match=str(topic(9))):
        assignor.assign(GroupSpec(group, is_homogeneous=is_homogeneous), Topics(3))


@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_partitions_that_the_metadata_does_not_have_yet_stay_assigned(is_homogeneous: bool) -> None:
    """A new coordinator may have older metadata than the one that assigned them."""
    newer = {topic(0): frozenset({0, 1, 2})}
    group = with_assignments(members({"a": frozenset({topic(0)})}), {"a": newer})
    assigned = UNIFORM.assign(GroupSpec(group, is_homogeneous=is_homogeneous), Topics(3))
    assert assigned == {"a": newer}
    older = UNIFORM.assign(GroupSpec(group, is_homogeneous=False), Topics(2))
    assert older == {"a": newer}


def test_partitions_that_two_members_have_are_refused_if_others_remain_without_a_member() -> None:
    both = {topic(0): frozenset({0})}
    group = with_assignments(members(dict.fromkeys("ab", frozenset({topic(0)}))), {"a": both, "b": both})
    with pytest.raises(PartitionAssignorError, match="leave partitions unassigned"):
        UNIFORM.assign(GroupSpec(group), Topics(2))


@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_only_partitions_with_a_share_state_are_assigned(is_homogeneous: bool) -> None:
    group = members(dict.fromkeys("ab", frozenset({topic(0), topic(1)})))
    spec = GroupSpec(group, is_homogeneous=is_homogeneous, assignable={topic(0): frozenset({1, 3})})
    found = owners(SIMPLE.assign(spec, Topics(5, 2)))
    assert found.keys() == {(topic(0), 1), (topic(0), 3)}


def test_a_member_that_replaces_another_takes_its_place_and_its_partitions() -> None:
    group = members(dict.fromkeys("ab", frozenset({topic(0)})))
    assigned = UNIFORM.assign(GroupSpec(group), Topics(4))
    before = with_assignments(group, assigned)
    spec = GroupSpec(before, updates={"c": before["a"], "a": None})
    assert UNIFORM.assign(spec, Topics(4)) == {"c": assigned["a"], "b": assigned["b"]}


@given(memberships(homogeneous=True))
def test_topics_with_equally_many_partitions_are_co_partitioned_by_range(given_group: Group) -> None:
    group, topics = given_group
    equal = Topics(*[7] * len(topics.counts))
    for assigned in RANGE.assign(GroupSpec(group), equal).values():
        assert len(set(assigned.values())) <= 1
        assert not assigned or assigned.keys() == equal.counts.keys()


def test_range_puts_static_members_first_in_the_order_of_their_instance_ids() -> None:
    group = members(dict.fromkeys(("m4", "m3", "m2", "m1"), frozenset({topic(0)})))
    group["m3"] = group["m3"]._replace(instance_id="i-b")
    group["m4"] = group["m4"]._replace(instance_id="i-a")
    assigned = RANGE.assign(GroupSpec(group), Topics(4))
    assert {member_id: set(assigned[member_id][topic(0)]) for member_id in group} == {
        "m4": {0}, "m3": {1}, "m1": {2}, "m2": {3}
    }  # fmt: skip


@ASSIGNORS
@given(EITHER, st.integers(1, 5))
def test_steps_give_the_same_assignment(assignor: PartitionAssignor, given_group: Group, work: int) -> None:
    group, topics = given_group
    expected = assignor.assign(GroupSpec(group), topics)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_spec, "WORK_A_STEP", work)
        assert whole(assignor.assign_in_steps(GroupSpec(group), topics)) == expected


@ASSIGNORS
@pytest.mark.parametrize("member_count", [1, 50])
def test_many_partitions_take_many_steps(
    assignor: PartitionAssignor, member_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_spec, "WORK_A_STEP", 10)
    group = members({f"m{number}": frozenset({topic(0), topic(1)}) for number in range(member_count)})
    steps = assignor.assign_in_steps(GroupSpec(group), Topics(500, 500))
    assert sum(1 for _ in steps) >= (20 if assignor is not RANGE or member_count > 1 else 0)


def test_each_kind_of_group_has_its_own_assignors() -> None:
    assert assignor_named("range") is RANGE
    assert assignor_named("simple") is None
    assert assignor_named("uniform", GroupType.SHARE) is None
    assert assignor_named("Uniform") is None
