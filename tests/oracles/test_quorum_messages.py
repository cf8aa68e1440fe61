"""Our messages equal those that real controllers and brokers exchanged, field by field, in the same situation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.vote import VoteRequest, VoteResponse
from barnabas.protocol.schema import Message
from barnabas.raft.control_record_state_machine import BOOTSTRAP_OFFSET, ControlRecordStateMachine
from barnabas.raft.inbound import RaftRequest, RaftResponse
from barnabas.raft.log_state import LogState
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import OutboundRequest, Ready
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.voter_set import Endpoint, VoterSet
from barnabas.storage.snapshot_file import SnapshotReader
from tests.oracles.archives import unpack
from tests.simulation.raft_cluster import TextSerde

pytestmark = pytest.mark.oracle

DATA = Path(__file__).parent / "data" / "kraft"
MESSAGES = [json.loads(line) for line in (DATA / "quorum-messages.jsonl").read_text().splitlines()]
CLUSTER_ID = "2boCr_BmS0eFmuQV6x-PFQ"


def captured(api: str, direction: str, link: str, index: int = 0, run: str = "m3-controllers") -> dict[str, Any]:
    wanted = (run, api, direction, link)
    found = [
        message
        for message in MESSAGES
        if (message["run"], message["api"], message["direction"], message["link"]) == wanted
    ]
    body: dict[str, Any] = found[index]["body"]
    return body


@pytest.fixture(scope="module")
def voters(tmp_path_factory: pytest.TempPathFactory) -> VoterSet:
    """The three voters that these controllers were formatted with."""
    folder = tmp_path_factory.mktemp("kraft")
    unpack(DATA / "storage-c.tar.xz", folder)
    directory = folder / "storage-c" / "controller-3002" / "__cluster_metadata-0"
    found = SnapshotReader(str(directory), OffsetAndEpoch(0, 0)).voters
    assert found is not None
    return found


def node_of(voters: VoterSet, node_id: int) -> RaftNode:
    voter = voters.get(node_id)
    assert voter is not None
    control_records = ControlRecordStateMachine()
    control_records.replay_kraft_version(BOOTSTRAP_OFFSET, 1)
    control_records.replay_voters(BOOTSTRAP_OFFSET, voters)
    config = RaftConfig(
        node_id=node_id,
        directory_id=voter.key.directory_id,
        cluster_id=CLUSTER_ID,
        listeners=voter.listeners,
    )
    return RaftNode(
        config=config,
        log=LogState(),
        control_records=control_records,
        serde=TextSerde(),
        random_below=lambda bound: 0,
    )


def sent_to(ready: Ready, node_id: int) -> OutboundRequest:
    (request,) = (request for request in ready.requests if request.destination_id == node_id)
    return request


def json_of(message: Message) -> Any:
    """Return the message as on the wire: tagged fields with default values are omitted."""
    version = type(message).MAX_VERSION
    return type(message).decode(message.encode(version), version).to_json(version)


def request_of(cls: type[Message], body: dict[str, Any]) -> RaftRequest:
    return RaftRequest(1, cls.from_json(body, cls.MAX_VERSION), cls.MAX_VERSION)


def granted(request: OutboundRequest, epoch: int) -> RaftResponse:
    answer = captured("VOTE", "response", "to-3001")
    answer = json.loads(json.dumps(answer))
    answer["topics"][0]["partitions"][0]["leaderEpoch"] = epoch
    return RaftResponse(request.correlation_id, 3001, VoteResponse.from_json(answer, 2))


def test_pre_vote_vote_and_begin_quorum_epoch_requests_equal_kafkas(voters: VoterSet) -> None:
    node = node_of(voters, 3003)
    node.start(None, 0)
    pre_vote = sent_to(node.tick(1000), 3001)
    assert json_of(pre_vote.body) == captured("VOTE", "request", "to-3001", 0)
    vote = sent_to(node.receive(granted(pre_vote, 0), 1001), 3001)
    assert json_of(vote.body) == captured("VOTE", "request", "to-3001", 1)
    begin = sent_to(node.receive(granted(vote, 1), 1002), 3001)
    assert json_of(begin.body) == captured("BEGIN_QUORUM_EPOCH", "request", "to-3001")


def test_pre_vote_and_begin_quorum_epoch_answers_equal_kafkas(voters: VoterSet) -> None:
    node = node_of(voters, 3001)
    node.start(None, 0)
    (answer,) = node.receive(request_of(VoteRequest, captured("VOTE", "request", "to-3001", 0)), 1).responses
    assert json_of(answer.body) == captured("VOTE", "response", "to-3001", 0)
    begin = request_of(BeginQuorumEpochRequest, captured("BEGIN_QUORUM_EPOCH", "request", "to-3001"))
    ready = node.receive(begin, 2)
    assert json_of(ready.responses[0].body) == captured("BEGIN_QUORUM_EPOCH", "response", "to-3001")
    assert json_of(sent_to(ready, 3003).body) == captured("FETCH", "request", "to-3003", 1)


def test_a_replica_without_a_leader_answers_a_fetch_as_kafka_does(voters: VoterSet) -> None:
    node = node_of(voters, 3001)
    node.start(None, 0)
    # It has voted for 3003 in epoch 1, which has not begun yet.
    node.receive(request_of(VoteRequest, captured("VOTE", "request", "to-3001", 1)), 1)
    fetch = captured("FETCH", "request", "to-3001", 0)
    (answer,) = node.receive(request_of(FetchRequest, fetch), 2).responses
    expected = json.loads(json.dumps(captured("FETCH", "response", "to-3001", 0)))
    assert without_records(json_of(answer.body)) == without_records(expected)


def test_an_observer_requests_a_snapshot_as_kafka_does() -> None:
    first = captured("FETCH_SNAPSHOT", "request", "to-controller", 0, run="m2-broker-to-controller")
    partition = first["topics"][0]["partitions"][0]
    config = RaftConfig(
        node_id=first["replicaId"],
        directory_id=Uuid.from_string(partition["replicaDirectoryId"]),
        cluster_id=first["clusterId"],
        can_be_voter=False,
        bootstrap_servers=(Endpoint("127.0.0.1", 24093),),
        fetch_snapshot_max_bytes=first["maxBytes"],
    )
    node = RaftNode(
        config=config,
        log=LogState(),
        control_records=ControlRecordStateMachine(),
        serde=TextSerde(),
        random_below=lambda bound: 0,
    )
    (fetch,) = node.start(None, 0).requests
    answer = {
        "throttleTimeMs": 0,
        "errorCode": 0,
        "sessionId": 0,
        "responses": [
            {
                "topicId": "AAAAAAAAAAAAAAAAAAAAAQ",
                "partitions": [
                    {
                        "partitionIndex": 0,
                        "errorCode": 0,
                        "highWatermark": 2300,
                        "lastStableOffset": -1,
                        "logStartOffset": 0,
                        "currentLeader": {"leaderId": 3000, "leaderEpoch": 1},
                        "snapshotId": {"endOffset": 2269, "epoch": 1},
                        "abortedTransactions": [],
                        "preferredReadReplica": -1,
                        "records": None,
                    }
                ],
            }
        ],
        "nodeEndpoints": [{"nodeId": 3000, "host": "127.0.0.1", "port": 24093, "rack": None}],
    }
    for now_ms in (1, 2):  # The first answer only contains the leader and the epoch.
        response = RaftResponse(fetch.correlation_id, fetch.destination_id, FetchResponse.from_json(answer, 18))
        (fetch,) = node.receive(response, now_ms).requests
    assert json_of(fetch.body) == first


def without_records(body: Any) -> Any:
    """The capture holds only the size of the records."""
    for topic in body["responses"]:
        for partition in topic["partitions"]:
            partition.pop("records", None)
            partition.pop("recordsSizeInBytes", None)
    return body
