"""AddRaftVoter (80), RemoveRaftVoter (81) and UpdateRaftVoter (82) on the leader: one change at a time.

A new set of voters is in force when its record is appended, and the next change waits until that record is committed.
So two consecutive sets always have a majority in common (Raft, 4.3). While the quorum has kraft.version 0 its voters
are those of the settings; their descriptions of themselves are only stored for the upgrade.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from barnabas import __version__
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.protocol.records.kraft_version_record import KRaftVersionRecord
from barnabas.protocol.schema import Message
from barnabas.raft.control_records import QuorumRecord, voters_record
from barnabas.raft.epochs import NO_LEADER, check_cluster_id, check_leader_request, listeners_of
from barnabas.raft.errors import NotLeaderException, QuorumNotUpgradable
from barnabas.raft.inbound import RaftRequest, RaftResponse
from barnabas.raft.replica import Replica
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.epoch_state import FOREVER_MS
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.raft.voter_update import own_voter_node, voter_node

__all__ = ["VoterChanges", "upgrade_kraft_version"]

KRAFT_VERSION = "kraft.version"
OBSERVER_MAY_BE_SILENT_MS = 60 * 60 * 1000
"""A replica that has not fetched for so long does not become a voter: it could not acknowledge anything."""

Answer = Callable[[ErrorCode, str], Message]


@dataclass(slots=True)
class _Change:
    """A change under way. ``offset`` is that of its record; before that a new voter's versions are requested."""

    correlation_id: int
    answer: Answer
    deadline_ms: int
    epoch: int
    offset: int | None = None
    new_voter: VoterNode | None = None
    waits_for_commit: bool = True


