"""Elects leaders when a broker returns, in turns, if too many partitions lack a leader to decide all in one turn.

The broker's own partitions are decided first, then those of other live brokers: the obstacle to their election may have
been removed since they lost their leader, because settings change without an election. Partitions without a live
replica are skipped, unless all of them are few: then they are decided as Kafka does, in one turn and in order.

When the broker leaves between two turns the arrival ends. Partitions that lose their leader meanwhile need no further
decision: the broker is unfenced with the first turn and may lead them immediately. This state is not replicated. A new
active controller searches for partitions without a leader whose in-sync replica, eligible replica or last known leader
is alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from barnabas.controller import partition_walk
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_turns import DecisionTurns, Turns
from barnabas.controller.partition_election import PartitionElection
from barnabas.controller.partition_walk import PartitionWalk
from barnabas.metadata.image.cluster import BrokerRegistration
from barnabas.metadata.image.partition_index import PartitionKey
from barnabas.metadata.image.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.metadata.image.record_writer import ApiMessageAndVersion

__all__ = ["BrokerArrivals"]

_AFTER_FAILOVER = "arrivals that a controller before this one may have left unfinished"


class BrokerArrivals:
    def __init__(
        self,
        state: ControllerState,
        cluster: ClusterControlManager,
        election: PartitionElection,
        turns: DecisionTurns,
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._election = election
        self._turns = turns

    def is_under_way(self, broker_id: int) -> bool:
        return self._turns.is_under_way(_key(broker_id))

    def activate(self) -> None:
        """Continue where the previous controller may have stopped."""
        if self._state.image.topics.index.led_count(NO_LEADER):
            self._turns.begin_later(_AFTER_FAILOVER, self._left_unfinished())

    def begin(self, broker: BrokerRegistration) -> list[ApiMessageAndVersion]:
        """Return the records of the first turn. Write them after the record that unfences the broker."""
        return list(self._turns.begin(_key(broker.id), self._arrives(broker)).records)

    def _arrives(self, broker: BrokerRegistration) -> Turns[None]:
        walk = PartitionWalk(self._state, self._candidates(broker.id))
        found = walk.piece(partition_walk.PARTITIONS_A_TURN, _is_leaderless)
        while not walk.is_done:
            yield ControllerResult(self._election.broker_arrives(broker.id, found), None, is_atomic=False)
            if not self._is_in_touch(broker):
                return ControllerResult((), None)
            found = walk.piece(partition_walk.PARTITIONS_A_TURN, _is_leaderless)
        return ControllerResult(self._election.broker_arrives(broker.id, found), None, is_atomic=False)

    def _candidates(self, broker_id: int) -> Iterable[PartitionKey]:
        index = self._state.image.topics.index
        if index.led_count(NO_LEADER) <= partition_walk.PARTITIONS_A_TURN:
            return index.leaderless()
        others = [other for other in sorted(self._state.image.cluster.brokers) if other != broker_id]
        holders = [broker_id, *filter(self._cluster.is_active, others)]
        return chain.from_iterable(map(index.leaderless_on, holders))  # No image is kept: freeing one takes long.

    def _left_unfinished(self) -> Turns[None]:
        """Consider only partitions whose own record names a possible leader: settings alone elect no leader."""
        walk = PartitionWalk(self._state, self._held_by_active())
        while True:
            found = walk.piece(partition_walk.PARTITIONS_A_TURN, self._is_left_unfinished)
            result = ControllerResult[None](self._election.elected_by_their_records(found), None, is_atomic=False)
            if walk.is_done:
                return result
            yield result

    def _held_by_active(self) -> Iterator[PartitionKey]:
        index = self._state.image.topics.index
        for broker_id in sorted(self._state.image.cluster.brokers):
            if self._cluster.is_active(broker_id):
                yield from index.leaderless_on(broker_id)

    def _is_left_unfinished(self, partition: PartitionRegistration) -> bool:
        named = partition.isr or partition.elr or partition.last_known_elr
        return partition.leader == NO_LEADER and any(map(self._cluster.is_active, named))

    def _is_in_touch(self, broker: BrokerRegistration) -> bool:
        now = self._state.image.cluster.brokers.get(broker.id)
        return now is not None and now.epoch == broker.epoch and self._cluster.is_active(broker.id)


def _is_leaderless(partition: PartitionRegistration) -> bool:
    return partition.leader == NO_LEADER


def _key(broker_id: int) -> tuple[str, int]:
    return "arrival", broker_id
