"""The state of a cluster after a change, computed without a cluster.

It predicts the result of a plan, and defines in one place the effect of each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from barnabas.access.cluster_state import TOPIC, ClusterState, Credential, TopicState
from barnabas.access.plan import (
    Change,
    ConfigChange,
    Deletion,
    PartitionsChange,
    QuotaChange,
    StepKind,
    TopicCreation,
    UserChange,
)
from barnabas.common.acl import AclBinding
from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MIN

__all__ = ["apply_change"]

V = TypeVar("V")


def apply_change(state: ClusterState, kind: StepKind, change: Change) -> ClusterState:
    if isinstance(change, AclBinding):
        with_rule, without = state.acls | {change}, state.acls - {change}
        return replace(state, acls=with_rule if kind is StepKind.CREATE_ACLS else without)
    if isinstance(change, TopicCreation):
        topic = change.topic
        made = TopicState(topic.partitions or 1, topic.replication_factor or 1, topic.configs)
        return replace(state, topics={change.name: made, **state.topics})
    if isinstance(change, PartitionsChange):
        grown = state.topics[change.name]._replace(partitions=change.after)
        return replace(state, topics={**state.topics, change.name: grown})
    if isinstance(change, QuotaChange):
        limits = _changed(state.quotas.get(change.entity, {}), change.values)
        return replace(state, quotas=_with(state.quotas, change.entity, limits))
    if isinstance(change, UserChange):
        iterations = change.iterations or change.before or SCRAM_ITERATIONS_MIN
        return replace(state, users={**state.users, change.credential: iterations})
    if isinstance(change, Deletion):
        if isinstance(change.item, Credential):
            return replace(state, users={key: value for key, value in state.users.items() if key != change.item})
        return replace(state, topics={name: topic for name, topic in state.topics.items() if name != change.item})
    return _with_configs(state, change)


def _with_configs(state: ClusterState, change: ConfigChange) -> ClusterState:
    if change.target.type == TOPIC:
        topic = state.topics[change.target.name]
        configs = _changed(topic.configs, change.values)
        return replace(state, topics={**state.topics, change.target.name: topic._replace(configs=configs)})
    settings = _changed(state.configs.get(change.target, {}), change.values)
    return replace(state, configs=_with(state.configs, change.target, settings))


def _changed(there: Mapping[str, V], values: tuple[tuple[str, V | None, V | None], ...]) -> dict[str, V]:
    result = dict(there)
    for key, _, value in values:
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


K = TypeVar("K")


def _with(there: Mapping[K, Mapping[str, V]], key: K, values: dict[str, V]) -> dict[K, Mapping[str, V]]:
    """Treat an entity without values as absent."""
    result = {name: value for name, value in there.items() if name != key}
    if values:
        result[key] = values
    return result
