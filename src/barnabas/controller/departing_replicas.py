"""Replicas that depart in turns: no other decision may elect them or add them to an ISR.

Without this rule two brokers that depart together would move partitions to each other in turn after turn, forever.
This state is not replicated.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.metadata.image.cluster import BrokerRegistration

__all__ = ["DepartingReplicas"]


class _Departure(NamedTuple):
    broker_id: int
    broker_epoch: int
    directories: frozenset[Uuid]
    """Empty if all replicas of the broker depart."""


class DepartingReplicas:
    """A departure concerns one incarnation of a broker: a later registration has another epoch."""

    def __init__(self) -> None:
        self._departures: dict[object, _Departure] = {}
        self._brokers: set[tuple[int, int]] = set()
        self._directories: set[tuple[int, int, Uuid]] = set()

    def begin(self, key: object, broker: BrokerRegistration, directories: Collection[Uuid] = ()) -> None:
        """Mark the replicas in these directories as departing; without directories, all replicas of the broker."""
        self._departures[key] = _Departure(broker.id, broker.epoch, frozenset(directories))
        self._index()

    def end(self, key: object) -> None:
        if self._departures.pop(key, None) is not None:
            self._index()

    def clear(self) -> None:
        self._departures.clear()
        self._index()

    def has_broker(self, broker: BrokerRegistration) -> bool:
        return (broker.id, broker.epoch) in self._brokers

    def has_directory(self, broker: BrokerRegistration, directory: Uuid) -> bool:
        return (broker.id, broker.epoch, directory) in self._directories

    def _index(self) -> None:
        departures = self._departures.values()
        self._brokers = {(found.broker_id, found.broker_epoch) for found in departures if not found.directories}
        self._directories = {
            (found.broker_id, found.broker_epoch, directory) for found in departures for directory in found.directories
        }
