from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common import stepped_sort
from barnabas.common.acl import AclBinding
from barnabas.common.errors import InvariantViolated
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.metadata.image import acls, client_quotas, configs, keyed_records, topics
from barnabas.metadata.image.acls import acl_record
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.image.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.metadata.image.topics import LocalReplicaChanges, TopicsImage
from barnabas.metadata.metadata_version import LATEST_PRODUCTION
from barnabas.metadata.snapshot import image_from_records, pieces_of, records_of
from barnabas.protocol.record_serde import decode_metadata_record, encode_metadata_record
from barnabas.protocol.records.clear_elr_record import ClearElrRecord
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from tests.unit.metadata.record_histories import histories

END = MetadataProvenance(1, 1, 1)


def applied(records: list[Any], image: MetadataImage = MetadataImage.EMPTY) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(END)


@given(histories(), st.lists(st.integers(1, 7), min_size=1, max_size=50))
def test_any_grouping_of_the_same_records_results_in_the_same_image(records: list[Any], sizes: list[int]) -> None:
    image, rest = MetadataImage.EMPTY, list(records)
    for size in sizes:
        image = applied(rest[:size], image)
        rest = rest[size:]
    assert applied(rest, image) == applied(records)


@given(histories(), st.integers(0, 40), st.integers(1, 4))
def test_an_image_built_in_steps_is_the_same_in_all_parts(records: list[Any], begun: int, changes_a_step: int) -> None:
    before = applied(records[:begun])
    delta, other = MetadataDelta(before), MetadataDelta(before)
    for record in records[begun:]:
        delta.replay(record)
        other.replay(record)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "CHANGES_A_STEP", changes_a_step)
        in_steps = whole(delta.apply_in_steps(END))
    at_once = other.apply(END)
    assert in_steps == at_once
    assert_same_indexes(in_steps.topics, at_once.topics)


def assert_same_indexes(left: TopicsImage, right: TopicsImage) -> None:
    assert (left.by_id, left.by_broker, left.colliding, left.imbalanced) == (
        right.by_id,
        right.by_broker,
        right.colliding,
        right.imbalanced,
    )
    assert left.index._led_counts == right.index._led_counts
    assert left.index._leaderless == right.index._leaderless
    assert left.index.reassigning == right.index.reassigning


