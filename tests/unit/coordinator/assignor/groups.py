"""Groups for the tests of assignors: a strategy, and the topics that it uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import Assignment, GroupAssignment, MemberSubscription

__all__ = ["Topics", "load", "members", "memberships", "owners", "topic", "with_assignments"]


def topic(number: int) -> Uuid:
    return Uuid.from_int(number + 1_000_003 * number**5 + 100)


class Topics:
    """Topic ``topic(i)`` has ``counts[i]`` partitions."""

    def __init__(self, *counts: int) -> None:
        self.counts = {topic(number): count for number, count in enumerate(counts)}

    def partition_count(self, topic_id: Uuid) -> int:
        return self.counts.get(topic_id, -1)

    def racks(self, topic_id: Uuid, partition: int) -> frozenset[str]:
        raise AssertionError("the assignors of Kafka 4.3 do not consider racks")


def members(subscriptions: Mapping[str, frozenset[Uuid]]) -> dict[str, MemberSubscription]:
    return {
        member_id: MemberSubscription("rack", None, topic_ids, {}) for member_id, topic_ids in subscriptions.items()
    }


def with_assignments(
    group: Mapping[str, MemberSubscription], assigned: Mapping[str, Assignment]
) -> dict[str, MemberSubscription]:
    return {member_id: member._replace(assigned=assigned.get(member_id, {})) for member_id, member in group.items()}


@st.composite
def memberships(draw: Callable[[Any], Any], *, homogeneous: bool) -> tuple[dict[str, MemberSubscription], Topics]:
    topics = Topics(*draw(st.lists(st.integers(1, 20), min_size=1, max_size=5)))
    ids = sorted(topics.counts)
    member_ids = draw(st.lists(st.text("abcXYZ09-", min_size=1, max_size=8), min_size=1, max_size=20, unique=True))
    if homogeneous:
        subscriptions = dict.fromkeys(member_ids, frozenset(ids))
    else:
        subscription = st.frozensets(st.sampled_from(ids))
        subscriptions = {member_id: draw(subscription) for member_id in member_ids}
    return members(subscriptions), topics


def owners(assigned: GroupAssignment) -> dict[tuple[Uuid, int], list[str]]:
    found: dict[tuple[Uuid, int], list[str]] = {}
    for member_id, partitions_of in assigned.items():
        for topic_id, partitions in partitions_of.items():
            for partition in partitions:
                found.setdefault((topic_id, partition), []).append(member_id)
    return found


def load(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))
