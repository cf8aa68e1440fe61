"""Leader: appends, tracks the progress of the voters, and commits the records that a majority has.

The high watermark moves only once a majority holds a record of this epoch: records of earlier epochs commit
with it, never alone (Raft, 5.4.2). It never decreases; a new voter that lags only stops it for a while.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.epoch_state import FOREVER_MS, EpochState
from barnabas.raft.voter_set import VoterNode, VoterSet

__all__ = ["LeaderState", "ReplicaProgress"]

OBSERVER_SESSION_TIMEOUT_MS = 300_000
"""An observer that has not fetched for so long is forgotten."""


class ReplicaProgress:
    """The progress of a replica's log, as its last fetch reported."""

    __slots__ = ("end_offset", "key", "last_caught_up_ms", "last_fetch_leader_end", "last_fetch_ms")

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.end_offset: int | None = None
        self.last_fetch_ms = -1
        self.last_fetch_leader_end = -1
        self.last_caught_up_ms = -1

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif self.last_fetch_leader_end > 0 and offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.last_fetch_leader_end = leader_end_offset


class LeaderState(EpochState):
    name = "Leader"

    def __init__(
        self,
        epoch: int,
        *,
        key: ReplicaKey,
        voters: VoterSet,
        granting: Sequence[ReplicaKey],
        epoch_start_offset: int,
        accumulator: BatchAccumulator,
        check_quorum_timeout_ms: int,
        begin_quorum_epoch_timeout_ms: int,
        now_ms: int,
    ) -> None:
        super().__init__(epoch)
        self._key = key
        self.granting = granting
        self.epoch_start_offset = epoch_start_offset
        self.accumulator = accumulator
        self.high_watermark: int | None = None
        self.begin_quorum_deadline_ms = now_ms
        self._begin_quorum_timeout_ms = begin_quorum_epoch_timeout_ms
        self._check_quorum_timeout_ms = check_quorum_timeout_ms
        self._check_quorum_deadline_ms = now_ms + check_quorum_timeout_ms
        self._fetched_voters: set[int] = set()
        self._distrusted: set[int] = set()
        """Voters whose next fetch may be older than a standstill of this process."""
        self.voters = voters
        self.progress: dict[int, ReplicaProgress] = {id_.id: ReplicaProgress(id_) for id_ in voters.keys}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self.described_voters: dict[int, VoterNode] = {}
        """The descriptions that voters from the settings have sent in this epoch."""

    @property
    def leader_id(self) -> int:
        return self._key.id

    @property
    def check_quorum_deadline_ms(self) -> int:
        """The deadline to resign without fetches of a majority; never for the only voter."""
        return FOREVER_MS if self.voters.is_only_voter(self._key) else self._check_quorum_deadline_ms

    @property
    def deadline_ms(self) -> int:
        if self.voters.is_only_voter(self._key):
            return FOREVER_MS
        return min(self.check_quorum_deadline_ms, self.begin_quorum_deadline_ms)

    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        return False

    # --- progress of the voters

    def update_voters(self, voters: VoterSet) -> None:
        """Count majorities in this set from now on; the progress of remaining voters and of observers is kept."""
        before = self.progress
        self.voters = voters
        self.progress = {}
        for key in voters.keys:
            known = before.pop(key.id, None) or self.observers.pop(key, None) or ReplicaProgress(key)
            known.key = key
            self.progress[key.id] = known
        for progress in before.values():
            if progress.key.id != self._key.id:
                self.observers[progress.key] = progress

    def is_voter(self, key: ReplicaKey) -> bool:
        return self.voters.is_voter(key)

    def update_local(self, durable_end_offset: int, now_ms: int) -> bool:
        """Count the leader's own durable log; return whether the high watermark moved."""
        own = self.progress.get(self._key.id)
        if own is None:
            return self._update_high_watermark()
        own.end_offset = durable_end_offset
        own.last_fetch_ms = own.last_caught_up_ms = now_ms
        return self._update_high_watermark()

    def update_replica(self, key: ReplicaKey, fetch_offset: int, leader_end_offset: int, now_ms: int) -> bool:
        """Record a fetch at this offset; return whether the high watermark moved."""
        if not self.is_voter(key):
            self.observers.setdefault(key, ReplicaProgress(key)).fetched(fetch_offset, leader_end_offset, now_ms)
            return False
        progress = self.progress[key.id]
        progress.fetched(fetch_offset, leader_end_offset, now_ms)
        self._note_fetch(key.id, now_ms)
        return self._update_high_watermark()

    def note_snapshot_fetch(self, key: ReplicaKey, now_ms: int) -> None:
        """Record that a voter reads a snapshot: it is alive, although it acknowledges nothing yet."""
        if self.is_voter(key):
            self._note_fetch(key.id, now_ms)

    def _note_fetch(self, voter_id: int, now_ms: int) -> None:
        if voter_id == self._key.id:
            return
        if voter_id in self._distrusted:
            self._distrusted.discard(voter_id)
            return
        self._fetched_voters.add(voter_id)
        needed = self.voters.majority - (1 if self.is_voter(self._key) else 0)
        if len(self._fetched_voters) >= needed:
            self._fetched_voters.clear()
            self._check_quorum_deadline_ms = now_ms + self._check_quorum_timeout_ms

    def distrust_next_fetches(self) -> None:
        """Distrust the next fetch of each voter: it may have been sent before this process stood still.

        A voter has one fetch under way, and sends the next when that is answered.
        """
        self._distrusted = {voter_id for voter_id in self.progress if voter_id != self._key.id}
        self._fetched_voters.clear()

    def restart_check_quorum(self, now_ms: int) -> None:
        """Handle a change of the voters: each new one has the whole time to fetch."""
        self._fetched_voters.clear()
        self._check_quorum_deadline_ms = now_ms + self._check_quorum_timeout_ms

    def forget_old_observers(self, now_ms: int) -> None:
        oldest = now_ms - OBSERVER_SESSION_TIMEOUT_MS
        self.observers = {key: seen for key, seen in self.observers.items() if seen.last_fetch_ms >= oldest}

    def _update_high_watermark(self) -> bool:
        ends = sorted((-1 if p.end_offset is None else p.end_offset for p in self.progress.values()), reverse=True)
        candidate = ends[len(ends) // 2]
        if candidate <= self.epoch_start_offset or candidate <= (self.high_watermark or 0):
            return False
        self.high_watermark = candidate
        return True

    # --- notifying the voters

    def voters_to_begin(self, now_ms: int) -> list[int]:
        """Voters that have not fetched lately, and so may not know of this epoch."""
        quiet_since = now_ms - self._begin_quorum_timeout_ms
        return [
            voter_id
            for voter_id, progress in self.progress.items()
            if voter_id != self._key.id and progress.last_fetch_ms <= quiet_since
        ]

    def begin_quorum_sent(self, now_ms: int) -> None:
        self.begin_quorum_deadline_ms = now_ms + self._begin_quorum_timeout_ms

    def preferred_successors(self) -> list[ReplicaKey]:
        """The other voters, the one with the longest log first."""
        others = [progress for progress in self.progress.values() if progress.key.id != self._key.id]
        others.sort(key=lambda progress: -1 if progress.end_offset is None else progress.end_offset, reverse=True)
        return [progress.key for progress in others]
