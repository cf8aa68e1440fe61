"""Errors shown to an operator when an internal topic can't be written; ``test_record_producer`` has the rest."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.clients.client_config import client_config
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.connect.errors import ConnectError
from barnabas.connect.run.internal_topics.topic_writer import TopicWriter, WriteFailed
from tests.unit.clients.memory_cluster import TOPIC, MemoryCluster


def write_to(cluster: MemoryCluster) -> list[int]:
    async def main() -> list[int]:
        writer = TopicWriter(cluster.network, TOPIC)
        writer.start(await TopicMetadataSource(cluster.network, TOPIC).load())
        try:
            return await writer.write([(b"k", b"v")], timeout_s=5)
        finally:
            await writer.close()

    return asyncio.run(main())


@pytest.fixture
def cluster() -> MemoryCluster:
    created = MemoryCluster()
    created.config = client_config({"bootstrap.servers": "a:1"})  # type: ignore[attr-defined]
    return created


def test_records_are_written(cluster: MemoryCluster) -> None:
    write_to(cluster)
    assert cluster.values(0) == [b"v"]


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("MESSAGE_TOO_LARGE", "raise max.message.bytes of the topic, or make the configuration smaller"),
        ("TOPIC_AUTHORIZATION_FAILED", "the worker's principal needs WRITE on it"),
    ],
)
def test_a_failure_has_advice(cluster: MemoryCluster, fault: str, advice: str) -> None:
    cluster.faults.append(fault)
    with pytest.raises(WriteFailed, match=f"topic orders can't be written: .*{fault}.* -> {advice}") as caught:
        write_to(cluster)
    assert isinstance(caught.value, ConnectError)


def test_a_failure_without_advice_is_a_connect_error_too(cluster: MemoryCluster) -> None:
    cluster.faults.append("INVALID_RECORD")
    with pytest.raises(WriteFailed, match="INVALID_RECORD"):
        write_to(cluster)
