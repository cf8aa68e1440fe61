"""The transactional producers of a run: epochs by transactional id, and the order of what they may write.

A task's record counts as written if its producer's epoch is the newest of its id. A killed worker leaves records on
their way, which arrive later and must be refused if a newer set of tasks has begun to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.connect.decide.backing_stores.config_records import (
    ConfigRecordKind,
    config_key,
    parse_properties,
    parse_task,
)
from barnabas.connect.decide.backing_stores.internal_json import parse_json

if TYPE_CHECKING:
    from tests.simulation.connect.topics import SharedTopic

__all__ = ["Producer", "Producers", "ZombieWrote"]


class ZombieWrote(AssertionError):
    """A task of an earlier set has written after one of a newer set."""


class Producers:
    def __init__(self, config_topic: SharedTopic) -> None:
        self._topic = config_topic
        self._epochs: dict[str, int] = {}
        self._sets: dict[str, list[str]] = {}
        """The stamps of a connector's sets of tasks, in the order in which they were written."""
        self._seen = 0
        self._newest: dict[str, int] = {}
        self.refused = 0
        """How many records of zombies were refused."""

    def init(self, transactional_id: str) -> int:
        """Return the epoch of a new producer. Fences earlier ones."""
        self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
        return self._epochs[transactional_id]

    def is_newest(self, transactional_id: str, epoch: int) -> bool:
        return self._epochs.get(transactional_id) == epoch

    def write(self, producer: Producer) -> None:
        """Take a record. Raise ZombieWrote."""
        if not self.is_newest(producer.transactional_id, producer.epoch):
            self.refused += 1
            return
        number = self._number(producer.connector, producer.stamp)
        newest = self._newest.get(producer.connector, -1)
        if number < newest:
            raise ZombieWrote(f"{producer.transactional_id} of set {number} has written after set {newest}")
        self._newest[producer.connector] = number

    def _number(self, connector: str, stamp: str) -> int:
        records = self._topic.records
        while self._seen < len(records):
            key, value = records[self._seen]
            self._seen += 1
            found = config_key(key.decode())
            task = parse_task(found.name) if found is not None and found.kind is ConfigRecordKind.TASK else None
            if task is not None and value is not None:
                written = parse_properties(parse_json(value))["stamp"]
                sets = self._sets.setdefault(task.connector, [])
                if written is not None and written not in sets:
                    sets.append(written)
        return self._sets[connector].index(stamp)


class Producer:
    """The producer of one run of a task."""

    def __init__(self, producers: Producers, transactional_id: str, connector: str, stamp: str) -> None:
        self.transactional_id = transactional_id
        self.connector = connector
        self.stamp = stamp
        self.epoch = producers.init(transactional_id)
