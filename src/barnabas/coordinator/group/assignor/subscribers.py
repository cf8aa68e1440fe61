"""The subscribers of each topic of a group, where many members have the same subscription."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import Steps, WorkMeter

__all__ = ["subscribers_by_topic"]


def subscribers_by_topic(subscriptions: Iterable[frozenset[Uuid]]) -> Steps[dict[Uuid, list[int]]]:
    """Return the numbers of the members of each topic, in order. Topics with the same members share one list."""
    meter = WorkMeter()
    members: dict[frozenset[Uuid], list[int]] = {}
    for number, topic_ids in enumerate(subscriptions):
        members.setdefault(topic_ids, []).append(number)
        if meter.is_full(1):
            yield
    kinds: dict[Uuid, list[int]] = {}
    for kind, topic_ids in enumerate(members):
        for topic_id in topic_ids:
            kinds.setdefault(topic_id, []).append(kind)
        if meter.is_full(len(topic_ids)):
            yield
    numbers = list(members.values())
    joined: dict[tuple[int, ...], list[int]] = {}
    subscribers: dict[Uuid, list[int]] = {}
    for topic_id, kinds_of_topic in kinds.items():
        key = tuple(kinds_of_topic)
        if key not in joined:
            # The parts are in order, which makes this sort a merge.
            joined[key] = sorted(chain.from_iterable(numbers[kind] for kind in key))
            if meter.is_full(len(joined[key])):
                yield
        subscribers[topic_id] = joined[key]
    return subscribers
