"""Error codes are found at any depth of a response."""

from __future__ import annotations

import pytest

from barnabas.network.response_errors import ResponseErrors
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.protocol.messages.heartbeat import HeartbeatResponse
from barnabas.protocol.messages.list_groups import ListGroupsResponse
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteResponse
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from barnabas.protocol.schema import Message


def produced(*codes: int) -> ProduceResponse:
    partitions = [PartitionProduceResponse(index=index, error_code=code) for index, code in enumerate(codes)]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=partitions)])


def added(*codes: int) -> AddPartitionsToTxnResponse:
    partitions = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=partitions)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


@pytest.mark.parametrize(
    ("response", "codes"),
    [
        (HeartbeatResponse(), []),
        (HeartbeatResponse(error_code=25), [25]),
        (produced(0, 0), []),
        (produced(0, 3, 3, 87), [3, 3, 87]),
        (OffsetDeleteResponse(error_code=16), [16]),
        (ListGroupsResponse(), []),
        (added(0, 51), [51]),
    ],
)
def test_the_codes_of_a_response_are_those_that_are_not_0(response: Message, codes: list[int]) -> None:
    assert ResponseErrors(type(response)).of(response) == codes


def test_a_null_list_has_no_codes() -> None:
    assert ResponseErrors(ProduceResponse).of(ProduceResponse(responses=None)) == []


def test_only_the_top_level_code_of_an_encoded_response_is_read() -> None:
    class Encoded:
        error_code = 7

    assert ResponseErrors(MetadataResponse).of(Encoded()) == [7]
    assert ResponseErrors(MetadataResponse).of(object()) == []
