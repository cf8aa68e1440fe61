"""Co-partitioned topics: those that a subtopology joins, which must have the same partition count.

Source topics exist and can't be adapted. The counts of repartition topics are adapted to them, except counts that the
application sets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.streams.heartbeat_status import HeartbeatStatus, TopicConfigurationError
from barnabas.coordinator.group.streams.topology import in_hash_map_order

__all__ = ["CopartitionedTopicsEnforcer"]


class CopartitionedTopicsEnforcer:
    """``count_of`` returns the count that a topic has or is to have. ``fixed_topics`` are the repartition topics of the
    whole topology with a count set by the application, ``flexible_topics`` the others."""

    def __init__(
        self, count_of: Callable[[str], int], *, fixed_topics: Collection[str], flexible_topics: Collection[str]
    ) -> None:
        self._count_of = count_of
        self._fixed_topics = fixed_topics
        self._flexible_topics = flexible_topics
        self._distinct_fixed_counts = {count_of(topic) for topic in fixed_topics}

    def enforce(self, topics: Collection[str]) -> dict[str, int]:
        """Return the counts of the repartition topics in a group of co-partitioned topics.

        Raises TopicConfigurationError if no count fits all of them.
        """
        if not topics:
            return {}
        counts = {topic: self._count_of(topic) for topic in in_hash_map_order(topics)}
        repartition = {topic: count for topic, count in counts.items() if self._is_repartition_topic(topic)}
        external = {topic: count for topic, count in counts.items() if topic not in repartition}
        count = _common_count(external) if external else self._count_without_source_topics(repartition)
        for topic in repartition:
            if topic in self._fixed_topics and counts[topic] != count:
                raise _incorrect(
                    f"Number of partitions [{counts[topic]}] of repartition topic [{topic}] doesn't match number of "
                    f"partitions [{count}] of the source topic."
                )
        return dict.fromkeys(repartition, count)

    def _is_repartition_topic(self, topic: str) -> bool:
        return topic in self._fixed_topics or topic in self._flexible_topics

    def _count_without_source_topics(self, repartition: Mapping[str, int]) -> int:
        """Kafka compares all fixed counts of the topology here, also those of topics in no or in another group."""
        if len(self._distinct_fixed_counts) > 1:
            raise _different(repartition)
        if self._distinct_fixed_counts:
            return next(iter(self._distinct_fixed_counts))
        largest = max(repartition.values())
        if largest <= 0:
            raise ApiException(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"All topics in the copartition group had undefined partition number: [{', '.join(repartition)}]",
            )
        return largest


def _common_count(external: Mapping[str, int]) -> int:
    distinct = set(external.values())
    if len(distinct) > 1:
        raise _different(external)
    return distinct.pop()


def _different(counts: Mapping[str, int]) -> TopicConfigurationError:
    listed = ", ".join(f"{topic}={counts[topic]}" for topic in sorted(counts))
    return _incorrect(f"Following topics do not have the same number of partitions: [{{{listed}}}]")


def _incorrect(message: str) -> TopicConfigurationError:
    return TopicConfigurationError(HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS, message)