class VoterChanges:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._change: _Change | None = None

    @property
    def deadline_ms(self) -> int:
        return FOREVER_MS if self._change is None else self._change.deadline_ms

    # --- requests

    def handle_add(self, request: RaftRequest, now_ms: int) -> None:
        body = request.body
        if not isinstance(body, AddRaftVoterRequest):
            raise TypeError(body)

        def answer(error: ErrorCode, text: str) -> Message:
            return AddRaftVoterResponse(error_code=error, error_message=text or None)

        key = ReplicaKey(body.voter_id, body.voter_directory_id)
        listeners = listeners_of(body.listeners)
        endpoint = listeners.get(self._replica.config.listener_name)
        leader, error, text = self._admit(body.cluster_id, key, None if endpoint else listeners)
        if leader is None or endpoint is None:
            self._respond(request, answer(error, text))
        elif self._replica.quorum.voters.get(key.id) is not None:
            text = f"The voter id for {_shown(key)} is already part of the set of voters {_ids(self._replica)}."
            self._respond(request, answer(ErrorCode.DUPLICATE_VOTER, text))
        else:
            self._change = _Change(
                request.correlation_id,
                answer,
                now_ms + max(body.timeout_ms, 0),
                leader.epoch,
                new_voter=VoterNode(key, listeners),
                waits_for_commit=body.ack_when_committed,
            )
            versions = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
            self._replica.send(key.id, endpoint, versions, now_ms)

    def handle_remove(self, request: RaftRequest, now_ms: int) -> None:
        body = request.body
        if not isinstance(body, RemoveRaftVoterRequest):
            raise TypeError(body)

        def answer(error: ErrorCode, text: str) -> Message:
            return RemoveRaftVoterResponse(error_code=error, error_message=text or None)

        key = ReplicaKey(body.voter_id, body.voter_directory_id)
        voters = self._replica.quorum.voters
        leader, error, text = self._admit(body.cluster_id, key)
        voter = voters.get(key.id)
        if leader is None:
            self._respond(request, answer(error, text))
        elif voter is None or voter.key != key:
            text = f"Cannot remove voter {_shown(key)}: it is not one of the voters {_ids(self._replica)}."
            self._respond(request, answer(ErrorCode.VOTER_NOT_FOUND, text))
        elif len(voters) == 1:
            text = f"Cannot remove voter {_shown(key)}: a quorum needs a voter."
            self._respond(request, answer(ErrorCode.VOTER_NOT_FOUND, text))
        else:
            timeout_ms = self._replica.config.request_timeout_ms
            self._change = _Change(request.correlation_id, answer, now_ms + timeout_ms, leader.epoch)
            self._append(leader, VoterSet(voter for voter in voters if voter.key != key), now_ms)

    def handle_update(self, request: RaftRequest, now_ms: int) -> None:
        body = request.body
        if not isinstance(body, UpdateRaftVoterRequest):
            raise TypeError(body)
        replica = self._replica
        key = ReplicaKey(body.voter_id, body.voter_directory_id)
        levels = body.kraft_version_feature
        update = VoterNode(
            key, listeners_of(body.listeners), levels.min_supported_version, levels.max_supported_version
        )
        leader, error = self._admit_update(body, update)
        if leader is None:
            self._respond(request, self._update_answer(error, ""))
        elif replica.control_records.last_kraft_version < 1:
            leader.described_voters[key.id] = update
            self._respond(request, self._update_answer(ErrorCode.NONE, ""))
        else:
            self._change = _Change(
                request.correlation_id, self._update_answer, now_ms + replica.config.request_timeout_ms, leader.epoch
            )
            self._append(
                leader, VoterSet(update if voter.key == key else voter for voter in replica.quorum.voters), now_ms
            )

    def _admit(
        self, cluster_id: str | None, key: ReplicaKey, unusable: Mapping[str, Endpoint] | None = None
    ) -> tuple[LeaderState | None, ErrorCode, str]:
        """Return the leader that may make a change now, or why not. ``unusable``: endpoints without the needed one."""
        replica = self._replica
        leader = replica.quorum.in_state(LeaderState)
        if not check_cluster_id(replica, cluster_id):
            return None, ErrorCode.INCONSISTENT_CLUSTER_ID, "The request is for another cluster."
        if leader is None:
            return None, ErrorCode.NOT_LEADER_OR_FOLLOWER, "This replica does not lead the quorum."
        if not _names_a_replica(key):
            text = f"A voter needs a node id and a directory id, not {key.id} and {key.directory_id}."
            return None, ErrorCode.INVALID_REQUEST, text
        if unusable is not None:
            name = replica.config.listener_name
            text = f"A voter needs an endpoint for the listener {name}, not only for {sorted(unusable)}."
            return None, ErrorCode.INVALID_REQUEST, text
        if replica.control_records.last_kraft_version < 1:
            text = "The voters are configured in controller.quorum.voters: upgrade kraft.version to 1 first."
            return None, ErrorCode.UNSUPPORTED_VERSION, text
        if not self._is_idle(leader):
            text = "Another change of the voters is under way, or not committed yet. Try again."
            return None, ErrorCode.REQUEST_TIMED_OUT, text
        return leader, ErrorCode.NONE, ""

    def _admit_update(self, body: UpdateRaftVoterRequest, update: VoterNode) -> tuple[LeaderState | None, ErrorCode]:
        replica = self._replica
        leader = replica.quorum.in_state(LeaderState)
        error = check_leader_request(replica, body.current_leader_epoch)
        if not check_cluster_id(replica, body.cluster_id):
            return None, ErrorCode.INCONSISTENT_CLUSTER_ID
        if error is not ErrorCode.NONE or leader is None:
            return None, error
        if not _names_a_replica(update.key) or replica.config.listener_name not in update.listeners:
            return None, ErrorCode.INVALID_REQUEST
        if not 0 <= update.kraft_version_min <= update.kraft_version_max:
            return None, ErrorCode.INVALID_REQUEST
        level = replica.control_records.last_kraft_version
        if level >= 1 and not self._is_idle(leader):
            return None, ErrorCode.REQUEST_TIMED_OUT
        if not _can_work_with(update, level):
            return None, ErrorCode.INVALID_REQUEST
        voter = replica.quorum.voters.get(update.key.id)
        if voter is None or (level >= 1 and voter.key != update.key):
            return None, ErrorCode.VOTER_NOT_FOUND
        return leader, ErrorCode.NONE

    def _is_idle(self, leader: LeaderState) -> bool:
        set_at = self._replica.control_records.last_voter_set_offset
        high_watermark = leader.high_watermark
        return self._change is None and high_watermark is not None and (set_at is None or set_at < high_watermark)

    # --- a new voter's versions

    def handle_versions(self, response: RaftResponse, now_ms: int) -> bool:
        body, change = response.body, self._change
        if not isinstance(body, ApiVersionsResponse):
            raise TypeError(body)
        if change is None or change.new_voter is None or change.new_voter.key.id != response.source_id:
            return True
        leader = self._replica.quorum.in_state(LeaderState)
        if leader is None or leader.epoch != change.epoch:
            return True
        levels = next((feature for feature in body.supported_features if feature.name == KRAFT_VERSION), None)
        low, high = (0, 0) if levels is None else (levels.min_version, levels.max_version)
        voter = replace(change.new_voter, kraft_version_min=low, kraft_version_max=high)
        level = self._replica.control_records.last_kraft_version
        if body.error_code or not _can_work_with(voter, level):
            text = f"The new voter supports kraft.version {low} to {high}, but the quorum has {level}."
            self._finish(ErrorCode.INVALID_REQUEST, text)
        elif not _has_caught_up(leader, voter.key, now_ms):
            text = f"{_shown(voter.key)} does not follow the metadata log, or has not caught up with it yet."
            self._finish(ErrorCode.REQUEST_TIMED_OUT, text)
        else:
            change.new_voter = None
            self._append(leader, VoterSet((*self._replica.quorum.voters, voter)), now_ms)
            if not change.waits_for_commit:
                self._finish(ErrorCode.NONE, "")
        return True

    def versions_unknown(self, voter_id: int) -> None:
        """Refuse the change: the new voter could not be contacted."""
        change = self._change
        if change is not None and change.new_voter is not None and change.new_voter.key.id == voter_id:
            text = f"{_shown(change.new_voter.key)} can't be reached at its endpoint."
            self._finish(ErrorCode.REQUEST_TIMED_OUT, text)

    # --- the end of a change

    def answer_waiting(self, now_ms: int) -> None:
        change = self._change
        if change is None:
            return
        leader = self._replica.quorum.in_state(LeaderState)
        if change.offset is not None and (self._replica.log.high_watermark or 0) > change.offset:
            self._finish(ErrorCode.NONE, "")
        elif leader is None or leader.epoch != change.epoch:
            self._finish(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This replica no longer leads the quorum.")
        elif now_ms >= change.deadline_ms:
            self._finish(ErrorCode.REQUEST_TIMED_OUT, "The change of the voters was not committed in time.")

    # --- the leader itself

    def maybe_update_leader(self, now_ms: int) -> None:
        """Write this leader's endpoints and versions, if the log has others.

        Followers send UpdateRaftVoter for that. A leader can't send it to another replica, and replicas that start
        later find the leader only through the log.
        """
        replica = self._replica
        leader, voter = replica.quorum.in_state(LeaderState), own_voter_node(replica)
        if leader is None or voter is None or replica.control_records.last_kraft_version < 1:
            return
        known = replica.quorum.voters.get(voter.key.id)
        if known is not None and known.key == voter.key and known != voter and self._is_idle(leader):
            self._append(
                leader, VoterSet(voter if other is known else other for other in replica.quorum.voters), now_ms
            )

    def _append(self, leader: LeaderState, voters: VoterSet, now_ms: int) -> None:
        change = self._change
        batch = leader.accumulator.append_control([voters_record(voters)], now_ms)
        self._replica.drain(leader, now_ms)
        leader.restart_check_quorum(now_ms)
        if change is not None:
            change.offset = batch.last_offset

    def _finish(self, error: ErrorCode, text: str) -> None:
        change, self._change = self._change, None
        if change is not None:
            self._replica.outbox.respond(change.correlation_id, change.answer(error, text))

    def _respond(self, request: RaftRequest, body: Message) -> None:
        self._replica.outbox.respond(request.correlation_id, body)

    def _update_answer(self, error: ErrorCode, text: str) -> Message:
        leader_id, endpoint = self._replica.quorum.leader_id, self._replica.leader_endpoint() or Endpoint("", 0)
        leader = CurrentLeader(
            leader_id=NO_LEADER if leader_id is None else leader_id,
            leader_epoch=self._replica.quorum.epoch,
            host=endpoint.host,
            port=endpoint.port,
        )
        return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def _names_a_replica(key: ReplicaKey) -> bool:
    return key.id >= 0 and key.has_directory


def _can_work_with(voter: VoterNode, level: int) -> bool:
    return voter.kraft_version_min <= level <= voter.kraft_version_max


def _has_caught_up(leader: LeaderState, key: ReplicaKey, now_ms: int) -> bool:
    seen = leader.observers.get(key)
    return seen is not None and seen.last_caught_up_ms >= 0 and now_ms - seen.last_fetch_ms <= OBSERVER_MAY_BE_SILENT_MS


def _shown(key: ReplicaKey) -> str:
    return f"replica {key.id} with directory {key.directory_id}"


def _ids(replica: Replica) -> list[int]:
    return sorted(replica.quorum.voters.ids)


def upgrade_kraft_version(replica: Replica, level: int, now_ms: int, *, validate_only: bool) -> None:
    """Write the voters of the settings into the log, with the directories that they have reported.

    Raises NotLeaderException, or QuorumNotUpgradable where a voter has reported nothing or does not support the level.
    """
    leader = replica.quorum.in_state(LeaderState)
    if leader is None:
        raise NotLeaderException("This replica does not lead the quorum.")
    if level <= replica.control_records.last_kraft_version:
        return
    described = dict(leader.described_voters)
    described[replica.config.node_id] = voter_node(replica.config)
    voters = [described.get(voter_id) for voter_id in replica.quorum.voters.ids]
    known = [voter for voter in voters if voter is not None and voter.key.has_directory]
    if len(known) < len(voters):
        missing = sorted(set(replica.quorum.voters.ids) - {voter.key.id for voter in known})
        raise QuorumNotUpgradable(f"The voters {missing} have not reported their directories to this leader yet.")
    too_old = sorted(voter.key.id for voter in known if not _can_work_with(voter, level))
    if too_old:
        raise QuorumNotUpgradable(f"The voters {too_old} don't support it.")
    if not validate_only:
        records: list[QuorumRecord] = [
            KRaftVersionRecord(version=0, kraft_version=level),
            voters_record(VoterSet(known)),
        ]
        leader.accumulator.append_control(records, now_ms)
        replica.drain(leader, now_ms)
