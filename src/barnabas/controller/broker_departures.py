"""Moves the partitions of a leaving broker in turns, if they are too many for one decision.

Until its departure is concluded no other decision elects the broker, or adds it to an ISR (``DepartingReplicas``).

After the partitions that the broker held at the beginning, those are decided that it has received since: a new
partition, or one whose in-sync replicas it joined again. Then the broker has left all of them, and the conclusion of
its departure (it is fenced, or another process registers) is decided with the last of them.

This state is not replicated. A new active controller finds an unfenced broker and waits for its session as for any
other, or a broker that shuts down and still leads, whose next heartbeat begins the departure again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from barnabas.common.uuid import Uuid
from barnabas.controller import partition_walk
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_turns import DecisionTurns, Turns
from barnabas.controller.departing_replicas import DepartingReplicas
from barnabas.controller.partition_walk import PartitionOf, PartitionWalk
from barnabas.metadata.image.cluster import BrokerRegistration
from barnabas.metadata.image.partition_index import PartitionKey
from barnabas.metadata.image.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.persistent_map import in_order
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord

__all__ = ["BrokerDepartures", "Turn"]

T = TypeVar("T")

Conclude = Callable[[list[ApiMessageAndVersion]], ControllerResult[T]]
Decide = Callable[[list[PartitionOf]], list[ApiMessageAndVersion]]


class Turn(NamedTuple):
    records: list[ApiMessageAndVersion]
    is_last: bool


class _Departure:
    """``returned`` has the partitions that name the broker again since the departure began."""

    __slots__ = ("counts_eligible", "returned")

    def __init__(self, counts_eligible: bool) -> None:
        self.returned: dict[PartitionKey, None] = {}
        self.counts_eligible = counts_eligible


class BrokerDepartures:
    def __init__(self, state: ControllerState, departing: DepartingReplicas, turns: DecisionTurns) -> None:
        self._state = state
        self._replicas = departing
        self._turns = turns
        self._departing: dict[int, list[_Departure]] = {}

    def is_under_way(self, broker_id: int) -> bool:
        return self._turns.is_under_way(_key(broker_id))

    def deactivate(self) -> None:
        self._departing.clear()

    def begin(
        self,
        broker: BrokerRegistration,
        decide: Decide,
        conclude: Conclude[None],
        *,
        directories: Collection[Uuid] = (),
    ) -> ControllerResult[None]:
        """Decide the first turn. ``decide`` returns the records for a part of the partitions with the broker in sync.

        ``conclude`` receives the records of the last turn, and returns the result to write then. It is called
        immediately if one turn suffices, and never if another process takes the broker's place meanwhile.
        ``directories``: only the replicas in these depart.
        """
        return self._turns.begin(_key(broker.id), self._leaves(broker, decide, conclude, directories))

    def begin_later(self, broker: BrokerRegistration, decide: Decide, conclude: Conclude[None]) -> None:
        """As ``begin``, but the first turn waits for those of other decisions."""
        self._turns.begin_later(_key(broker.id), self._leaves(broker, decide, conclude, ()))

    def _leaves(
        self, broker: BrokerRegistration, decide: Decide, conclude: Conclude[None], directories: Collection[Uuid]
    ) -> Turns[None]:
        turns = self.turns(broker.id, decide, counts_eligible=False, directories=directories)
        for turn in turns:
            if turn.is_last:
                return conclude(turn.records)
            yield ControllerResult(turn.records, None, is_atomic=False)
            if not self._is_registered(broker):
                turns.close()
                break
        return ControllerResult((), None)

    def turns(
        self, broker_id: int, decide: Decide, *, counts_eligible: bool, directories: Collection[Uuid] = ()
    ) -> Generator[Turn, None, None]:
        """Yield the records of each turn; the caller must conclude the departure immediately after the last one.

        ``counts_eligible``: partitions that name the broker as an eligible leader are decided, too.
        """
        departure = _Departure(counts_eligible)
        departing = self._departing.setdefault(broker_id, [])
        departing.append(departure)
        broker = self._state.image.cluster.brokers.get(broker_id)
        if broker is not None:
            self._replicas.begin(departure, broker, directories)
        try:
            walk = PartitionWalk(self._state, self._keys_on(broker_id))

            def is_wanted(partition: PartitionRegistration) -> bool:
                return broker_id in partition.isr or (counts_eligible and broker_id in partition.elr)

            while True:
                found = self._came_again(departure, broker_id, is_wanted)
                found.extend(
                    walk.piece(max(partition_walk.PARTITIONS_A_TURN - len(found), 1), is_wanted)
                    if not walk.is_done
                    else ()
                )
                is_last = walk.is_done and not departure.returned
                records = decide(found)
                if is_last:
                    self._replicas.end(departure)
                yield Turn(records, is_last)
                if is_last:
                    return
        finally:
            departing.remove(departure)
            self._replicas.end(departure)

    def _keys_on(self, broker_id: int) -> Iterator[PartitionKey]:
        """Yield the partitions of topics on the broker, without keeping an image: freeing an old one takes long."""
        held = self._state.image.topics.by_broker.get(broker_id)
        for topic_id in () if held is None else in_order(held):
            topic = self._state.image.topics.by_id.get(topic_id)
            if topic is not None:
                yield from ((topic_id, partition_id) for partition_id in sorted(topic.partitions))

    def replayed(self, records: Sequence[ApiMessageAndVersion]) -> None:
        """Check all replayed records: any decision may assign partitions to a leaving broker."""
        if not any(self._departing.values()):
            return
        for message, _ in records:
            if type(message) is PartitionChangeRecord or type(message) is PartitionRecord:
                self._look_at(message)

    def _look_at(self, record: PartitionRecord | PartitionChangeRecord) -> None:
        for broker_id, departures in self._departing.items():
            for departure in departures:
                is_in_sync = bool(record.isr) and broker_id in record.isr  # type: ignore[operator]
                eligible = record.eligible_leader_replicas or ()
                if is_in_sync or record.leader == broker_id or (departure.counts_eligible and broker_id in eligible):
                    departure.returned[record.topic_id, record.partition_id] = None

    def _came_again(
        self, departure: _Departure, broker_id: int, is_wanted: Callable[[PartitionRegistration], bool]
    ) -> list[PartitionOf]:
        """A sole in-sync replica may remain in sync, without a leader: such a partition has been decided."""
        keys = list(departure.returned)[: partition_walk.PARTITIONS_A_TURN]
        for key in keys:
            del departure.returned[key]
        found = self._state.image.topics.partitions_of(sorted(keys))
        return [entry for entry in found if is_wanted(entry[2]) and entry[2].leader != NO_LEADER]

    def _is_registered(self, broker: BrokerRegistration) -> bool:
        now = self._state.image.cluster.brokers.get(broker.id)
        return now is not None and now.epoch == broker.epoch


def _key(broker_id: int) -> tuple[str, int]:
    return "departure", broker_id
