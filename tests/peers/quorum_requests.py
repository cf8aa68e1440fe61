"""Requests of the metadata quorum from a replica in an old epoch: every replica in a later epoch refuses them."""

from __future__ import annotations

from typing import Any

from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import begin_quorum_epoch as begin
from barnabas.protocol.messages import end_quorum_epoch as end
from barnabas.protocol.messages import fetch, fetch_snapshot, vote
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterRequest

__all__ = ["outdated_quorum_request"]

_TOPIC = "__cluster_metadata"
_SENDER = 4000
_ANOTHER = "another cluster"
_TOPIC_ID_SINCE = 13
_EPOCHS_SINCE = 12


def outdated_quorum_request(key: ApiKey, version: int) -> Any:
    """Return a request of epoch 0, or for another cluster. Raise KeyError for an API outside the quorum."""
    return {
        ApiKey.VOTE: _vote,
        ApiKey.BEGIN_QUORUM_EPOCH: _begin,
        ApiKey.END_QUORUM_EPOCH: _end,
        ApiKey.FETCH: _fetch,
        ApiKey.FETCH_SNAPSHOT: _fetch_snapshot,
        ApiKey.ADD_RAFT_VOTER: lambda version: AddRaftVoterRequest(cluster_id=_ANOTHER),
        ApiKey.REMOVE_RAFT_VOTER: lambda version: RemoveRaftVoterRequest(cluster_id=_ANOTHER),
        ApiKey.UPDATE_RAFT_VOTER: lambda version: UpdateRaftVoterRequest(cluster_id=_ANOTHER),
    }[key](version)


def _vote(version: int) -> Any:
    partition = vote.VoteRequestPartitionData(replica_id=_SENDER)
    return vote.VoteRequest(topics=[vote.VoteRequestTopicData(topic_name=_TOPIC, partitions=[partition])])


def _begin(version: int) -> Any:
    partition = begin.BeginQuorumEpochRequestPartitionData(leader_id=_SENDER)
    topic = begin.BeginQuorumEpochRequestTopicData(topic_name=_TOPIC, partitions=[partition])
    return begin.BeginQuorumEpochRequest(topics=[topic])


def _end(version: int) -> Any:
    partition = end.EndQuorumEpochRequestPartitionData(leader_id=_SENDER)
    topic = end.EndQuorumEpochRequestTopicData(topic_name=_TOPIC, partitions=[partition])
    return end.EndQuorumEpochRequest(topics=[topic])


def _fetch(version: int) -> Any:
    partition = fetch.FetchPartition()
    if version >= _EPOCHS_SINCE:
        partition.current_leader_epoch, partition.last_fetched_epoch = 0, 0
    topic = fetch.FetchTopic(partitions=[partition])
    if version < _TOPIC_ID_SINCE:
        topic.topic = _TOPIC
    else:
        topic.topic_id = Uuid.METADATA_TOPIC_ID
    return fetch.FetchRequest(max_wait_ms=0, topics=[topic])


def _fetch_snapshot(version: int) -> Any:
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(current_leader_epoch=0)
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(topics=[topic])
