"""After a pause, a leader answers nothing as leader before it knows that the voters still follow."""

from __future__ import annotations

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from barnabas.raft.inbound import RaftRequest
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import Ready
from tests.unit.raft.single_voter import CONFIG, voter
from tests.unit.raft.test_fetch_and_flush import elected


def fetched_by(node: RaftNode, voter_id: int, now_ms: int) -> Ready:
    partition = FetchPartition(
        current_leader_epoch=node.epoch,
        fetch_offset=node.log_end_offset,
        last_fetched_epoch=node.epoch,
        replica_directory_id=voter(voter_id).key.directory_id,
    )
    body = FetchRequest(
        cluster_id="cluster",
        replica_state=ReplicaState(replica_id=voter_id),
        topics=[FetchTopic(topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition])],
    )
    return node.receive(RaftRequest(now_ms, body, FetchRequest.MAX_VERSION), now_ms)


def test_a_leader_paused_for_too_long_resigns_before_it_reads_from_its_sockets() -> None:
    node = elected()
    fetched_by(node, 2, 10)
    out_of_touch_ms = 10 + CONFIG.check_quorum_timeout_ms
    ready = fetched_by(node, 2, out_of_touch_ms)
    assert node.state_name == "Resigned"
    [body] = [response.body for response in ready.responses if isinstance(response.body, FetchResponse)]
    assert body.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_with_recent_fetches_continues() -> None:
    node = elected()
    for now_ms in range(10, 2 * CONFIG.check_quorum_timeout_ms, 500):
        fetched_by(node, 2, now_ms)
    assert node.state_name == "Leader"


def test_after_a_shorter_pause_the_first_fetch_of_each_voter_does_not_count() -> None:
    node = elected()
    fetched_by(node, 2, 10)
    fetched_by(node, 2, 2500)
    node.tick(10 + CONFIG.check_quorum_timeout_ms)
    assert node.state_name == "Resigned"
