"""``uniform``: all members have equally many partitions, and keep theirs where possible (KIP-848).

With one subscription of all members quotas decide (``uniform_homogeneous``), otherwise a balance of each topic
(``uniform_heterogeneous``). Racks are not considered, as in Kafka 4.3.
"""

from __future__ import annotations

from barnabas.common.steps import whole
from barnabas.coordinator.group.assignor.group_spec import GroupAssignment, GroupSpec, Steps, TopicDescriber
from barnabas.coordinator.group.assignor.uniform_heterogeneous import UniformHeterogeneousBuilder
from barnabas.coordinator.group.assignor.uniform_homogeneous import UniformHomogeneousBuilder

__all__ = ["UniformAssignor"]


class UniformAssignor:
    name = "uniform"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> GroupAssignment:
        return whole(self.assign_in_steps(spec, topics))

    def assign_in_steps(self, spec: GroupSpec, topics: TopicDescriber) -> Steps[GroupAssignment]:
        members = yield from spec.ordered_members()
        if not members:
            return {}
        if spec.is_homogeneous(members):
            return (yield from UniformHomogeneousBuilder(members, topics).build())
        return (yield from UniformHeterogeneousBuilder(members, topics).build())
