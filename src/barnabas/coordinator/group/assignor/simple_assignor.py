"""``simple``: the assignor of share groups (KIP-932), where several members may share a partition.

All partitions have equally many members, and members equally many partitions, as far as possible. Members keep
partitions up to this number. Two peculiarities of Kafka 4.3: if the members have different subscriptions, a topic
without any subscriber stays assigned; and a topic that lost all its partitions stays in the assignment, empty.
"""

from __future__ import annotations

from barnabas.common.steps import whole
from barnabas.coordinator.group.assignor.group_spec import GroupAssignment, GroupSpec, Steps, TopicDescriber
from barnabas.coordinator.group.assignor.simple_heterogeneous import SimpleHeterogeneousBuilder
from barnabas.coordinator.group.assignor.simple_homogeneous import SimpleHomogeneousBuilder

__all__ = ["SimpleAssignor"]


class SimpleAssignor:
    name = "simple"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> GroupAssignment:
        return whole(self.assign_in_steps(spec, topics))

    def assign_in_steps(self, spec: GroupSpec, topics: TopicDescriber) -> Steps[GroupAssignment]:
        members = yield from spec.ordered_members()
        if not members:
            return {}
        if spec.is_homogeneous(members):
            return (yield from SimpleHomogeneousBuilder(spec, members, topics).build())
        return (yield from SimpleHeterogeneousBuilder(spec, members, topics).build())
