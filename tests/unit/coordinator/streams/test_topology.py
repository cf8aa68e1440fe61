from __future__ import annotations

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.streams.topology import StreamsTopology, topology_value
from barnabas.protocol.messages import streams_group_heartbeat as heartbeat
from barnabas.protocol.records.streams_group_topology_value import StreamsGroupTopologyValue
from tests.unit.coordinator.streams.topologies import internal, subtopology, topology

COUNT = subtopology("1", "words", reads=(internal("by-word"),), changelogs=(internal("counts"),))
SPLIT = subtopology("0", "lines", "words", writes=("by-word",))


def test_the_record_has_what_the_member_sent() -> None:
    sent = heartbeat.Topology(
        epoch=3,
        subtopologies=[
            heartbeat.Subtopology(
                subtopology_id="0",
                source_topics=["b", "a"],
                repartition_sink_topics=["w"],
                state_changelog_topics=[
                    heartbeat.TopicInfo(
                        name="c", replication_factor=3, topic_configs=[heartbeat.KeyValue(key="k", value="v")]
                    )
                ],
                repartition_source_topics=[heartbeat.TopicInfo(name="r", partitions=7)],
                copartition_groups=[heartbeat.CopartitionGroup(source_topics=[1], repartition_source_topics=[0])],
            )
        ],
    )
    assert topology_value(sent) == StreamsGroupTopologyValue(
        epoch=3,
        subtopologies=[
            subtopology(
                "0",
                "b",
                "a",
                reads=(internal("r", 7),),
                writes=("w",),
                changelogs=(internal("c", 0, 3, k="v"),),
                joins=(([1], [0]),),
            )
        ],
    )


def test_the_required_topics_are_those_that_are_read_or_keep_a_store() -> None:
    assert sorted(topology(COUNT, SPLIT).required_topics()) == ["by-word", "counts", "lines", "words"]


def test_a_topic_that_two_subtopologies_read_belongs_to_the_last() -> None:
    assert topology(COUNT, SPLIT).subtopology_id_by_source_topic == {"lines": "0", "words": "1", "by-word": "1"}


def test_equal_topologies_are_equal_whatever_the_order_of_their_subtopologies() -> None:
    assert topology(COUNT, SPLIT) == topology(SPLIT, COUNT)
    assert topology(COUNT) != topology(SPLIT)


def test_the_order_of_subtopologies_is_that_of_a_hash_map() -> None:
    ids = [str(number) for number in range(13)]
    assert list(topology(*map(subtopology, ids)).subtopologies) == [
        "11", "12", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10",
    ]  # fmt: skip


def test_a_description_is_sorted_and_has_no_decided_counts() -> None:
    described = topology(COUNT, SPLIT).describe()
    assert described.epoch == 3
    assert [part.subtopology_id for part in described.subtopologies] == ["0", "1"]
    assert described.subtopologies[0].source_topics == ["lines", "words"]
    assert [(topic.name, topic.partitions) for topic in described.subtopologies[1].state_changelog_topics] == [
        ("counts", 0)
    ]


@pytest.mark.parametrize(
    "value",
    [StreamsGroupTopologyValue(epoch=-1), StreamsGroupTopologyValue(subtopologies=[SPLIT, SPLIT])],
    ids=["negative epoch", "repeated id"],
)
def test_an_impossible_topology_is_refused_as_in_kafka(value: StreamsGroupTopologyValue) -> None:
    with pytest.raises(ApiException) as refused:
        StreamsTopology.of(value)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
