from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.network.request_splitting import ANSWERED_IN_PARTS, PART_SIZE, join_parts, parts_of
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)


def offsets(sizes: list[int]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=f"t{number}", partitions=[ListOffsetsPartition(partition_index=p) for p in range(size)]
            )
            for number, size in enumerate(sizes)
        ]
    )


def answered(part: Any) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[ListOffsetsPartitionResponse(partition_index=p.partition_index) for p in topic.partitions],
            )
            for topic in part.topics
        ]
    )


@given(st.lists(st.integers(min_value=0, max_value=3 * PART_SIZE), max_size=12))
def test_the_joined_responses_of_all_parts_equal_the_response_of_the_whole(sizes: list[int]) -> None:
    request = offsets(sizes)
    parts = parts_of(ApiKey.LIST_OFFSETS, request)
    for part in parts:
        assert isinstance(part, ListOffsetsRequest)
        assert sum(1 + len(topic.partitions) for topic in part.topics) <= 2 * PART_SIZE + 1
    whole = answered(parts[0])
    for part in parts[1:]:
        join_parts(ApiKey.LIST_OFFSETS, whole, answered(part))
    assert whole == answered(request)
    assert request == offsets(sizes)


def test_a_flat_list_is_split_and_joined_in_its_order() -> None:
    request = DescribeGroupsRequest(groups=[f"g{number}" for number in range(2 * PART_SIZE + 1)])
    parts: list[Any] = parts_of(ApiKey.DESCRIBE_GROUPS, request)
    assert [len(part.groups) for part in parts] == [PART_SIZE, PART_SIZE, 1]
    whole = DescribeGroupsResponse()
    for part in parts:
        more = DescribeGroupsResponse(groups=[DescribedGroup(group_id=group) for group in part.groups])
        join_parts(ApiKey.DESCRIBE_GROUPS, whole, more)
    assert [group.group_id for group in whole.groups] == request.groups


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.CREATE_TOPICS, ApiKey.FETCH])
def test_elements_that_must_be_decided_together_are_not_split(key: ApiKey) -> None:
    assert key not in ANSWERED_IN_PARTS
    request = offsets([500])
    assert parts_of(key, request) == [request]
