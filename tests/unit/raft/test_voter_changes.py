"""A leader adds, removes and updates voters one at a time, and gives the reason of a refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages import add_raft_voter, update_raft_voter
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.errors import NotLeaderException, QuorumNotUpgradable
from barnabas.raft.inbound import RaftRequest, RaftResponse, RequestFailed
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import OutboundRequest, Ready
from barnabas.raft.voter_set import Endpoint, VoterSet
from tests.unit.raft.single_voter import CONFIG, dynamic_quorum, only_voter, voter

ONE = replace(CONFIG, listeners={"CONTROLLER": Endpoint("host1", 9093)})
NEW = voter(2)


class Leader:
    """Voter 1 leads; its appends are durable immediately, and every response is kept by its correlation id."""

    def __init__(self, control_records: ControlRecordStateMachine | None = None) -> None:
        self.control_records = control_records or dynamic_quorum(1)
        self.node: RaftNode = only_voter(None, self.control_records, ONE)
        self.answers: dict[int, Any] = {}
        self.requests: list[OutboundRequest] = []
        self.now_ms = 0
        self.take(self.node.start(None, self.now_ms))

    @property
    def voters(self) -> list[int]:
        return sorted(self.control_records.last_voter_set.ids)

    def take(self, ready: Ready) -> None:
        self.answers |= {response.correlation_id: response.body for response in ready.responses}
        self.requests += ready.requests
        if ready.appends:
            self.take(self.node.log_flushed(ready.appends[-1].last_offset + 1, self.now_ms))

    def ask(self, correlation_id: int, body: Any, version: int | None = None) -> Any:
        """Return the response, or None until it exists."""
        request = RaftRequest(correlation_id, body, body.MAX_VERSION if version is None else version)
        self.take(self.node.receive(request, self.now_ms))
        return self.answers.get(correlation_id)

    def tick(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.take(self.node.tick(now_ms))

    def is_fetched_by(self, node_id: int) -> None:
        """Let that replica fetch the whole log."""
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self.node.epoch,
            fetch_offset=self.node.log_end_offset,
            last_fetched_epoch=self.node.epoch,
            replica_directory_id=voter(node_id).key.directory_id,
        )
        topic = FetchTopic(topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition])
        state = ReplicaState(replica_id=node_id, replica_epoch=-1)
        self.ask(900 + self.now_ms, FetchRequest(replica_state=state, max_wait_ms=0, topics=[topic]))

    def answers_api_versions(self, *, low: int = 0, high: int = 1) -> None:
        """The new voter answers the leader's ApiVersions request."""
        request = next(candidate for candidate in self.requests if isinstance(candidate.body, ApiVersionsRequest))
        features = [SupportedFeatureKey(name="kraft.version", min_version=low, max_version=high)]
        body = ApiVersionsResponse(supported_features=features)
        self.take(self.node.receive(RaftResponse(request.correlation_id, NEW.key.id, body), self.now_ms))


def add(node_id: int = 2, **changes: Any) -> AddRaftVoterRequest:
    listeners = [add_raft_voter.Listener(name="CONTROLLER", host=f"host{node_id}", port=9093)]
    fields: dict[str, Any] = {
        "cluster_id": "cluster",
        "timeout_ms": 1000,
        "voter_id": node_id,
        "voter_directory_id": voter(node_id).key.directory_id,
        "listeners": listeners,
    }
    return AddRaftVoterRequest(**{**fields, **changes})


def remove(node_id: int) -> RemoveRaftVoterRequest:
    key = voter(node_id).key
    return RemoveRaftVoterRequest(cluster_id="cluster", voter_id=key.id, voter_directory_id=key.directory_id)


def update(leader: Leader, node_id: int, *, port: int = 9999, high: int = 1) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id="cluster",
        current_leader_epoch=leader.node.epoch,
        voter_id=node_id,
        voter_directory_id=voter(node_id).key.directory_id,
        listeners=[update_raft_voter.Listener(name="CONTROLLER", host=f"host{node_id}", port=port)],
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=high
        ),
    )


def two_voters() -> Leader:
    leader = Leader()
    leader.is_fetched_by(2)
    leader.ask(1, add(ack_when_committed=False))
    leader.answers_api_versions()
    leader.is_fetched_by(2)
    return leader


def test_a_replica_that_follows_becomes_a_voter_and_the_answer_waits_for_the_commit() -> None:
    leader = Leader()
    leader.is_fetched_by(2)
    assert leader.ask(1, add()) is None
    leader.answers_api_versions()
    assert leader.voters == [1, 2], "in force as soon as it is appended"
    assert 1 not in leader.answers, "the new voter has not acknowledged it"
    leader.now_ms = 5
    leader.is_fetched_by(2)
    assert leader.answers[1].error_code == ErrorCode.NONE
    assert leader.node.state_name == "Leader"


def test_a_request_without_wait_is_answered_when_the_set_is_appended() -> None:
    leader = Leader()
    leader.is_fetched_by(2)
    leader.ask(1, add(ack_when_committed=False))
    leader.answers_api_versions()
    assert leader.answers[1].error_code == ErrorCode.NONE


