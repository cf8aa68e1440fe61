"""A voter that lost acknowledged records, or forgot its vote, does not vote until it has recovered."""

from __future__ import annotations

import pytest

from barnabas.protocol.messages import begin_quorum_epoch as begin
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas.protocol.messages.vote import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.raft.election_state import ElectionState
from barnabas.raft.inbound import RaftRequest, RaftResponse, RequestFailed
from barnabas.raft.leader_epochs import LeaderEpochs
from barnabas.raft.log_state import LogState
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import OutboundRequest, Ready
from barnabas.raft.voter_recovery import LostPromises
from tests.unit.raft.single_voter import CONFIG, dynamic_quorum, only_voter

LEADER, OTHER = 2, 3
EPOCH = 5
HELD, LOST_END = 10, 20
FOREVER = 10 * 60 * 1000


FOLLOWED = ElectionState(EPOCH, leader_id=LEADER)


def damaged(lost: LostPromises, stored: ElectionState | None = FOLLOWED) -> tuple[RaftNode, Ready]:
    """Voter 1 of three, with a log of epoch 4 that ends at 10 and once was longer."""
    log = LogState(end_offset=HELD, epochs=LeaderEpochs([(4, 0)]))
    node = only_voter(log, dynamic_quorum(1, LEADER, OTHER), CONFIG)
    return node, node.start(stored, 0, lost)


def records(base_offset: int, end_offset: int, epoch: int = 4) -> bytes:
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for offset in range(base_offset, end_offset):
        builder.append(offset, 0, None, b"x")
    return builder.build()


def fetch_of(ready: Ready) -> OutboundRequest:
    return next(request for request in ready.requests if isinstance(request.body, FetchRequest))


def fetcher_id(request: OutboundRequest) -> int:
    body = request.body
    assert isinstance(body, FetchRequest)
    assert body.replica_state is not None
    return body.replica_state.replica_id


def fetched(request: OutboundRequest, data: bytes, high_watermark: int, epoch: int = EPOCH) -> RaftResponse:
    partition = PartitionData(
        high_watermark=high_watermark,
        current_leader=LeaderIdAndEpoch(leader_id=LEADER, leader_epoch=epoch),
        records=data,
    )
    body = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    return RaftResponse(request.correlation_id, request.destination_id, body)


def announced(epoch: int) -> RaftRequest:
    partition = begin.BeginQuorumEpochRequestPartitionData(leader_id=LEADER, leader_epoch=epoch)
    topic = begin.BeginQuorumEpochRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return RaftRequest(78, begin.BeginQuorumEpochRequest(topics=[topic]), 0)


def asks_for_vote(epoch: int, *, pre_vote: bool, end_offset: int = 1000) -> RaftRequest:
    partition = VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=OTHER,
        replica_directory_id=CONFIG.directory_id,
        last_offset_epoch=EPOCH,
        last_offset=end_offset,
        pre_vote=pre_vote,
    )
    body = VoteRequest(topics=[VoteRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])])
    return RaftRequest(77, body, 2)


def is_granted(ready: Ready) -> bool:
    response = next(response for response in ready.responses if response.correlation_id == 77)
    assert isinstance(response.body, VoteResponse)
    return response.body.topics[0].partitions[0].vote_granted


@pytest.mark.parametrize("pre_vote", [True, False])
def test_a_damaged_voter_grants_no_vote_and_no_pre_vote(pre_vote: bool) -> None:
    node, _ = damaged(LostPromises(LOST_END))
    assert not is_granted(node.receive(asks_for_vote(EPOCH + 1, pre_vote=pre_vote), 1))
    assert node.epoch == EPOCH + 1


@pytest.mark.parametrize(
    "stored",
    [
        ElectionState(EPOCH, leader_id=LEADER),
        ElectionState(EPOCH, leader_id=1),
        ElectionState(EPOCH, voted_key=CONFIG.key),
        ElectionState(EPOCH),
    ],
)
def test_a_damaged_voter_never_stands_for_election(stored: ElectionState) -> None:
    node, ready = damaged(LostPromises(LOST_END), stored)
    for now_ms in range(0, FOREVER, 5000):
        ready = node.tick(now_ms)
        assert not any(isinstance(request.body, VoteRequest) for request in ready.requests)
        assert node.state_name in ("Follower", "Unattached", "Resigned")


