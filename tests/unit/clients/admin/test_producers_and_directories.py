"""Fencing producers, describing a replica's producers, directories of replicas, and unsupported APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas.clients.admin import (
    FencedProducer,
    TopicPartition,
    TopicPartitionReplica,
    UnsupportedVersion,
)
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from tests.unit.clients.admin.scripted import ScriptedCluster, admin_of


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def coordinated_by(cluster: ScriptedCluster, node_id: int) -> None:
    host = cluster[node_id].address
    cluster.everywhere(
        ApiKey.FIND_COORDINATOR,
        lambda request: FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=node_id, host=host.host, port=host.port)
                for key in request.coordinator_keys
            ]
        ),
    )


def test_producers_are_fenced_by_their_coordinator_one_by_one() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(2)
        coordinated_by(cluster, 2)
        busy = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
        cluster[2].script[ApiKey.INIT_PRODUCER_ID] = [
            busy,
            InitProducerIdResponse(producer_id=7, producer_epoch=3),
            InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ]
        results = await admin_of(cluster).fence_producers(["a", "b"])
        assert results.values == {"a": FencedProducer(7, 3)}
        assert {name: error.code for name, error in results.errors.items()} == {
            "b": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        }
        requests = cluster[2].requests(ApiKey.INIT_PRODUCER_ID)
        assert [request.transactional_id for request in requests] == ["a", "a", "b"]
        assert {request.producer_id for request in requests} == {-1}

    run(test)


def test_a_replica_describes_its_producers() -> None:
    async def test() -> None:
        cluster = ScriptedCluster(2)
        state = ProducerState(producer_id=5, producer_epoch=1, current_txn_start_offset=9)
        partition = PartitionResponse(partition_index=0, error_message=None, active_producers=[state])
        cluster[2].script[ApiKey.DESCRIBE_PRODUCERS] = DescribeProducersResponse(
            topics=[TopicResponse(name="t", partitions=[partition])]
        )
        found = await admin_of(cluster).describe_producers([TopicPartition("t", 0)], broker_id=2)
        (producer,) = found[TopicPartition("t", 0)]
        assert (producer.producer_id, producer.transaction_start_offset) == (5, 9)

    run(test)


def test_a_missing_replica_is_a_result() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        partition = AlterReplicaLogDirPartitionResult(partition_index=0, error_code=ErrorCode.REPLICA_NOT_AVAILABLE)
        cluster[1].script[ApiKey.ALTER_REPLICA_LOG_DIRS] = AlterReplicaLogDirsResponse(
            results=[AlterReplicaLogDirTopicResult(topic_name="t", partitions=[partition])]
        )
        replica = TopicPartitionReplica("t", 0, 1)
        results = await admin_of(cluster).alter_replica_log_dirs({replica: "/data"})
        assert results.errors[replica].code == ErrorCode.REPLICA_NOT_AVAILABLE
        assert len(cluster[1].requests(ApiKey.ALTER_REPLICA_LOG_DIRS)) == 1

    run(test)


def test_an_unsupported_api_is_named_before_any_request() -> None:
    async def test() -> None:
        cluster = ScriptedCluster()
        admin = admin_of(cluster)
        await admin.require_api(ApiKey.LIST_TRANSACTIONS)
        del cluster[1].versions[ApiKey.LIST_TRANSACTIONS]
        with pytest.raises(UnsupportedVersion, match="does not offer ListTransactions"):
            await admin.require_api(ApiKey.LIST_TRANSACTIONS)
        assert cluster[1].requests(ApiKey.LIST_TRANSACTIONS) == []

    run(test)
