"""Where reading begins and ends, from the options and the offsets of the cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.records.positions import Start, chosen_start, end_positions, start_positions
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.consumer.listed_offsets import EARLIEST, LATEST
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.clients.memory_cluster import TOPIC, MemoryCluster

NOW = 1_800_000_000_000


def start_of(**options: Any) -> Start:
    given = {"from_beginning": False, "from_": None, "offset": None, "partitions": None, "now_ms": NOW}
    return chosen_start(**(given | options))


def test_without_options_reading_begins_at_the_end() -> None:
    assert start_of() == Start(LATEST)


def test_each_option_chooses_a_start() -> None:
    assert start_of(from_beginning=True) == Start(EARLIEST)
    assert start_of(from_="beginning") == Start(EARLIEST)
    assert start_of(from_="end") == Start(LATEST)
    assert start_of(from_="-1h") == Start(NOW - 3_600_000)
    assert start_of(offset="earliest") == Start(EARLIEST)
    assert start_of(offset="-10") == Start(last=10)
    assert start_of(offset="7", partitions=[0]) == Start(offset=7)


def test_contradictions_and_bad_offsets_are_refused() -> None:
    with pytest.raises(UsageError, match="--from-beginning and --offset can't be used together"):
        start_of(from_beginning=True, offset="1")
    with pytest.raises(UsageError, match="--offset 7 needs --partition"):
        start_of(offset="7")
    with pytest.raises(UsageError, match="--offset x: write a number"):
        start_of(offset="x", partitions=[0])


class Cluster(MemoryCluster):
    """Two partitions with offsets 5 to 20; a record from time 1000 on is at offset 8 of partition 0 only."""

    def __init__(self) -> None:
        super().__init__(2)
        self.list_faults: list[ErrorCode] = []

    def answer(self, node: int, message: Any) -> Any:
        if message.API_KEY != ApiKey.LIST_OFFSETS:
            return super().answer(node, message)
        (topic,) = message.topics
        parts = []
        for wanted in topic.partitions:
            offset = {LATEST: 20 - message.isolation_level, EARLIEST: 5}.get(wanted.timestamp, -1)
            if wanted.timestamp == 1000 and wanted.partition_index == 0:
                offset = 8
            code = self.list_faults.pop() if self.list_faults else ErrorCode.NONE
            parts.append(
                ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index, offset=-1 if code else offset, error_code=code
                )
            )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=parts)])


def starts(start: Start, cluster: Cluster | None = None, **options: Any) -> dict[int, int]:
    cluster = cluster or Cluster()
    source = TopicMetadataSource(cluster.network, TOPIC)
    return asyncio.run(start_positions(cluster.network, source, [0, 1], start, **options))


def test_starts_are_resolved_by_the_cluster() -> None:
    assert starts(Start(EARLIEST)) == {0: 5, 1: 5}
    assert starts(Start(LATEST)) == {0: 20, 1: 20}
    assert starts(Start(1000)) == {0: 8, 1: 20}
    assert starts(Start(last=3)) == {0: 17, 1: 17}
    assert starts(Start(last=30)) == {0: 5, 1: 5}
    assert starts(Start(offset=7)) == {0: 7, 1: 7}
    assert starts(Start(positions={0: 1, 1: 2})) == {0: 1, 1: 2}
    assert starts(Start(LATEST), read_committed=True) == {0: 19, 1: 19}


def test_leaders_that_move_are_looked_up_again_and_other_errors_are_raised() -> None:
    cluster = Cluster()
    cluster.list_faults = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert starts(Start(EARLIEST), cluster) == {0: 5, 1: 5}
    cluster.list_faults = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(AdminError, match="TOPIC_AUTHORIZATION_FAILED"):
        starts(Start(EARLIEST), cluster)


def test_an_end_is_that_of_the_partition_or_of_a_time() -> None:
    cluster = Cluster()
    source = TopicMetadataSource(cluster.network, TOPIC)
    assert asyncio.run(end_positions(cluster.network, source, [0, 1])) == {0: 20, 1: 20}
    assert asyncio.run(end_positions(cluster.network, source, [0], 1000)) == {0: 8}