def test_a_damaged_voter_that_seems_to_be_alone_elects_no_leader() -> None:
    """The record that made the quorum larger may be among the lost ones."""
    node = only_voter(LogState(end_offset=HELD, epochs=LeaderEpochs([(4, 0)])), dynamic_quorum(1), CONFIG)
    node.start(ElectionState(EPOCH), 0, LostPromises(LOST_END))
    node.tick(FOREVER)
    assert (node.state_name, node.is_only_voter) == ("Unattached", False)


def test_a_damaged_voter_acknowledges_its_records() -> None:
    _, ready = damaged(LostPromises(LOST_END))
    request = fetch_of(ready)
    assert isinstance(request.body, FetchRequest)
    assert request.body.topics[0].partitions[0].fetch_offset == HELD
    assert fetcher_id(request) == 1


def test_a_damaged_voter_votes_again_at_its_former_end_and_the_high_watermark() -> None:
    node, ready = damaged(LostPromises(LOST_END))
    ready = node.receive(fetched(fetch_of(ready), records(HELD, 15), 18), 1)
    ready = node.log_flushed(15, 2)
    assert node.is_recovering
    ready = node.receive(fetched(fetch_of(ready), records(15, LOST_END), 18), 3)
    assert node.is_recovering, "records that are not durable do not count"
    ready = node.log_flushed(LOST_END, 4)
    assert (node.is_recovering, ready.has_recovered) == (False, True)
    assert is_granted(node.receive(asks_for_vote(EPOCH + 1, pre_vote=False), 5))


def test_the_former_end_alone_is_not_enough() -> None:
    """The end of the damaged log may be unknown, so the high watermark counts too."""
    node, ready = damaged(LostPromises(LOST_END))
    node.receive(fetched(fetch_of(ready), records(HELD, LOST_END), 25), 1)
    node.log_flushed(LOST_END, 2)
    assert node.is_recovering


def test_a_leader_without_commits_in_its_epoch_does_not_end_the_recovery() -> None:
    node, ready = damaged(LostPromises(LOST_END))
    node.receive(fetched(fetch_of(ready), records(HELD, LOST_END), -1), 1)
    node.log_flushed(LOST_END, 2)
    assert node.is_recovering


def test_responses_of_an_earlier_leader_do_not_count() -> None:
    node, ready = damaged(LostPromises(LOST_END))
    node.receive(fetched(fetch_of(ready), records(HELD, LOST_END), 15), 1)
    node.receive(asks_for_vote(EPOCH + 1, pre_vote=False), 2)
    node.log_flushed(LOST_END, 3)
    assert node.is_recovering


def test_records_that_the_leader_lacks_were_never_committed_and_are_not_waited_for() -> None:
    """Without a new record, the former end would never be reached again."""
    node, ready = damaged(LostPromises(LOST_END))
    ready = node.receive(fetched(fetch_of(ready), records(HELD, 15), 15), 1)
    ready = node.log_flushed(15, 2)
    assert node.is_recovering, "the leader may have more"
    ready = node.receive(fetched(fetch_of(ready), b"", 15), 3)
    assert (node.is_recovering, ready.has_recovered) == (False, True)


def test_the_end_of_an_earlier_leaders_log_proves_nothing() -> None:
    node, ready = damaged(LostPromises(LOST_END))
    ready = node.receive(fetched(fetch_of(ready), b"", -1), 1)
    node.receive(asks_for_vote(EPOCH + 1, pre_vote=False), 2)
    ready = node.receive(announced(EPOCH + 1), 3)
    ready = node.receive(fetched(fetch_of(ready), records(HELD, 15, EPOCH + 1), 12, EPOCH + 1), 4)
    node.log_flushed(15, 5)
    assert node.is_recovering


# --- the vote is unknown


FORGOT = LostPromises(HELD, forgot_votes=True)


def questions(ready: Ready) -> dict[int, OutboundRequest]:
    found = {request.destination_id: request for request in ready.requests if isinstance(request.body, VoteRequest)}
    for request in found.values():
        assert isinstance(request.body, VoteRequest)
        assert request.body.topics[0].partitions[0].pre_vote
    return found


