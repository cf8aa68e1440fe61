"""The range assignor gives what Kafka's gives, and reads what other clients write."""

from __future__ import annotations

from barnabas.clients.consumer.range_assignor import assign, read_assignment, subscribed_topics, subscription
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription


def assigned(topics_by_member: dict[str, list[str]], counts: dict[str, int]) -> dict[str, dict[str, list[int]]]:
    found = assign(topics_by_member, counts)
    return {
        member: {
            topic: sorted(part.partition for part in read_assignment(found[member]) if part.topic == topic)
            for topic in topics
        }
        for member, topics in topics_by_member.items()
    }


def test_the_first_members_get_the_rest() -> None:
    found = assigned({"b": ["orders"], "a": ["orders"], "c": ["orders"]}, {"orders": 7})
    assert found == {"a": {"orders": [0, 1, 2]}, "b": {"orders": [3, 4]}, "c": {"orders": [5, 6]}}


def test_topics_are_divided_among_their_subscribers() -> None:
    found = assigned({"a": ["orders", "gone"], "b": ["orders", "other"]}, {"orders": 1, "other": 2})
    assert found == {"a": {"orders": [0], "gone": []}, "b": {"orders": [], "other": [0, 1]}}


def test_an_empty_assignment_has_no_partitions() -> None:
    assert read_assignment(b"") == frozenset()


def test_a_subscription_of_any_version_is_read() -> None:
    assert subscribed_topics(subscription(["orders"])) == ["orders"]
    newer = b"\0\3" + ConsumerProtocolSubscription(topics=["orders", "other"], rack_id="r").encode(3)
    assert subscribed_topics(newer) == ["orders", "other"]
    assert subscribed_topics(b"\0\0\0") == []
