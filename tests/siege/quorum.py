"""Inter-node requests from clients that are neither broker nor controller, on the controller's listener and on
others."""

from __future__ import annotations

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from barnabas.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.protocol.messages.vote import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData
from tests.siege.before_login import always
from tests.siege.entry import Entry
from tests.siege.frames import MIB, request
from tests.siege.stage import BOB, CONTROLLER

__all__ = ["QUORUM"]

_LOG = "__cluster_metadata"
_LOG_ID = Uuid((1).to_bytes(16, "big"))


def _vote() -> bytes:
    partition = VoteRequestPartitionData(
        partition_index=0, replica_epoch=2**31 - 1, replica_id=99, last_offset_epoch=2**31 - 1, last_offset=2**62
    )
    return request(VoteRequest(topics=[VoteRequestTopicData(topic_name=_LOG, partitions=[partition])]))


def _begin() -> bytes:
    partition = BeginQuorumEpochRequestPartitionData(partition_index=0, leader_id=99, leader_epoch=2**31 - 1)
    return request(
        BeginQuorumEpochRequest(topics=[BeginQuorumEpochRequestTopicData(topic_name=_LOG, partitions=[partition])])
    )


def _fetch() -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=2**62, current_leader_epoch=2**31 - 1, last_fetched_epoch=7)
    topic = FetchTopic(topic_id=_LOG_ID, partitions=[partition])
    return request(FetchRequest(replica_state=ReplicaState(replica_id=99), topics=[topic], max_wait_ms=500), 17)


def _alter_partition(count: int) -> bytes:
    partitions = [
        AlterPartitionRequestPartitionData(partition_index=n, leader_epoch=0, new_isr_with_epochs=[])
        for n in range(count)
    ]
    return request(
        AlterPartitionRequest(
            broker_id=1, topics=[AlterPartitionRequestTopicData(topic_id=_LOG_ID, partitions=partitions)]
        )
    )


def _envelope(size: int) -> bytes:
    return request(
        EnvelopeRequest(request_data=bytes(size), request_principal=b"\0", client_host_address=b"\x7f\0\0\1")
    )


_KINDS = {
    "Vote of a stranger with a wild epoch": _vote,
    "BeginQuorumEpoch of a stranger": _begin,
    "Fetch of the metadata log by a stranger with a wild epoch": _fetch,
    "FetchSnapshot of a stranger": lambda: request(FetchSnapshotRequest(replica_id=99, max_bytes=2**31 - 1)),
    "Envelope of a stranger": lambda: _envelope(100),
    "Envelope of 16 MB of a stranger": lambda: _envelope(16 * MIB),
    "AlterPartition of 100,000 partitions by a stranger": lambda: _alter_partition(100_000),
    "BrokerRegistration of a stranger": lambda: request(BrokerRegistrationRequest(broker_id=1, cluster_id="other")),
    "BrokerHeartbeat of a stranger": lambda: request(BrokerHeartbeatRequest(broker_id=1, want_shut_down=True)),
    "AddRaftVoter of a stranger": lambda: request(AddRaftVoterRequest(voter_id=99, voter_directory_id=_LOG_ID)),
}

QUORUM = tuple(Entry(f"{name}, controller", CONTROLLER, always(make), user=BOB) for name, make in _KINDS.items())
