"""The hash of topics. The numbers are those of Kafka 4.3.1."""

from __future__ import annotations

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.metadata_hash import group_hash, topic_hash

TOPIC_ID = Uuid.from_string("6LiKXEbYTIGKKa80k21BrQ")
RACKS = [["a", "b", "é😀"], [], ["rack-1"]]
"""The sorted racks of the replicas of each partition."""


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
