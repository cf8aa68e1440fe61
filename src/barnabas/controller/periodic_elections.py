"""Periodic elections: leaderships return to preferred replicas, and leaderless partitions receive a leader.

* ``auto.leader.rebalance.enable``: every ``leader.imbalance.check.interval.seconds`` the first replica of a partition
  is elected if it does not lead and can.
* ``unclean.leader.election.interval.ms``: at this interval a partition without a leader, whose topic now allows unclean
  elections, receives one that may have lost records. A change of the setting alone elects no leader.

A round is made in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from barnabas.controller import partition_walk
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.configuration_control_manager import ConfigurationControlManager
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_turns import DecisionTurns, Turns
from barnabas.controller.partition_change_builder import Election
from barnabas.controller.partition_election import PartitionElection
from barnabas.controller.partition_walk import PartitionOf, PartitionWalk
from barnabas.metadata.image.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.persistent_map import in_order

__all__ = ["PeriodicElections"]


class _Round:
    """``next_ms`` is when it is due, None if it never is."""

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
        turns: DecisionTurns,
    ) -> None:
        self._state = state
        self._config = config
        self._cluster = cluster
        self._configs = configs
        self._election = election
        self._turns = turns
        self._preferred = _Round(config.leader_imbalance_check_interval_s * 1000)
        self._unclean = _Round(config.unclean_leader_election_interval_ms)

    def activate(self, now_ms: int) -> None:
        if self._config.auto_leader_rebalance_enable:
            self._preferred.next_ms = now_ms + self._preferred.interval_ms
        self._unclean.next_ms = now_ms + self._unclean.interval_ms

    def deactivate(self) -> None:
        self._preferred.next_ms = self._unclean.next_ms = None

    def next_ms(self) -> int | None:
        due = [election.next_ms for election in (self._preferred, self._unclean) if election.next_ms is not None]
        return min(due) if due else None

    def due(self, now_ms: int) -> Iterator[Callable[[], ControllerResult[None]]]:
        """Return the first turns of the rounds that are due. A round that is still under way is not begun again."""
        for which, is_wanted, election in (
            (self._preferred, self._may_be_given_back, Election.PREFERRED),
            (self._unclean, self._is_leaderless, Election.UNCLEAN),
        ):
            if which.next_ms is not None and now_ms >= which.next_ms:
                which.next_ms = now_ms + which.interval_ms
                if not self._turns.is_under_way(election):
                    yield partial(self._turns.begin, election, self._round(is_wanted, election))

    def _round(self, is_wanted: Callable[[PartitionRegistration], bool], election: Election) -> Turns[None]:
        """A turn elects some hundred leaders at most."""
        topics = self._state.image.topics
        nothing_to_do = election is Election.UNCLEAN and not topics.index.led_count(NO_LEADER)
        walk = PartitionWalk(self._state, () if nothing_to_do else in_order(topics.imbalanced))
        del topics
        while True:
            piece = walk.piece(partition_walk.PARTITIONS_A_TURN, is_wanted)
            result = ControllerResult[None](self._elected(piece, election), None, is_atomic=False)
            if walk.is_done:
                return result
            yield result

    def _may_be_given_back(self, partition: PartitionRegistration) -> bool:
        """A quick check: often the preferred leader of thousands of partitions is not alive."""
        leader = partition.leader
        return leader != partition.preferred_replica and (
            leader == NO_LEADER or self._cluster.is_active(partition.preferred_replica)
        )

    def _is_leaderless(self, partition: PartitionRegistration) -> bool:
        return partition.leader == NO_LEADER

    def _elected(self, partitions: Iterable[PartitionOf], election: Election) -> list[ApiMessageAndVersion]:
        records: list[ApiMessageAndVersion] = []
        for found in partitions:
            if election is Election.UNCLEAN and not self._configs.election_settings(found[0].name).is_unclean_enabled:
                continue
            builder = self._election.builder_for(*found, self._cluster.is_active)
            builder.election = election
            record = builder.build()
            if record is not None:
                records.append(record)
        return records
