from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.errors import InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.snapshot import image_from_records, records_of
from barnabas.protocol.record_serde import decode_metadata_record, encode_metadata_record
from barnabas.protocol.records.clear_elr_record import ClearElrRecord
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.records.unregister_broker_record import UnregisterBrokerRecord
from tests.unit.metadata.record_histories import histories

END = MetadataProvenance(1, 1, 1)


def applied(records: list[Any], image: MetadataImage = MetadataImage.EMPTY) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(END)


@given(histories(), st.lists(st.integers(1, 7), min_size=1, max_size=50))
def test_any_grouping_of_the_same_records_gives_the_same_image(records: list[Any], sizes: list[int]) -> None:
    image, rest = MetadataImage.EMPTY, list(records)
    for size in sizes:
        image = applied(rest[:size], image)
        rest = rest[size:]
    assert applied(rest, image) == applied(records)


@given(histories())
def test_image_to_records_and_back_is_identity(records: list[Any]) -> None:
    image = applied(records)
    written = records_of(image)
    assert image_from_records([message for message, _ in written], END) == image
    decoded = [decode_metadata_record(encode_metadata_record(message, version))[0] for message, version in written]
    assert image_from_records(decoded, END) == image


@given(histories(), histories())
def test_a_snapshot_replaces_whatever_was_there(before: list[Any], after: list[Any]) -> None:
    image = applied(after)
    assert image_from_records([m for m, _ in records_of(image)], END, base=applied(before)) == image


@given(histories())
def test_a_snapshot_of_the_same_state_changes_no_topic(records: list[Any]) -> None:
    image = applied(records)
    delta = MetadataDelta(image, is_snapshot=True)
    for message, _ in records_of(image):
        delta.replay(message)
    delta.finish_snapshot()
    assert delta.topics is not None
    assert not delta.topics.changed
    assert not delta.topics.deleted


@given(histories())
def test_the_index_of_imbalanced_partitions_agrees_with_the_partitions(records: list[Any]) -> None:
    topics = applied(records).topics
    slow = [
        (topic.id, index)
        for topic in topics.by_id.values()
        for index, partition in topic.partitions.items()
        if partition.leader != partition.replicas[0]
    ]
    assert sorted(topics.imbalanced) == sorted(slow)
    assert [(topic.id, index) for topic, index, _ in topics.imbalanced_partitions()] == sorted(slow)


@given(histories())
def test_the_broker_index_agrees_with_the_partitions(records: list[Any]) -> None:
    topics = applied(records).topics
    for broker in (1, 2, 3):
        slow = sorted(t.id for t in topics.by_id.values() if broker in t.brokers())
        assert sorted(topics.by_broker.get(broker, ())) == slow
        for topic, index, partition in topics.partitions_on(broker):
            assert broker in (*partition.replicas, *partition.elr)
            assert topic.partitions[index] is partition


@given(histories())
def test_colliding_names_are_found(records: list[Any]) -> None:
    topics = applied(records).topics
    for name in ("a.b", "a_b"):
        assert sorted(topics.names_colliding_with(name)) == sorted(n for n in topics.by_name if n in ("a.b", "a_b"))
    assert topics.names_colliding_with("orders") == ()


def test_what_did_not_change_is_shared() -> None:
    image = applied([TopicRecord(name=f"t{n}", topic_id=Uuid.from_int(n)) for n in range(200, 300)])
    delta = MetadataDelta(image)
    delta.replay(TopicRecord(name="new", topic_id=Uuid.from_int(1000)))
    after = delta.apply(END)
    assert after.topics.get("t200") is image.topics.get("t200")
    assert after.cluster is image.cluster
    assert after.configs is image.configs
    assert image.topics.get("new") is None


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="orders", topic_id=Uuid.from_int(999)),
        TopicRecord(name="other", topic_id=Uuid.from_int(200)),
        PartitionRecord(partition_id=0, topic_id=Uuid.from_int(999)),
        PartitionChangeRecord(partition_id=5, topic_id=Uuid.from_int(200)),
        UnregisterBrokerRecord(broker_id=9, broker_epoch=1),
    ],
    ids=["name taken", "id taken", "unknown topic", "unknown partition", "unknown broker"],
)
def test_a_record_that_contradicts_the_image_is_a_fault(record: Any) -> None:
    image = applied([TopicRecord(name="orders", topic_id=Uuid.from_int(200))])
    with pytest.raises(InvariantViolated):
        applied([record], image)


def test_naming_a_leader_raises_the_leader_epoch_even_if_it_is_the_same() -> None:
    topic_id = Uuid.from_int(200)
    image = applied(
        [
            TopicRecord(name="orders", topic_id=topic_id),
            PartitionRecord(
                partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=4, partition_epoch=9
            ),
            PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1),
            PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]),
        ]
    )
    partition = image.topics.partition(topic_id, 0)
    assert partition is not None
    assert (partition.leader_epoch, partition.partition_epoch) == (5, 11)


def test_a_broker_hears_what_to_start_and_stop() -> None:
    first, second = Uuid.from_int(200), Uuid.from_int(201)
    image = applied(
        [
            TopicRecord(name="a", topic_id=first),
            PartitionRecord(partition_id=0, topic_id=first, replicas=[1, 2], isr=[1, 2], leader=1),
            TopicRecord(name="b", topic_id=second),
            PartitionRecord(partition_id=0, topic_id=second, replicas=[1], isr=[1], leader=1),
        ]
    )
    delta = MetadataDelta(image)
    delta.replay(PartitionChangeRecord(partition_id=0, topic_id=first, leader=2))
    delta.replay(PartitionChangeRecord(partition_id=0, topic_id=second, replicas=[2], isr=[2], leader=2))
    assert delta.topics is not None
    one, two = delta.topics.local_changes(1), delta.topics.local_changes(2)
    assert (set(one.followers), set(one.leaders), one.deletes) == ({(first, 0)}, set(), {(second, 0)})
    assert set(two.leaders) == {(first, 0), (second, 0)}
    assert two.topic_partition((second, 0)).topic == "b"


def test_clearing_the_elr_is_a_change_of_the_partitions_that_have_one() -> None:
    """Leaders give the partition epoch that they know with each change of the ISR."""
    topic_id = Uuid.from_int(300)
    partitions = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=[1, 2],
            isr=[1],
            leader=1,
            partition_epoch=0,
            eligible_leader_replicas=elr,
        )
        for index, elr in enumerate(([2], None))
    ]
    image = applied([TopicRecord(name="orders", topic_id=topic_id), *partitions])
    cleared = applied([ClearElrRecord(topic_name="orders")], image).topics.by_id[topic_id].partitions
    assert [(each.elr, each.partition_epoch) for each in cleared.values()] == [((), 1), ((), 0)]
