"""How many partitions internal topics have, which of them must be created, and what prevents that."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.streams.heartbeat_status import HeartbeatStatus
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from barnabas.protocol.records.streams_group_topology_value import Subtopology
from tests.unit.coordinator.streams.topologies import METADATA_HASH, configured, internal, subtopology

SPLIT = subtopology("0", "lines", writes=("by-word",))
COUNT = subtopology("1", reads=(internal("by-word"),), changelogs=(internal("counts", 0, 2, cleanup_policy="compact"),))
WORD_COUNT = (SPLIT, COUNT)


def status_of(counts: dict[str, int], *subtopologies: Subtopology) -> HeartbeatStatus | None:
    error = configured(counts, *subtopologies).error
    return None if error is None else error.status


def refused(*subtopologies: Subtopology) -> ApiException:
    with pytest.raises(ApiException) as error:
        configured({"in": 4}, *subtopologies)
    return error.value


# -- partition counts


def test_a_repartition_topic_has_as_many_partitions_as_the_subtopology_that_writes_it_has_tasks() -> None:
    result = configured({"lines": 6}, *WORD_COUNT)
    assert result.topics_to_create["by-word"].num_partitions == 6
    assert result.topics_to_create["counts"].num_partitions == 6
    assert {name: part.task_count for name, part in result.subtopologies.items()} == {"0": 6, "1": 6}


def test_the_largest_source_topic_decides() -> None:
    result = configured({"a": 2, "b": 5}, subtopology("0", "a", "b", changelogs=(internal("store"),)))
    assert result.topics_to_create["store"].num_partitions == 5


def test_a_count_passes_through_a_chain_of_subtopologies_in_any_order() -> None:
    chain = [subtopology("z", "in", writes=("r0",))]
    chain += [subtopology(f"{n}", reads=(internal(f"r{n}"),), writes=(f"r{n + 1}",)) for n in range(9)]
    chain.append(subtopology("end", reads=(internal("r9"),)))
    result = configured({"in": 3}, *reversed(chain))
    assert {topic.num_partitions for topic in result.topics_to_create.values()} == {3}
    assert len(result.topics_to_create) == 10


def test_a_count_set_by_the_application_is_kept() -> None:
    result = configured({"lines": 6}, SPLIT, subtopology("1", reads=(internal("by-word", 9),)))
    assert result.topics_to_create["by-word"].num_partitions == 9
    assert result.subtopologies["1"].task_count == 9


def test_joined_repartition_topics_take_the_count_of_the_source_topic() -> None:
    join = subtopology("1", "users", reads=(internal("by-word"),), joins=(([0], [0]),))
    result = configured({"lines": 6, "users": 4}, SPLIT, join)
    assert result.topics_to_create["by-word"].num_partitions == 4


def test_joined_repartition_topics_take_the_largest_count_among_them() -> None:
    join = subtopology("2", reads=(internal("r0"), internal("r1")), joins=(([], [0, 1]),))
    writers = [subtopology("0", "a", writes=("r0",)), subtopology("1", "b", writes=("r1",))]
    result = configured({"a": 2, "b": 5}, *writers, join)
    assert {topic.num_partitions for topic in result.topics_to_create.values()} == {5}


# -- topics that do not fit


def test_missing_source_topics_come_first() -> None:
    result = configured({}, subtopology("2", "d", "c", "b", "a"), *WORD_COUNT)
    assert result.error is not None
    assert result.error.status is HeartbeatStatus.MISSING_SOURCE_TOPICS
    assert str(result.error) == "Source topics a, b, c and 2 additional topics are missing."
    assert result.subtopologies is None
    assert not result.topics_to_create


@pytest.mark.parametrize(
    ("counts", "join"),
    [
        ({"in": 4, "other": 3}, subtopology("0", "in", "other", joins=(([0, 1], []),))),
        ({"in": 4}, subtopology("0", "in", reads=(internal("r", 3),), joins=(([0], [0]),))),
        ({"in": 4}, subtopology("0", reads=(internal("r", 3), internal("s", 4)), joins=(([], [0, 1]),))),
        ({"in": 4, "r": 5}, subtopology("0", "in", reads=(internal("r", 3),))),
        ({"in": 4, "store": 3}, subtopology("0", "in", changelogs=(internal("store"),))),
    ],
    ids=["source topics", "a fixed count", "two fixed counts", "an existing topic", "an existing changelog"],
)
def test_counts_that_do_not_fit_are_reported(counts: dict[str, int], join: Subtopology) -> None:
    assert status_of(counts, join) is HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS


def test_fixed_counts_are_compared_across_the_topology_if_a_group_has_only_repartition_topics() -> None:
    """A rule of Kafka's, although the topics of subtopology 1 are joined with none of subtopology 0."""
    join = subtopology("0", reads=(internal("r", 3),), joins=(([], [0]),))
    assert status_of({}, join) is HeartbeatStatus.MISSING_INTERNAL_TOPICS
    other = subtopology("1", reads=(internal("s", 4),))
    assert status_of({}, join, other) is HeartbeatStatus.INCORRECTLY_PARTITIONED_TOPICS