def epoch_answer(request: OutboundRequest, epoch: int, leader_id: int = -1) -> RaftResponse:
    partition = VoteResponsePartitionData(leader_id=leader_id, leader_epoch=epoch, vote_granted=False)
    body = VoteResponse(topics=[VoteResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])])
    return RaftResponse(request.correlation_id, request.destination_id, body)


def test_a_voter_that_forgot_its_vote_asks_every_other_voter_for_its_epoch() -> None:
    _, ready = damaged(FORGOT, None)
    assert set(questions(ready)) == {LEADER, OTHER}


def test_a_voter_that_forgot_its_vote_does_not_count_until_all_have_answered() -> None:
    node, ready = damaged(FORGOT, None)
    requests = questions(ready)
    ready = node.receive(epoch_answer(requests[LEADER], EPOCH, LEADER), 1)
    assert fetcher_id(fetch_of(ready)) == -1
    ready = node.receive(fetched(fetch_of(ready), b"", HELD), 2)
    assert node.is_recovering
    assert fetcher_id(fetch_of(ready)) == -1
    ready = node.tick(CONFIG.request_timeout_ms + 1)
    node.receive(epoch_answer(questions(ready)[OTHER], EPOCH), CONFIG.request_timeout_ms + 2)
    assert not node.is_recovering


def test_a_higher_epoch_in_a_response_is_adopted() -> None:
    node, ready = damaged(FORGOT, None)
    node.receive(epoch_answer(questions(ready)[OTHER], 9), 1)
    assert (node.epoch, node.is_recovering) == (9, True)


def test_a_voter_that_forgot_its_vote_and_knows_no_other_does_not_count() -> None:
    node = only_voter(LogState(end_offset=HELD, epochs=LeaderEpochs([(4, 0)])), dynamic_quorum(), CONFIG)
    node.start(None, 0, FORGOT)
    recovery = node._quorum.recovery
    assert recovery is not None
    assert not recovery.knows_epochs([])


def test_a_voter_without_pre_votes_receives_a_vote_request_of_a_past_epoch() -> None:
    node, ready = damaged(FORGOT, None)
    node.receive(RequestFailed(questions(ready)[OTHER].correlation_id, OTHER, is_unsupported_version=True), 1)
    ready = node.tick(1 + CONFIG.retry_backoff_ms)
    vote_request = next(request for request in ready.requests if request.destination_id == OTHER)
    assert isinstance(vote_request.body, VoteRequest)
    partition = vote_request.body.topics[0].partitions[0]
    assert (partition.pre_vote, partition.replica_epoch, partition.last_offset_epoch) == (False, 1, 0)
    node.receive(epoch_answer(vote_request, 9), 50)
    assert node.epoch == 9


def test_a_voter_without_pre_votes_reports_the_first_epoch_once_its_leader_is_known() -> None:
    """Its vote in that epoch cannot matter any longer: a leader was elected. Before, the vote could elect another."""
    log = LogState(end_offset=HELD, epochs=LeaderEpochs([(1, 0)]))
    node = only_voter(log, dynamic_quorum(1, LEADER, OTHER), CONFIG)
    sent = questions(node.start(None, 0, FORGOT))
    node.receive(RequestFailed(sent[OTHER].correlation_id, OTHER, is_unsupported_version=True), 1)
    ready = node.tick(1 + CONFIG.retry_backoff_ms)
    assert OTHER not in {request.destination_id for request in ready.requests}
    ready = node.receive(epoch_answer(sent[LEADER], 1, LEADER), 50)
    node.receive(fetched(fetch_of(ready), b"", HELD, 1), 60)
    ready = node.tick(60 + CONFIG.request_timeout_ms)
    past = next(request for request in ready.requests if request.destination_id == OTHER)
    assert isinstance(past.body, VoteRequest)
    assert past.body.topics[0].partitions[0].replica_epoch == 1
    node.receive(epoch_answer(past, 1), 70 + CONFIG.request_timeout_ms)
    assert node.epoch == 1
    assert node._quorum.recovery is None or node._quorum.recovery.knows_epochs([LEADER, OTHER])
