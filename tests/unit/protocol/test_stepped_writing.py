from __future__ import annotations

from random import Random

import pytest

from barnabas.protocol import stepped_writing
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse, DescribedGroup, Member
from barnabas.protocol.messages.create_topics import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, NodeEndpoint, PartitionData
from barnabas.protocol.schema import Message
from barnabas.protocol.stepped_writing import takes_steps, write_in_steps
from tests.unit.protocol.samples import MESSAGES, random_message


def in_steps(message: Message, version: int) -> tuple[bytes, int]:
    chunks: list[bytes] = []
    steps = sum(1 for _ in write_in_steps(message, version, chunks))
    return b"".join(chunks), steps


@pytest.mark.parametrize("elements_a_step", [0, 1])
def test_writing_in_steps_produces_the_same_bytes(elements_a_step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepped_writing, "ELEMENTS_A_STEP", max(elements_a_step, 1))
    seed = 20_260 + elements_a_step
    random = Random(seed)
    stepped = 0
    for cls in MESSAGES:
        for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
            message = random_message(cls, version, random)
            written, steps = in_steps(message, version)
            assert written == message.encode(version), (seed, cls.__name__, version)
            assert (steps > 0) == takes_steps(message, version)
            stepped += steps > 0
    assert stepped > 20, "no message was long"


def answer(count: int) -> CreateTopicsResponse:
    configs = [CreatableTopicConfigs(name="retention.ms", value="1")]
    topics = [CreatableTopicResult(name=f"t{number}", configs=configs) for number in range(count)]
    return CreateTopicsResponse(throttle_time_ms=7, topics=topics)


@pytest.mark.parametrize("version", range(2, 8))
def test_each_step_has_a_hundred_elements(version: int) -> None:
    long = answer(1_234)
    assert in_steps(long, version) == (long.encode(version), 13)


def test_a_short_message_takes_no_steps() -> None:
    assert not takes_steps(answer(100), 7)
    assert in_steps(answer(100), 7)[1] == 0


def test_a_message_that_cannot_be_written_at_once_cannot_be_written_in_steps() -> None:
    long = answer(300)
    long.topics[250].num_partitions = 1 << 40
    with pytest.raises(EncodeError):
        in_steps(long, 7)


@pytest.mark.parametrize("version", [4, 11, 12, 16, 17])
def test_the_partitions_of_one_topic_take_steps_too(version: int) -> None:
    partitions = [PartitionData(partition_index=number, records=b"r" * (number % 3)) for number in range(1_234)]
    endpoints = [NodeEndpoint(node_id=1, host="h", port=9092)] if version >= 16 else []
    long = FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)], node_endpoints=endpoints)
    assert takes_steps(long, version)
    assert in_steps(long, version) == (long.encode(version), 13)


def test_topics_with_some_partitions_each_take_steps() -> None:
    topics = [FetchableTopicResponse(partitions=[PartitionData(records=b"")] * 50) for _ in range(40)]
    long = FetchResponse(responses=topics)
    assert in_steps(long, 17) == (long.encode(17), 20)


def test_the_members_of_one_group_take_steps_although_a_field_follows_them() -> None:
    members = [Member(member_id=f"m{number}", client_id="c", client_host="/h") for number in range(1_234)]
    long = ConsumerGroupDescribeResponse(groups=[DescribedGroup(members=members, authorized_operations=77)])
    assert in_steps(long, 1) == (long.encode(1), 13)


def test_large_records_are_not_copied() -> None:
    records = bytes(100_000)
    long = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)] * 101)])
    chunks: list[bytes] = []
    for _ in write_in_steps(long, 17, chunks):
        pass
    assert sum(chunk is records for chunk in chunks) == 101
    assert b"".join(chunks) == long.encode(17)
