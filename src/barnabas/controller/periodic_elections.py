"""Elections that nobody asks for: leaderships go back to preferred replicas, and partitions without a leader get one.

* ``auto.leader.rebalance.enable``: every ``leader.imbalance.check.interval.seconds`` a partition that its first replica
  does not lead, and could, is given to it.
* ``unclean.leader.election.interval.ms``: every so often a partition that has no leader, and whose topic allows unclean
  elections by now, gets one that may have lost records. A change of the setting elects nobody by itself.

One round makes a thousand elections at most, and the next comes at once if there may be more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.configuration_control_manager import ConfigurationControlManager
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.partition_change_builder import Election
from barnabas.controller.partition_election import PartitionElection, PartitionOf
from barnabas.metadata.image.partition_registration import NO_LEADER
from barnabas.metadata.image.record_writer import ApiMessageAndVersion

__all__ = ["PeriodicElections"]

_MAX_ELECTIONS = 1_000


class _Round:
    """``next_ms`` is when it is due, None while it never is."""

    __slots__ = ("interval_ms", "next_ms")

    def __init__(self, interval_ms: int) -> None:
        self.interval_ms = interval_ms
        self.next_ms: int | None = None


class PeriodicElections:
    def __init__(
        self,
        state: ControllerState,
        config: ControllerConfig,
        cluster: ClusterControlManager,
        configs: ConfigurationControlManager,
        election: PartitionElection,
    ) -> None:
        self._state = state
        self._config = config
        self._cluster = cluster
        self._configs = configs
        self._election = election
        self._preferred = _Round(config.leader_imbalance_check_interval_s * 1000)
        self._unclean = _Round(config.unclean_leader_election_interval_ms)

    def activate(self, now_ms: int) -> None:
        if self._config.auto_leader_rebalance_enable:
            self._preferred.next_ms = now_ms + self._preferred.interval_ms
        self._unclean.next_ms = now_ms + self._unclean.interval_ms

    def deactivate(self) -> None:
        self._preferred.next_ms = self._unclean.next_ms = None

    def next_ms(self) -> int | None:
        due = [each.next_ms for each in (self._preferred, self._unclean) if each.next_ms is not None]
        return min(due) if due else None

    def due(self, now_ms: int) -> Iterator[Callable[[], ControllerResult[None]]]:
        """The decisions that are to be made now."""
        for each, elections in ((self._preferred, self._preferred_leaders), (self._unclean, self._unclean_leaders)):
            if each.next_ms is not None and now_ms >= each.next_ms:
                each.next_ms = now_ms + each.interval_ms
                yield partial(self._decided, each, elections, now_ms)

    def _decided(
        self, which: _Round, elections: Callable[[], Iterator[ApiMessageAndVersion]], now_ms: int
    ) -> ControllerResult[None]:
        records = []
        for record in elections():
            records.append(record)
            if len(records) == _MAX_ELECTIONS:
                which.next_ms = now_ms
                break
        return ControllerResult(records, None, is_atomic=False)

    def _preferred_leaders(self) -> Iterator[ApiMessageAndVersion]:
        for found in self._state.image.topics.imbalanced_partitions():
            preferred, leader = found[2].preferred_replica, found[2].leader
            if leader == NO_LEADER or self._cluster.is_active(preferred):  # A quick look: often there are thousands.
                yield from self._elected(found, Election.PREFERRED)

    def _unclean_leaders(self) -> Iterator[ApiMessageAndVersion]:
        for found in self._election.leaderless():
            if self._configs.election_settings(found[0].name).is_unclean_enabled:
                yield from self._elected(found, Election.UNCLEAN)

    def _elected(self, found: PartitionOf, election: Election) -> Iterator[ApiMessageAndVersion]:
        builder = self._election.builder_for(*found, self._cluster.is_active)
        builder.election = election
        record = builder.build()
        if record is not None:
            yield record
