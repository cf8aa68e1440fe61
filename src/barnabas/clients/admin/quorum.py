"""Operations on the controllers' quorum: its leader, the lag of its replicas, adding and removing voters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, refuse_unless
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
)
from barnabas.protocol.messages.describe_quorum import ReplicaState as VoterOrObserver
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

__all__ = ["QuorumInfo", "QuorumNode", "QuorumOperations", "RaftVoterEndpoint", "ReplicaState"]

_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class RaftVoterEndpoint:
    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A voter or observer. Times are milliseconds since 1970, None if unknown."""

    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp_ms: int | None = None
    last_caught_up_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QuorumNode:
    id: int
    endpoints: tuple[RaftVoterEndpoint, ...]


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    nodes: tuple[QuorumNode, ...]


class QuorumOperations(Operations):
    async def describe_quorum(self, *, timeout_s: float | None = None) -> QuorumInfo:
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        response = await self._call(
            DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name=_TOPIC, partitions=[partition])]),
            self._deadline(timeout_s),
            api=ApiKey.DESCRIBE_QUORUM,
            settle=_partition_error,
        )
        data = _partition(response)
        if data is None:  # ``settle`` has refused such an answer.
            raise _unmentioned()
        return QuorumInfo(
            data.leader_id,
            data.leader_epoch,
            data.high_watermark,
            tuple(_replica(voter) for voter in data.current_voters),
            tuple(_replica(observer) for observer in data.observers),
            tuple(
                QuorumNode(
                    node.node_id,
                    tuple(
                        RaftVoterEndpoint(listener.name, listener.host, listener.port) for listener in node.listeners
                    ),
                )
                for node in response.nodes
            ),
        )

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Make an observer a voter. Raise AdminError."""
        listeners = [Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port) for endpoint in endpoints]
        refuse_unless(voter_id >= 0, f"{voter_id} is not a voter id")
        refuse_unless(listeners, "a voter needs an endpoint")
        deadline = self._deadline(timeout_s)
        await self._call(
            AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=self._timeout_ms(deadline),
                voter_id=voter_id,
                voter_directory_id=directory_id,
                listeners=listeners,
            ),
            deadline,
            api=ApiKey.ADD_RAFT_VOTER,
        )

    async def remove_raft_voter(
        self, voter_id: int, directory_id: Uuid, *, cluster_id: str | None = None, timeout_s: float | None = None
    ) -> None:
        """Remove a voter. Raise AdminError."""
        refuse_unless(voter_id >= 0, f"{voter_id} is not a voter id")
        await self._call(
            RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id),
            self._deadline(timeout_s),
            api=ApiKey.REMOVE_RAFT_VOTER,
        )


def _partition(response: DescribeQuorumResponse) -> DescribeQuorumResponsePartitionData | None:
    return next((partition for topic in response.topics for partition in topic.partitions), None)


def _partition_error(response: DescribeQuorumResponse) -> AdminError | None:
    data = _partition(response)
    if data is None:
        return _unmentioned()
    return admin_error(data.error_code, data.error_message, _TOPIC) if data.error_code else None


def _unmentioned() -> AdminError:
    return AdminError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer omits the metadata log")


def _replica(replica: VoterOrObserver) -> ReplicaState:
    return ReplicaState(
        replica.replica_id,
        replica.replica_directory_id,
        replica.log_end_offset,
        replica.last_fetch_timestamp if replica.last_fetch_timestamp >= 0 else None,
        replica.last_caught_up_timestamp if replica.last_caught_up_timestamp >= 0 else None,
    )
