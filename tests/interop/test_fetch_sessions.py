"""One fetch session over 1,000 partitions: empty polls carry nothing, and answers contain only data and changes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.testing import Node
from tests.interop.raw_client import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

PARTITIONS = 1000
VERSION = 17


@pytest.fixture
def client(barnabas_node: Node) -> Iterator[RawClient]:
    made = RawClient(barnabas_node.port)
    yield made
    made.close()


@pytest.fixture
def topic_id(client: RawClient, request: pytest.FixtureRequest) -> Uuid:
    name = f"sessions-{request.node.name}"
    client.call(
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)], timeout_ms=30_000
        )
    )
    answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    found: Uuid = answer.topics[0].topic_id
    return found


def produce(client: RawClient, topic_id: Uuid, *partitions: int) -> None:
    batch = build_batch([Record(0, int(time.time() * 1000), b"k", b"value", ())])
    answer = client.call(
        ProduceRequest(
            acks=1,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=p, records=batch) for p in partitions],
                )
            ],
        )
    )
    assert [p.error_code for p in answer.responses[0].partition_responses] == [0] * len(partitions)


def fetch(
    client: RawClient,
    topic_id: Uuid,
    session_id: int,
    epoch: int,
    wanted: dict[int, int],
    *,
    max_wait_ms: int = 0,
    forget: tuple[int, ...] = (),
    max_bytes: int = 50_000_000,
) -> FetchResponse:
    topics = [
        FetchTopic(
            topic_id=topic_id,
            partitions=[
                FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=100_000)
                for p, offset in wanted.items()
            ],
        )
    ]
    answer: FetchResponse = client.call(
        FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics if wanted else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=topic_id, partitions=list(forget))] if forget else [],
        ),
        VERSION,
    )
    return answer


def mentioned(answer: FetchResponse) -> list[int]:
    return sorted(p.partition_index for topic in answer.responses for p in topic.partitions)


def test_a_session_over_1000_partitions_sends_only_changes(client: RawClient, topic_id: Uuid) -> None:
    first = fetch(client, topic_id, 0, 0, dict.fromkeys(range(PARTITIONS), 0))
    assert mentioned(first) == list(range(PARTITIONS))
    session = first.session_id
    assert session > 0

    assert mentioned(fetch(client, topic_id, session, 1, {})) == []

    produce(client, topic_id, 7, 700)
    second = fetch(client, topic_id, session, 2, {})
    assert mentioned(second) == [7, 700]
    # The request names only partitions that were read, with their next offset.
    assert mentioned(fetch(client, topic_id, session, 3, {7: 1, 700: 1})) == []

    produce(client, topic_id, 7, 8)
    assert mentioned(fetch(client, topic_id, session, 4, {}, forget=(7,))) == [8]


def test_a_waiting_fetch_is_woken_by_any_of_1000_partitions(
    client: RawClient, topic_id: Uuid, barnabas_node: Node
) -> None:
    session = fetch(client, topic_id, 0, 0, dict.fromkeys(range(PARTITIONS), 0)).session_id
    client.send(FetchRequest(max_wait_ms=20_000, min_bytes=1, session_id=session, session_epoch=1, topics=[]), VERSION)
    other = RawClient(barnabas_node.port)
    produce(other, topic_id, 999)
    other.close()
    assert mentioned(client.receive()) == [999]


def test_every_partition_is_served_in_turn_when_the_answer_is_small(client: RawClient, topic_id: Uuid) -> None:
    produce(client, topic_id, *range(20))
    offsets = dict.fromkeys(range(20), 0)
    answer = fetch(client, topic_id, 0, 0, offsets, max_bytes=1)
    session, seen, epoch = answer.session_id, set(), 1
    for _ in range(20):
        read = [p.partition_index for topic in answer.responses for p in topic.partitions if p.records]
        assert len(read) == 1, "one batch at a time fits"
        seen.add(read[0])
        answer = fetch(client, topic_id, session, epoch, {read[0]: 1}, max_bytes=1)
        epoch += 1
    assert seen == set(range(20))


@pytest.mark.parametrize("epoch", [3, 99])
def test_a_wrong_epoch_is_refused(client: RawClient, topic_id: Uuid, epoch: int) -> None:
    session = fetch(client, topic_id, 0, 0, {0: 0}).session_id
    assert fetch(client, topic_id, session, epoch, {}).error_code == 71


def test_an_unknown_session_is_refused(client: RawClient, topic_id: Uuid) -> None:
    assert fetch(client, topic_id, 12345678, 1, {}).error_code == 70


def test_the_figures_of_many_polls(client: RawClient, topic_id: Uuid, capsys: pytest.CaptureFixture[str]) -> None:
    session = fetch(client, topic_id, 0, 0, dict.fromkeys(range(PARTITIONS), 0)).session_id
    began, polls = time.perf_counter(), 50
    for epoch in range(1, polls + 1):
        assert mentioned(fetch(client, topic_id, session, epoch, {})) == []
    with capsys.disabled():
        print(f"\nan empty poll of {PARTITIONS} partitions takes {(time.perf_counter() - began) / polls * 1e3:.2f} ms")
