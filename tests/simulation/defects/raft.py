"""Defects in elections, replication and the high watermark."""

from __future__ import annotations

from typing import Any

from barnabas.raft.states.epoch_state import FOREVER_MS
from tests.simulation.cluster.defects import defect, replace_in

GRANTING = ("raft.states.unattached", "raft.states.prospective")


@defect("vote-twice", "a voter grants its vote to two candidates of one epoch")
def _() -> None:
    def make(original: Any) -> Any:
        def grant(candidate: Any, *, voted_key: Any, **others: Any) -> bool:
            granted: bool = original(candidate, voted_key=None, **others)
            return granted

        return grant

    for module in GRANTING:
        replace_in(module, "grant_without_leader", make)


@defect("vote-for-a-shorter-log", "a voter does not look at the candidate's log")
def _() -> None:
    def make(original: Any) -> Any:
        def grant(candidate: Any, *, is_log_up_to_date: bool, **others: Any) -> bool:
            granted: bool = original(candidate, is_log_up_to_date=True, **others)
            return granted

        return grant

    for module in GRANTING:
        replace_in(module, "grant_without_leader", make)


@defect("vote-by-length-only", "logs are compared by their length, not by their last epoch first")
def _() -> None:
    def make(original: Any) -> Any:
        def decide(replica: Any, voter_id: int, partition: Any, now_ms: int) -> Any:
            mine = replica.log.last_epoch
            last, partition.last_offset_epoch = partition.last_offset_epoch, mine
            if mine > partition.replica_epoch or (mine == partition.replica_epoch and not partition.pre_vote):
                partition.last_offset_epoch = last
            return original(replica, voter_id, partition, now_ms)

        return decide

    replace_in("raft.vote_protocol", "_decide", make)


@defect("vote-is-forgotten", "the vote and the epoch are not read at a restart")
def _() -> None:
    replace_in("server.quorum.raft_driver", "read_election", lambda original: lambda *arguments: (None, None))


@defect("vote-not-written", "the driver continues without writing the election to disk")
def _() -> None:
    replace_in("server.quorum.raft_driver", "RaftDriver._persist", lambda original: _without_writing)


def _without_writing(driver: Any, election: Any) -> None:
    driver._is_persisting = True
    driver._run_in_thread(lambda: None, driver._persisted)


@defect("vote-sent-before-written", "responses are sent while the election that they report is being written")
def _() -> None:
    def make(original: Any) -> Any:
        def process(driver: Any) -> None:
            for ready in driver._inbox:
                if ready.election_state is not None and driver._exchange is not None:
                    for response in ready.responses:
                        driver._exchange.respond(response)
                    ready.responses = []
            original(driver)

        return process

    replace_in("server.quorum.raft_driver", "RaftDriver._process", make)


@defect("minority-elects", "one vote less than a majority elects a leader")
def _() -> None:
    replace_in(
        "raft.states.vote_tally",
        "VoteTally.is_granted",
        lambda original: property(
            lambda self: sum(answer is True for answer in self._answers.values()) >= max(1, self.voters.majority - 1)
        ),
    )


@defect("answer-of-an-old-round", "an answer to an earlier request counts as a vote of this round")
def _() -> None:
    def make(original: Any) -> Any:
        def is_expected(self: Any, id_: int, correlation_id: int) -> bool:
            return id_ in self._destinations

        return is_expected

    replace_in("raft.request_manager", "RequestManager.is_expected", make)


@defect("leader-of-two-epochs-back", "a leader does not step down when a majority has stopped fetching")
def _() -> None:
    replace_in(
        "raft.states.leader",
        "LeaderState.check_quorum_deadline_ms",
        lambda original: property(lambda self: FOREVER_MS),
    )


@defect("restarted-leader-continues", "a leader that was restarted may be elected in its old epoch again")
def _() -> None:
    def make(original: Any) -> Any:
        def candidate(self: Any, now_ms: int) -> None:
            from barnabas.raft.states.candidate import CandidateState

            epoch = max(self.epoch, 1)
            self._move(
                CandidateState(
                    epoch,
                    key=self._config.key,
                    voters=self.voters,
                    election_deadline_ms=self._election_deadline(now_ms),
                )
            )

        return candidate

    replace_in("raft.quorum_state", "QuorumState.transition_to_candidate", make)


@defect("commit-by-a-minority", "the high watermark is the log end offset of the fastest replica")
def _() -> None:
    def make(original: Any) -> Any:
        def update(self: Any) -> bool:
            ends = [progress.end_offset or -1 for progress in self.progress.values()]
            candidate = max(ends)
            if candidate <= self.epoch_start_offset or candidate <= (self.high_watermark or 0):
                return False
            self.high_watermark = candidate
            return True

        return update

    replace_in("raft.states.leader", "LeaderState._update_high_watermark", make)


