"""The hash of topics. The numbers are those of Kafka 4.3.1."""

from __future__ import annotations

from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.metadata_hash import group_hash, rack_bytes, topic_hash_in_steps

TOPIC_ID = Uuid.from_string("6LiKXEbYTIGKKa80k21BrQ")
RACKS = [["a", "b", "é😀"], [], ["rack-1"]]
"""The sorted racks of the replicas of each partition."""


def topic_hash(topic_id: Uuid, name: str, racks: list[list[str]]) -> int:
    return whole(topic_hash_in_steps(topic_id, name, [rack_bytes(of_partition) for of_partition in racks]))


def test_a_topic_has_the_hash_that_kafka_computes() -> None:
    assert topic_hash(TOPIC_ID, "orders", RACKS) == 5361317026938278597


def test_each_part_of_a_topic_matters() -> None:
    others = [
        topic_hash(Uuid.ONE, "orders", RACKS),
        topic_hash(TOPIC_ID, "order", RACKS),
        topic_hash(TOPIC_ID, "orders", [*RACKS, []]),
        topic_hash(TOPIC_ID, "orders", [["b", "é😀"], ["a"], ["rack-1"]]),
    ]
    assert len({topic_hash(TOPIC_ID, "orders", RACKS), *others}) == 5


def test_a_group_has_the_hash_that_kafka_computes() -> None:
    assert group_hash({"orders": 5361317026938278597, "a": 5}) == -6606514892703745038


def test_a_group_without_topics_has_the_hash_0() -> None:
    assert group_hash({}) == 0
