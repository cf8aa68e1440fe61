"""Brokers that leave more partitions behind than can be decided at once: a part of them in each turn.

Until its departure is concluded no other decision elects the broker, or adds it to an ISR (``DepartingReplicas``).

After the last partition that the broker held at the beginning, those are decided that came to it since: a new
partition, or one whose in-sync replicas it joined again. The broker is out of all of them then, and what concludes its
departure (it is fenced, or another process registers) is decided with the last of them.

Nothing of this is replicated. A new active controller finds an unfenced broker and waits for it as for any other, or
one that shuts down and still leads, whose next heartbeat begins anew.
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
    """``came`` has the partitions that name the broker again since the departure began."""

    __slots__ = ("came", "counts_eligible")

    def __init__(self, counts_eligible: bool) -> None:
        self.came: dict[PartitionKey, None] = {}
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
        """The first turn. ``decide`` gives the records for a part of the partitions that have the broker in sync.

        ``conclude`` receives the records of the last turn, and says what is to be written then. It is called at once if
        it takes only one turn, and never when another process takes the broker's place meanwhile. ``directories``: only
        the replicas in these depart.
        """
        return self._turns.begin(_key(broker.id), self._leaves(broker, decide, conclude, directories))

    def begin_later(self, broker: BrokerRegistration, decide: Decide, conclude: Conclude[None]) -> None:
        """The same, but the first turn waits for those of other decisions."""
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
        """The records of turn after turn; the last one is followed by what concludes the departure, at once.

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
                is_last = walk.is_done and not departure.came
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
        """Walks the topics that the broker holds now, without keeping an image alive: freeing an old one takes long."""
        held = self._state.image.topics.by_broker.get(broker_id)
        for topic_id in () if held is None else in_order(held):
            topic = self._state.image.topics.by_id.get(topic_id)
            if topic is not None:
                yield from ((topic_id, partition_id) for partition_id in sorted(topic.partitions))

    def replayed(self, records: Sequence[ApiMessageAndVersion]) -> None:
        """Whatever was decided: it may give partitions to a broker that is leaving."""
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
                    departure.came[record.topic_id, record.partition_id] = None

    def _came_again(
        self, departure: _Departure, broker_id: int, is_wanted: Callable[[PartitionRegistration], bool]
    ) -> list[PartitionOf]:
        """Where the broker alone is in sync it may stay so, without a leader: such a partition has been decided."""
        keys = list(departure.came)[: partition_walk.PARTITIONS_A_TURN]
        for key in keys:
            del departure.came[key]
        found = self._state.image.topics.partitions_of(sorted(keys))
        return [entry for entry in found if is_wanted(entry[2]) and entry[2].leader != NO_LEADER]

    def _is_registered(self, broker: BrokerRegistration) -> bool:
        now = self._state.image.cluster.brokers.get(broker.id)
        return now is not None and now.epoch == broker.epoch


def _key(broker_id: int) -> tuple[str, int]:
    return "departure", broker_id