# -- topics to create


def test_missing_internal_topics_are_created_as_the_application_wants_them() -> None:
    result = configured({"lines": 6}, *WORD_COUNT)
    assert result.error is not None
    assert result.error.status is HeartbeatStatus.MISSING_INTERNAL_TOPICS
    assert str(result.error) == "Internal topics are missing: counts, by-word"
    assert result.topics_to_create == {
        "by-word": CreatableTopic(name="by-word", num_partitions=6, replication_factor=-1),
        "counts": CreatableTopic(
            name="counts",
            num_partitions=6,
            replication_factor=2,
            configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
        ),
    }


def test_only_missing_topics_are_created() -> None:
    result = configured({"lines": 6, "by-word": 6}, *WORD_COUNT)
    assert list(result.topics_to_create) == ["counts"]


def test_a_topology_is_ready_when_every_topic_exists() -> None:
    result = configured({"lines": 6, "by-word": 6, "counts": 6}, *WORD_COUNT)
    assert result.is_ready
    assert (result.epoch, result.metadata_hash) == (3, METADATA_HASH)
    assert [result.subtopologies[name].is_stateful for name in ("0", "1")] == [False, True]


def test_the_description_has_the_decided_counts() -> None:
    described = configured({"lines": 6}, *WORD_COUNT).describe()
    (changelog,) = described.subtopologies[1].state_changelog_topics
    assert (changelog.name, changelog.partitions, changelog.replication_factor) == ("counts", 6, 2)


# -- invalid topologies


@pytest.mark.parametrize(
    "subtopologies",
    [
        (subtopology("0", "in", reads=(internal("r"),)),),
        (subtopology("0", "in", writes=("r",)), subtopology("1", reads=(internal("s"),), writes=("s",))),
        (subtopology("0"),),
    ],
    ids=["never written", "loop", "no source"],
)
def test_a_topology_that_never_works_is_an_error(subtopologies: tuple[Subtopology, ...]) -> None:
    assert refused(*subtopologies).code is ErrorCode.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize(
    "impossible",
    [
        subtopology("0", "in", joins=(([1], []),)),
        subtopology("0", "in", joins=(([-1], []),)),
        subtopology("0", "in", joins=(([], [0]),)),
        subtopology("0", "in", changelogs=(internal("c"), internal("c"))),
        subtopology("0", "in", reads=(internal("r", -1),)),
        subtopology("0", reads=(internal("r", -1),)),
    ],
)
def test_an_impossible_topology_is_refused_as_in_kafka_and_with_a_reason(impossible: Subtopology) -> None:
    error = refused(impossible)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error.message.startswith("The topology is impossible: ")


def test_an_invalid_name_is_an_error() -> None:
    assert refused(subtopology("0", "in", changelogs=(internal("a b"),))).code is ErrorCode.INVALID_TOPIC_EXCEPTION
