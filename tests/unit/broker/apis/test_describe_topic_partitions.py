"""Pages of DescribeTopicPartitions, and entries that are cached in encoded form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.apis import describe_topic_partitions
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.unit.broker.apis.test_denials import World
from tests.unit.controller.controller_harness import topic

SIZES = {"a": 3, "b": 1, "c": 4, "secret": 1}


class Topics(World):
    def __init__(self) -> None:
        super().__init__("TOPIC:DESCRIBE")
        self.harness.create(*(topic(name, partitions) for name, partitions in SIZES.items() if name != "secret"))
        self.publish()

    def publish(self) -> None:
        manifest: Any = None
        self.broker.metadata.publish(SimpleNamespace(), self.harness.controller.committed_image, manifest)

    def page(self, limit: int, cursor: Cursor | None = None, names: tuple[str, ...] = ()) -> Any:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        return self.ask(request, 0)


@pytest.fixture(autouse=True, params=[1, 2, 100])
def topics_a_step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_topic_partitions, "TOPICS_A_STEP", request.param)


def counted(answer: Any) -> list[tuple[str, list[int]]]:
    return [(t.name, [partition.partition_index for partition in t.partitions]) for t in answer.topics]


@pytest.mark.parametrize("limit", range(1, 12))
def test_pages_of_any_size_have_every_partition_once(limit: int) -> None:
    world = Topics()
    cursor, seen, pages = None, {}, 0
    while True:
        answer = world.page(limit, cursor)
        found = counted(answer)
        assert sum(len(partitions) for _, partitions in found) <= limit
        for name, partitions in found:
            seen.setdefault(name, []).extend(partitions)
        pages += 1
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert seen == {name: list(range(count)) for name, count in SIZES.items()}
    assert pages == -(-sum(SIZES.values()) // limit)


def test_a_cursor_continues_in_the_middle_of_a_topic() -> None:
    answer = Topics().page(2, Cursor(topic_name="c", partition_index=1))
    assert counted(answer) == [("c", [1, 2])]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("c", 3)


def test_a_cursor_at_a_deleted_topic_continues_after_it() -> None:
    assert counted(Topics().page(100, Cursor(topic_name="bb", partition_index=7))) == [
        ("c", [0, 1, 2, 3]),
        ("secret", [0]),
    ]


def test_named_topics_are_sorted_and_returned_once() -> None:
    answer = Topics().page(100, names=("c", "a", "nothing", "c"))
    assert [(t.name, t.error_code) for t in answer.topics] == [("a", 0), ("c", 0), ("nothing", 3)]
    assert [len(t.partitions) for t in answer.topics] == [3, 4, 0]


def test_a_cached_entry_is_dropped_when_its_topic_grows() -> None:
    world = Topics()
    assert dict(counted(world.page(100)))["b"] == [0]
    world.harness.create(topic("b2", 1))
    world.publish()
    assert dict(counted(world.page(100))).keys() == {"a", "b", "b2", "c", "secret"}
    assert world.page(100).topics[0].topic_authorized_operations == world.page(1).topics[0].topic_authorized_operations