@defect("commit-counts-an-observer", "the fetch offset of an observer counts like that of a voter")
def _() -> None:
    def make(original: Any) -> Any:
        def update(self: Any, key: Any, fetch_offset: int, leader_end: int, now_ms: int) -> bool:
            if not self.is_voter(key):
                slowest = min(self.progress.values(), key=lambda progress: progress.end_offset or -1)
                slowest.end_offset = max(slowest.end_offset or 0, fetch_offset)
                return bool(self._update_high_watermark())
            moved: bool = original(self, key, fetch_offset, leader_end, now_ms)
            return moved

        return update

    replace_in("raft.states.leader", "LeaderState.update_replica", make)


@defect("commit-of-an-older-epoch", "records of earlier epochs are committed before a record of the leader's epoch is")
def _() -> None:
    def make(original: Any) -> Any:
        def update(self: Any) -> bool:
            start, self.epoch_start_offset = self.epoch_start_offset, 0
            try:
                return bool(original(self))
            finally:
                self.epoch_start_offset = start

        return update

    replace_in("raft.states.leader", "LeaderState._update_high_watermark", make)


@defect("stale-progress-counts", "a follower's progress stays at its maximum, even after its log was truncated")
def _() -> None:
    def make(original: Any) -> Any:
        def check(self: Any, offset: int, epoch: int) -> Any:
            from barnabas.raft.log_state import OffsetCheck, OffsetVerdict

            found = original(self, offset, epoch)
            if found.verdict is OffsetVerdict.DIVERGING:
                return OffsetCheck(OffsetVerdict.VALID, found.where)
            return found

        return check

    replace_in("raft.log_state", "LogState.check", make)


@defect("ack-before-flush", "the leader counts its own log before it is flushed")
def _() -> None:
    def make(original: Any) -> Any:
        def append(self: Any, batch: Any) -> None:
            original(self, batch)
            self.durable_end_offset = self.end_offset

        return append

    replace_in("raft.log_state", "LogState.append", make)


@defect("fetch-before-flush", "a follower acknowledges records with its next fetch before it has flushed them")
def _() -> None:
    replace_in("raft.replication", "_would_promise_too_much", lambda original: lambda replica: False)


@defect("truncation-skipped", "a follower whose log diverges keeps its tail")
def _() -> None:
    replace_in("raft.replication", "_truncate", lambda original: lambda replica, diverging: None)


@defect("truncation-too-far", "a follower whose log diverges deletes all of it")
def _() -> None:
    def make(original: Any) -> Any:
        return lambda replica, diverging: replica.truncate_to(replica.log.start_offset)

    replace_in("raft.replication", "_truncate", make)


@defect("epochs-not-truncated", "a truncated log keeps the leader epochs of the removed records")
def _() -> None:
    replace_in("raft.leader_epochs", "LeaderEpochs.truncate_from_end", lambda original: lambda self, end_offset: None)


@defect("uncommitted-applied", "a follower applies all records that it has fetched")
def _() -> None:
    def make(original: Any) -> Any:
        def append(replica: Any, records: Any) -> None:
            original(replica, records)
            replica.advance_high_watermark(replica.log.end_offset)

        return append

    replace_in("raft.replication", "_append", make)


@defect("leader-announced-too-early", "a new leader decides before the first batch of its epoch is committed")
def _() -> None:
    def make(original: Any) -> Any:
        def announce(self: Any) -> None:
            from barnabas.raft.ready import LeaderAndEpoch

            state = self.quorum.state
            if state.name == "Leader":
                now = LeaderAndEpoch(state.leader_id, state.epoch)
                if now != self._announced:
                    self._announced = now
                    self.outbox.ready.leader_and_epoch = now
                return
            original(self)

        return announce

    replace_in("raft.replica", "Replica.announce_leader", make)


@defect("chunk-anywhere", "a chunk of a snapshot is accepted without regard to its position")
def _() -> None:
    def make(original: Any) -> Any:
        def take(replica: Any, follower: Any, partition: Any) -> None:
            if follower.fetching_snapshot is not None and follower.snapshot_position:
                follower.snapshot_position = max(0, follower.snapshot_position - 40)
            original(replica, follower, partition)

        return take

    replace_in("raft.replication", "_take_chunk", make)


@defect("bootstrap-fetch-before-flush", "a replica that looks for the leader reports records that it has not flushed")
def _() -> None:
    def make(original: Any) -> Any:
        def send(replica: Any, now_ms: int) -> None:
            log = replica.log
            durable, log.durable_end_offset = log.durable_end_offset, log.end_offset
            try:
                original(replica, now_ms)
            finally:
                log.durable_end_offset = durable

        return send

    replace_in("raft.replication", "send_fetch_to_bootstrap_server", make)