@pytest.mark.parametrize("count", [1, 3, 4, 10])
def test_a_large_topic_is_added_and_removed_in_steps(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "CHANGES_A_STEP", 3)
    topic_id = Uuid.from_int(7)
    creation = [
        TopicRecord(name="large.one", topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=[number % 3, 9],
                isr=[number % 3],
                leader=number % 3,
                directories=[Uuid.from_int(1), Uuid.from_int(1)],
            )
            for number in range(count)
        ),
    ]
    delta = MetadataDelta(MetadataImage.EMPTY)
    for record in creation:
        delta.replay(record)
    steps = delta.apply_in_steps(END)
    assert sum(1 for _ in delta.topics_or_create().apply_in_steps()) == -(-count // 3)
    image = whole(steps)
    assert image == applied(creation)
    assert_same_indexes(image.topics, applied(creation).topics)
    removal = MetadataDelta(image)
    removal.replay(RemoveTopicRecord(topic_id=topic_id))
    assert sum(1 for _ in removal.topics_or_create().apply_in_steps()) == -(-count // 3)
    assert_same_indexes(whole(removal.apply_in_steps(END)).topics, TopicsImage.EMPTY)
    assert len(removal.topics_or_create().deleted[topic_id].partitions) == count


@given(histories())
def test_image_to_records_and_back_is_identity(records: list[Any]) -> None:
    image = applied(records)
    written = records_of(image)
    assert image_from_records([message for message, _ in written], END) == image
    decoded = [decode_metadata_record(encode_metadata_record(message, version))[0] for message, version in written]
    assert image_from_records(decoded, END) == image


@given(histories(), histories())
def test_a_snapshot_replaces_the_previous_state(before: list[Any], after: list[Any]) -> None:
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


@given(histories())
def test_the_broker_index_agrees_with_the_partitions(records: list[Any]) -> None:
    topics = applied(records).topics
    for broker in (1, 2, 3):
        slow = sorted(t.id for t in topics.by_id.values() if broker in t.brokers())
        assert sorted(topics.by_broker.get(broker, ())) == slow


@given(histories())
def test_the_index_of_leaderless_partitions_agrees_with_the_partitions(records: list[Any]) -> None:
    topics = applied(records).topics
    slow = sorted(
        (topic.id, partition_id)
        for topic in topics.by_id.values()
        for partition_id, partition in topic.partitions.items()
        if partition.leader == NO_LEADER
    )
    assert list(topics.index.leaderless()) == slow
    for broker in (1, 2, 3):
        held = [key for key in slow if broker in topics.by_id[key[0]].partitions[key[1]].replicas]
        assert list(topics.index.leaderless_on(broker)) == held


def test_a_change_of_some_partitions_does_not_read_the_whole_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers of a topic are known already, and a change of its eligible leaders rarely changes them."""
    topic_id = Uuid.from_int(400)
    partitions = [
        PartitionRecord(partition_id=number, topic_id=topic_id, replicas=[1, 2], isr=[1, 2], leader=1)
        for number in range(5_000)
    ]
    image = applied([TopicRecord(name="orders", topic_id=topic_id), *partitions])
    looks = 0

    def counted(partition: PartitionRegistration) -> tuple[int, ...]:
        nonlocal looks
        looks += 1
        return partition.replicas + partition.elr

    monkeypatch.setattr(topics, "_holders_of", counted)
    change = PartitionChangeRecord(partition_id=7, topic_id=topic_id, isr=[1], eligible_leader_replicas=[2])
    changed = applied([change], image).topics
    assert changed.by_id[topic_id].partitions[7].elr == (2,)
    assert looks < 10
    elsewhere = PartitionChangeRecord(partition_id=7, topic_id=topic_id, replicas=[1, 3], eligible_leader_replicas=[])
    changed = applied([elsewhere], applied([change], image)).topics
    assert [broker for broker in (1, 2, 3) if topic_id in changed.by_broker[broker]] == [1, 2, 3]
    assert looks < 30


@given(histories())
def test_colliding_names_are_found(records: list[Any]) -> None:
    topics = applied(records).topics
    for name in ("a.b", "a_b"):
        assert sorted(topics.names_colliding_with(name)) == sorted(n for n in topics.by_name if n in ("a.b", "a_b"))
    assert topics.names_colliding_with("orders") == ()


def test_unchanged_parts_are_shared() -> None:
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


def test_a_delta_lists_the_partitions_that_a_broker_starts_and_stops() -> None:
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
    (of_broker_1, _), (of_broker_2, _) = (local_changes(delta, broker_id) for broker_id in (1, 2))
    assert (set(of_broker_1.followers), set(of_broker_1.leaders), of_broker_1.deletes) == (
        {(first, 0)},
        set(),
        {(second, 0)},
    )
    assert set(of_broker_2.leaders) == {(first, 0), (second, 0)}
    assert of_broker_2.topic_partition((second, 0)).topic == "b"
    only = delta.topics.local_changes(1, [second, Uuid.from_int(202)])
    assert (only.followers, only.leaders, only.deletes) == ({}, {}, {(second, 0)})


def local_changes(delta: MetadataDelta, broker_id: int) -> tuple[LocalReplicaChanges, int]:
    """Return the changes, and the number of steps."""
    assert delta.topics is not None
    steps = delta.topics.local_changes_in_steps(broker_id)
    for count in range(1, 10_000):
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value, count
    raise AssertionError("it never ends")


def test_changes_of_many_partitions_are_listed_in_steps() -> None:
    ids = [Uuid.from_int(number) for number in range(200, 230)]
    records = [
        record
        for number, topic_id in enumerate(ids)
        for record in (
            TopicRecord(name=f"t{number}", topic_id=topic_id),
            *(
                PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1)
                for index in range(2_000 if number == 7 else 100)
            ),
        )
    ]
    image = applied(records)
    created, deleted = MetadataDelta(MetadataImage.EMPTY), MetadataDelta(image)
    for record in records:
        created.replay(record)
    for topic_id in ids:
        deleted.replay(RemoveTopicRecord(topic_id=topic_id))
    leads, steps = local_changes(created, 1)
    assert (len(leads.leaders), steps) == (4_900, 10)
    goes, steps = local_changes(deleted, 1)
    assert (goes.deletes, steps) == (set(leads.leaders), 10)


def test_clearing_the_elr_is_a_change_of_the_partitions_that_have_one() -> None:
    """Leaders send their partition epoch with each change of the ISR."""
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
    assert [(partition.elr, partition.partition_epoch) for partition in cleared.values()] == [((), 1), ((), 0)]


@pytest.mark.parametrize("count", [0, 1, 1_024, 1_025, 5_000])
def test_the_records_of_a_snapshot_are_released_piece_by_piece(count: int) -> None:
    records: list[Any] = list(range(count))
    seen: list[Any] = []
    for piece in pieces_of(records):
        seen += piece
        assert len(piece) <= 1_024
        assert len(records) == count - len(seen)
    assert seen == list(range(count))


def test_a_snapshot_is_sorted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written on a thread: sorting 200,000 names there would hold the event loop for a tenth of a second."""
    count = 300
    records: list[Any] = []
    for number in range(count):
        identity = Uuid.from_int(10_000 + 7919 * number % 1_000)
        name = f"n{7919 * number % 1_000:04}"
        records += [
            TopicRecord(name=name, topic_id=identity),
            PartitionRecord(partition_id=0, topic_id=identity, replicas=[1], isr=[1], leader=1),
            ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value="1"),
            acl_record(identity, AclBinding(2, name, 3, "User:alice", "*", 3, 3)),
            ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=name)], key="producer_byte_rate"),
            UserScramCredentialRecord(name=name, mechanism=1, iterations=4096),
        ]
    image = applied(records)
    expected = records_of(image, LATEST_PRODUCTION)
    longest = 0

    def counted(items: Iterable[Any], key: Any = None) -> list[Any]:
        nonlocal longest
        found = sorted(items, key=key)
        longest = max(longest, len(found))
        return found

    monkeypatch.setattr(stepped_sort, "ITEMS_A_RUN", 16)
    for module in (topics, configs, acls, client_quotas, keyed_records, stepped_sort):
        monkeypatch.setattr(module, "sorted", counted, raising=False)
    assert records_of(image, LATEST_PRODUCTION) == expected
    assert 16 <= longest <= 32
