"""Brokers that leave more partitions behind than can be decided at once: a part of them in each turn.

Each turn is a decision of its own, and any of them may be the last that is ever committed: what it leaves is a state
that can be. What others decide in between is seen by the next one. After the last partition that was there at the
beginning, one more look finds those that came since; who leaves is out of all of them then.

Nothing of this is replicated. A new active controller finds an unfenced broker and waits for it as for any other, or
one that shuts down and still leads, whose next heartbeat begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.partition_election import PartitionElection, PartitionOf
from barnabas.metadata.image.cluster import BrokerRegistration
from barnabas.metadata.image.partition_registration import NO_LEADER
from barnabas.metadata.image.record_writer import ApiMessageAndVersion

__all__ = ["PARTITIONS_A_TURN", "BrokerDepartures"]

PARTITIONS_A_TURN = 2_000
"""Some 25 ms of deciding."""

_Key = tuple[Uuid, int]
Conclude = Callable[[list[ApiMessageAndVersion]], ControllerResult[None]]


class _Departure(NamedTuple):
    broker_epoch: int
    conclude: Conclude
    rest: Iterator[PartitionOf]
    seen: set[_Key]


class BrokerDepartures:
    def __init__(self, state: ControllerState, election: PartitionElection) -> None:
        self._state = state
        self._election = election
        self._under_way: dict[int, _Departure] = {}

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def is_under_way(self, broker_id: int) -> bool:
        return broker_id in self._under_way

    def deactivate(self) -> None:
        self._under_way.clear()

    def begin(self, broker: BrokerRegistration, conclude: Conclude) -> ControllerResult[None]:
        """The first turn. ``conclude`` is given the records of the last one, and says what is to be written then.

        It is called at once if there is only one, and never when another process takes the broker's place meanwhile.
        """
        topics = self._state.image.topics
        rest = self._still_in_sync(broker.id, topics.partitions_on(broker.id))
        self._under_way[broker.id] = _Departure(broker.epoch, conclude, rest, set())
        return self._turn(broker.id)

    def due(self) -> Iterator[Callable[[], ControllerResult[None]]]:
        """The decisions that are to be made now: a turn of each."""
        for broker_id in list(self._under_way):
            yield partial(self._turn, broker_id)

    def _turn(self, broker_id: int) -> ControllerResult[None]:
        departure = self._under_way.pop(broker_id)
        broker = self._state.image.cluster.brokers.get(broker_id)
        if broker is None or broker.epoch != departure.broker_epoch:
            return ControllerResult((), None)
        found = list(islice(departure.rest, PARTITIONS_A_TURN))
        if len(found) == PARTITIONS_A_TURN:
            departure.seen.update(map(_key, found))
            self._under_way[broker_id] = departure
            return ControllerResult(self._election.broker_leaves(broker_id, found), None, is_atomic=False)
        found.extend(self._came_since(broker_id, departure.seen, set(map(_key, found))))
        return departure.conclude(self._election.broker_leaves(broker_id, found))

    def _still_in_sync(self, broker_id: int, partitions: Iterator[PartitionOf]) -> Iterator[PartitionOf]:
        """Those of the beginning, as they are when their turn comes."""
        for topic, index, _ in partitions:
            now = self._state.image.topics.by_id.get(topic.id)
            partition = None if now is None else now.partitions.get(index)
            if now is not None and partition is not None and broker_id in partition.isr:
                yield now, index, partition

    def _came_since(self, broker_id: int, seen: set[_Key], decided: set[_Key]) -> Iterator[PartitionOf]:
        """Those that are new, or have taken it back. Who was alone in sync may stay so, without a leader."""
        for found in self._state.image.topics.partitions_on(broker_id):
            key, partition = _key(found), found[2]
            if broker_id in partition.isr and key not in decided:
                if key not in seen or partition.leader != NO_LEADER:
                    yield found


def _key(found: PartitionOf) -> _Key:
    return found[0].id, found[1]
