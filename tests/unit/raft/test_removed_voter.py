"""A removed voter stands for election until its removal is committed: others may need its log, not its vote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages import vote
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.raft.election_state import ElectionState
from barnabas.raft.epochs import CLUSTER_METADATA_TOPIC
from barnabas.raft.inbound import RaftRequest, RaftResponse
from barnabas.raft.leader_epochs import LeaderEpochs
from barnabas.raft.log_state import LogState
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import Ready
from barnabas.raft.voter_set import Endpoint, VoterSet
from tests.unit.raft.single_voter import CONFIG, dynamic_quorum, only_voter, voter

ONE = replace(CONFIG, listeners={"CONTROLLER": Endpoint("host1", 9093)})
TIMEOUT_MS = CONFIG.election_timeout_ms
REMOVED_AT = 5


def removed(*others: int) -> RaftNode:
    """Voter 1, with a log that ends with its own removal; the other voters stay."""
    control_records = dynamic_quorum(1, *others)
    control_records.replay_voters(REMOVED_AT, VoterSet(map(voter, others)))
    epochs = LeaderEpochs()
    epochs.assign(1, 0)
    return only_voter(LogState(end_offset=REMOVED_AT + 1, epochs=epochs), control_records, ONE)


def vote_requests(ready: Ready) -> list[vote.VoteRequestPartitionData]:
    bodies: list[Any] = [request.body for request in ready.requests if isinstance(request.body, vote.VoteRequest)]
    return [body.topics[0].partitions[0] for body in bodies]


def granted(node: RaftNode, ready: Ready, now_ms: int) -> Ready:
    request = next(request for request in ready.requests if isinstance(request.body, vote.VoteRequest))
    partition = vote.VoteResponsePartitionData(leader_id=-1, leader_epoch=node.epoch, vote_granted=True)
    topic = vote.VoteResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    answer = RaftResponse(request.correlation_id, request.destination_id, vote.VoteResponse(topics=[topic]))
    return node.receive(answer, now_ms)


def fetched_by(node: RaftNode, node_id: int, now_ms: int) -> Ready:
    """Let that replica fetch the whole log."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=node.epoch,
        fetch_offset=node.log_end_offset,
        last_fetched_epoch=node.epoch,
        replica_directory_id=voter(node_id).key.directory_id,
    )
    topic = FetchTopic(topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition])
    state = ReplicaState(replica_id=node_id, replica_epoch=-1)
    body = FetchRequest(replica_state=state, max_wait_ms=0, topics=[topic])
    return node.receive(RaftRequest(1, body, FetchRequest.MAX_VERSION), now_ms)


def test_a_removed_voter_leads_until_the_voter_that_stays_has_the_change() -> None:
    """The leader sent the change and lost it in a power failure before its flush; it needs the removed voter's vote."""
    node = removed(2)
    node.start(ElectionState(1), 0)
    ready = node.tick(2 * TIMEOUT_MS)
    assert [partition.pre_vote for partition in vote_requests(ready)] == [True]
    ready = granted(node, ready, 2 * TIMEOUT_MS + 1)
    assert [partition.pre_vote for partition in vote_requests(ready)] == [False]
    led = granted(node, ready, 2 * TIMEOUT_MS + 2)
    assert node.state_name == "Leader"
    assert led.appends
    assert any(isinstance(request.body, BeginQuorumEpochRequest) for request in led.requests)
    node.log_flushed(node.log_end_offset, 2 * TIMEOUT_MS + 3)
    assert node.high_watermark is None, "its own log does not count"
    fetched_by(node, 2, 2 * TIMEOUT_MS + 4)
    assert node.high_watermark == node.log_end_offset
    assert node.state_name == "Resigned"
    node.tick(6 * TIMEOUT_MS)
    node.tick(60 * TIMEOUT_MS)
    assert node.state_name == "Unattached", "its removal is committed"


def test_the_vote_of_a_removed_voter_does_not_count() -> None:
    """Two votes of the three remaining voters are needed, and its own does not count."""
    node = removed(2, 3, 4)
    node.start(ElectionState(1), 0)
    ready = node.tick(2 * TIMEOUT_MS)
    assert len(vote_requests(ready)) == 3
    granted(node, ready, 2 * TIMEOUT_MS + 1)
    assert node.state_name == "Prospective"


def test_an_observer_that_never_voted_does_not_stand() -> None:
    control_records = dynamic_quorum(2, 3)
    control_records.replay_voters(REMOVED_AT, VoterSet([voter(2)]))
    node = only_voter(LogState(end_offset=REMOVED_AT + 1), control_records, ONE)
    node.start(ElectionState(1), 0)
    assert vote_requests(node.tick(60 * TIMEOUT_MS)) == []
    assert node.state_name == "Unattached"


def test_a_voter_that_lost_its_disk_does_not_stand_when_its_old_directory_is_removed() -> None:
    control_records = dynamic_quorum(1, 2)
    control_records.replay_voters(REMOVED_AT, VoterSet([voter(2)]))
    new_disk = replace(ONE, directory_id=Uuid.from_int(77))
    node = only_voter(LogState(end_offset=REMOVED_AT + 1), control_records, new_disk)
    node.start(ElectionState(1), 0)
    assert vote_requests(node.tick(60 * TIMEOUT_MS)) == []


def test_a_removed_leader_that_restarts_does_not_vote_in_the_epoch_that_it_led() -> None:
    """The vote for itself is not stored once it leads."""
    node = removed(2, 3)
    node.start(ElectionState(2, leader_id=1), 0)
    partition = vote.VoteRequestPartitionData(
        replica_epoch=2,
        replica_id=3,
        replica_directory_id=voter(3).key.directory_id,
        voter_directory_id=ONE.directory_id,
        last_offset_epoch=1,
        last_offset=REMOVED_AT + 9,
    )
    topic = vote.VoteRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    body = vote.VoteRequest(cluster_id="cluster", voter_id=1, topics=[topic])
    ready = node.receive(RaftRequest(1, body, vote.VoteRequest.MAX_VERSION), 1)
    answer: Any = ready.responses[0].body
    assert not answer.topics[0].partitions[0].vote_granted
