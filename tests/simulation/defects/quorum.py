"""Defects in changes of the voters, and in agreements between nodes with different software."""

from __future__ import annotations

from typing import Any

from barnabas.raft.voter_set import VoterSet
from tests.simulation.cluster.defects import defect, replace_in


@defect(
    "voters-before-a-commit-of-its-own",
    "a leader changes the voters before a record of its epoch is committed",
    needs="changes_quorum",
)
def _() -> None:
    def make(original: Any) -> Any:
        def is_idle(self: Any, leader: Any) -> bool:
            set_at = self._replica.control_records.last_voter_set_offset
            return self._change is None and (set_at is None or set_at < (self._replica.log.high_watermark or 0))

        return is_idle

    replace_in("raft.voter_changes", "VoterChanges._is_idle", make)


@defect(
    "voters-before-the-last-are-committed",
    "the voters change again before their previous change is committed",
    needs="changes_quorum",
)
def _() -> None:
    def make(original: Any) -> Any:
        def is_idle(self: Any, leader: Any) -> bool:
            self._change = None
            return leader.high_watermark is not None

        return is_idle

    replace_in("raft.voter_changes", "VoterChanges._is_idle", make)


@defect(
    "majority-of-the-voters-before",
    "a leader counts the majority of the voters that elected it",
    needs="changes_quorum",
)
def _() -> None:
    replace_in("raft.states.leader", "LeaderState.update_voters", lambda original: lambda self, voters: None)


@defect("removed-voters-still-count", "a leader still counts removed voters", needs="changes_quorum")
def _() -> None:
    def make(original: Any) -> Any:
        def update(self: Any, voters: Any) -> None:
            removed = [voter for voter in self.voters if voters.get(voter.key.id) is None]
            original(self, VoterSet((*voters, *removed)))

        return update

    replace_in("raft.states.leader", "LeaderState.update_voters", make)


@defect(
    "directory-of-a-voter-not-checked",
    "a controller with a new disk still counts as the voter that it was",
    needs="changes_quorum",
)
def _() -> None:
    replace_in(
        "raft.voter_set", "VoterSet.is_voter", lambda original: lambda self, key: self._voters.get(key.id) is not None
    )
    replace_in(
        "raft.vote_protocol",
        "is_meant_for",
        lambda original: lambda replica, id_, directory: id_ == replica.config.key.id,
    )


@defect(
    "change-of-voters-answered-too-early",
    "a change of the voters is answered before it is committed",
    needs="changes_quorum",
)
def _() -> None:
    def make(original: Any) -> Any:
        def append(self: Any, leader: Any, voters: Any, now_ms: int) -> None:
            from barnabas.common.errors import ErrorCode

            original(self, leader, voters, now_ms)
            self._finish(ErrorCode.NONE, "")

        return append

    replace_in("raft.voter_changes", "VoterChanges._append", make)


@defect("voters-of-the-log-not-read", "the voters in the log are not read at a restart", needs="changes_quorum")
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, batch: None

    replace_in("storage.metadata_log_check", "LogCheck._note_control_batch", make)


@defect(
    "snapshot-without-voters",
    "a snapshot contains the voters of formatting, not those of the log",
    needs="changes_quorum",
)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, offset: self.voters._values[0] if self.voters._values else None

    replace_in("raft.control_record_state_machine", "ControlRecordStateMachine.voter_set_at", make)


@defect(
    "observer-fetches-before-flush",
    "a controller that is not a voter yet reports records that it has not flushed",
    needs="changes_quorum",
)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda replica: replica.quorum.is_voter and original(replica)

    replace_in("raft.replication", "_would_promise_too_much", make)


@defect(
    "moved-voter-says-nothing",
    "a controller with a new address does not report it to the quorum",
    needs="changes_quorum",
)
def _() -> None:
    replace_in("raft.voter_update", "_is_update_due", lambda original: lambda replica, follower: False)


@defect(
    "upgrade-checks-no-broker",
    "metadata.version is raised above the level that some brokers support",
    needs="changes_software",
)
def _() -> None:
    replace_in(
        "controller.feature_control_manager",
        "FeatureControlManager._reason_not_supported",
        lambda original: lambda self, name, level: None,
    )


@defect(
    "too-old-a-broker-registers",
    "a broker registers although it does not support the metadata.version in force",
    needs="changes_software",
)
def _() -> None:
    replace_in(
        "controller.cluster_control_manager",
        "_check_feature",
        lambda original: lambda *arguments: None,
    )


@defect(
    "no-vote-of-old-voters",
    "a candidate that cannot request a pre-vote from an old voter waits for it forever",
    needs="changes_software",
)
def _() -> None:
    def make(original: Any) -> Any:
        def receive(self: Any, failure: Any, now_ms: int) -> None:
            original(self, failure._replace(is_unsupported_version=False), now_ms)

        return receive

    replace_in("raft.messages", "Messages._receive_failure", make)
