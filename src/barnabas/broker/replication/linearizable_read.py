"""Decides whether a read of a leader's state may be answered, or whether another broker may lead instead.

The read may be answered once one of these holds for each of its partitions:

* the session lease of this broker holds (``session_lease``);
* every other broker that could have been elected has fetched from this broker since the read arrived
  (``read_rounds``). These are the maximal ISR and the eligible leader replicas. At least one of them would know a new
  leader before that leader serves, unless the leader was elected uncleanly.

The read is refused when the leadership ends, when another leader epoch begins, or after its time limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.replication.leader_replica import LeaderReplica

__all__ = ["LeadershipRead"]


class LeadershipRead:
    """One request for partitions that this broker leads when the request arrives."""

    __slots__ = ("_deadline_s", "_doubtful", "_round", "refused")

    def __init__(self, leaders: Mapping[int, LeaderReplica], *, read_round: int, deadline_s: float) -> None:
        self._doubtful = {partition: (leader, leader.leadership.leader_epoch) for partition, leader in leaders.items()}
        self._round = read_round
        self._deadline_s = deadline_s
        self.refused: set[int] = set()

    def is_decided(self, now_s: float, lease_until_s: float) -> bool:
        """Check the remaining partitions. Return True if each partition is confirmed or ``refused``."""
        for partition, (leader, leader_epoch) in tuple(self._doubtful.items()):
            if leader.is_over or leader.leadership.leader_epoch != leader_epoch:
                self.refused.add(partition)
            elif now_s >= lease_until_s and not leader.leadership.is_followed_since(self._round):
                if now_s < self._deadline_s:
                    continue
                self.refused.add(partition)
            del self._doubtful[partition]
        return not self._doubtful

    def give_up(self) -> None:
        """Refuse the remaining partitions."""
        self.refused.update(self._doubtful)
        self._doubtful.clear()