def test_the_next_change_waits_until_the_last_one_is_committed() -> None:
    leader = Leader()
    leader.is_fetched_by(2)
    leader.ask(1, add(ack_when_committed=False))
    assert leader.ask(2, add(3)).error_code == ErrorCode.REQUEST_TIMED_OUT, "one is under way"
    leader.answers_api_versions()
    assert leader.ask(3, remove(2)).error_code == ErrorCode.REQUEST_TIMED_OUT, "one is not committed"
    leader.now_ms = 5
    leader.is_fetched_by(2)
    leader.ask(4, remove(2))
    assert leader.voters == [1]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (add(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (add(voter_directory_id=Uuid.ZERO), ErrorCode.INVALID_REQUEST),
        (add(listeners=[]), ErrorCode.INVALID_REQUEST),
        (add(1), ErrorCode.DUPLICATE_VOTER),
        (add(1, voter_directory_id=Uuid.from_int(7777)), ErrorCode.DUPLICATE_VOTER),
        (remove(2), ErrorCode.VOTER_NOT_FOUND),
        (remove(1), ErrorCode.VOTER_NOT_FOUND),
    ],
    ids=["other cluster", "no directory", "no endpoint", "known", "known with another disk", "unknown", "last one"],
)
def test_an_impossible_change_is_refused_with_a_reason(request_: Any, error: ErrorCode) -> None:
    leader = Leader()
    answer = leader.ask(1, request_)
    assert answer.error_code == error
    assert answer.error_message
    assert leader.voters == [1]


def test_a_replica_that_does_not_follow_the_log_is_not_added() -> None:
    leader = Leader()
    leader.ask(1, add())
    leader.answers_api_versions()
    assert leader.answers[1].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_replica_that_is_too_old_or_unreachable_is_not_added() -> None:
    leader = Leader()
    leader.is_fetched_by(2)
    leader.ask(1, add())
    leader.answers_api_versions(high=0)
    assert leader.answers[1].error_code == ErrorCode.INVALID_REQUEST

    leader = Leader()
    leader.is_fetched_by(2)
    leader.ask(1, add())
    api_versions = next(request for request in leader.requests if isinstance(request.body, ApiVersionsRequest))
    leader.take(leader.node.receive(RequestFailed(api_versions.correlation_id, 2), 0))
    assert leader.answers[1].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_change_that_is_not_committed_in_time_is_answered() -> None:
    leader = Leader()
    leader.is_fetched_by(2)
    leader.ask(1, add())
    leader.answers_api_versions()
    leader.tick(999)
    assert 1 not in leader.answers
    leader.tick(1000)
    assert leader.answers[1].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_removed_leader_leads_until_its_removal_is_committed() -> None:
    leader = two_voters()
    leader.ask(2, remove(1))
    assert leader.node.state_name == "Leader"
    leader.now_ms = 5
    leader.is_fetched_by(2)
    assert leader.answers[2].error_code == ErrorCode.NONE
    assert leader.node.state_name == "Resigned"
    leader.tick(5 + 2 * CONFIG.election_timeout_ms)
    assert leader.node.state_name == "Unattached", "it continues as an observer"


def test_a_voter_reports_its_new_endpoints() -> None:
    leader = two_voters()
    leader.ask(2, update(leader, 2))
    leader.now_ms = 5
    leader.is_fetched_by(2)
    answer = leader.answers[2]
    assert (answer.error_code, answer.current_leader.leader_id, answer.current_leader.host) == (0, 1, "host1")
    assert leader.control_records.last_voter_set.endpoint(2, "CONTROLLER") == Endpoint("host2", 9999)
    assert leader.ask(3, update(leader, 3)).error_code == ErrorCode.VOTER_NOT_FOUND
    assert leader.ask(4, update(leader, 2, high=0)).error_code == ErrorCode.INVALID_REQUEST


def test_voters_from_the_settings_only_describe_themselves() -> None:
    leader = Leader(ControlRecordStateMachine(VoterSet([replace(voter(1))])))
    end = leader.node.log_end_offset
    assert leader.ask(1, add()).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert leader.ask(2, update(leader, 1)).error_code == ErrorCode.NONE
    assert leader.node.log_end_offset == end


def of_settings(*node_ids: int) -> Leader:
    """A quorum whose voters come from the settings, which do not name directories."""
    known = [voter(node_id) for node_id in node_ids]
    return Leader(
        ControlRecordStateMachine(
            VoterSet(
                replace(known_voter, key=known_voter.key._replace(directory_id=Uuid.ZERO)) for known_voter in known
            )
        )
    )


def test_an_upgrade_moves_the_voters_from_the_settings_into_the_log() -> None:
    leader = of_settings(1)
    leader.take(leader.node.upgrade_kraft_version(1, 0, validate_only=True))
    assert leader.control_records.last_kraft_version == 0
    leader.take(leader.node.upgrade_kraft_version(1, 0, validate_only=False))
    assert leader.control_records.last_kraft_version == 1
    assert leader.control_records.last_voter_set.keys == [CONFIG.key]
    assert leader.ask(1, remove(2)).error_code == ErrorCode.VOTER_NOT_FOUND, "voters can be changed now"


def test_an_upgrade_waits_for_the_report_of_every_voter() -> None:
    leader = of_settings(1)
    leader.control_records.replay_voters(0, VoterSet((*leader.control_records.last_voter_set, voter(2))))
    with pytest.raises(QuorumNotUpgradable, match=r"The voters \[2\] have not reported"):
        leader.node.upgrade_kraft_version(1, 0, validate_only=True)
    leader.ask(1, update(leader, 2, high=0))
    with pytest.raises(QuorumNotUpgradable, match=r"The voters \[2\] don't support it"):
        leader.node.upgrade_kraft_version(1, 0, validate_only=True)


def test_only_the_leader_upgrades_the_quorum() -> None:
    node = only_voter(None, dynamic_quorum(1, 2), ONE)
    node.start(None, 0)
    with pytest.raises(NotLeaderException):
        node.upgrade_kraft_version(1, 0, validate_only=False)
