"""Records a ``LeadershipStory`` so that two controllers that run it can be compared. The record omits values that
differ from run to run (topic ids and broker epochs are named after their owner) and records without effect: a NoOp, the
fencing of a fenced broker, and the registration of the controller itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from barnabas.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.records.register_controller_record import RegisterControllerRecord
from barnabas.protocol.records.topic_record import TopicRecord
from tests.peers.leadership_story import LeadershipStory

__all__ = ["LeadershipScribe", "Versioned"]

Versioned = tuple[Any, int]
"""A record and its version."""

_UNORDERED = {"features": "name", "replicaElectionResults": "topic", "partitionResult": "partitionId"}
"""Lists that Kafka writes in the order of a hash table, and the sort keys of their entries."""


class LeadershipScribe:
    def __init__(self, story: LeadershipStory) -> None:
        self._story = story
        self._names: dict[str, str] = {}
        self._epochs: dict[tuple[int, int], str] = {}
        self._lives: dict[int, int] = {}

    def entry(self, step: str, answer: Any, version: int, records: Iterable[Versioned]) -> dict[str, Any]:
        """Return the line of a step, and pass the records to the story."""
        lines, kinds = [], []
        for record, record_version in records:
            if isinstance(record, (NoOpRecord, RegisterControllerRecord)) or self._changes_nothing(record):
                continue
            self._learn(record)
            self._story.replay([record])
            kind = type(record).__name__.removesuffix("Record")
            lines.append(f"{kind} v{record_version} {self._text(record.to_json(record_version))}")
            if not kinds or kinds[-1] != kind:
                kinds.append(kind)
        text = None if answer is None else self._text(_answered(answer, version))
        return {"step": step, "answer": text, "kinds": kinds, "records": sorted(lines)}

    def _changes_nothing(self, record: Any) -> bool:
        if not isinstance(record, BrokerRegistrationChangeRecord) or record.fenced != 1:
            return False
        return self._story.image.cluster.brokers[record.broker_id].fenced

    def _learn(self, record: Any) -> None:
        if isinstance(record, TopicRecord):
            self._names[str(record.topic_id)] = record.name
        elif isinstance(record, RegisterBrokerRecord):
            life = self._lives[record.broker_id] = self._lives.get(record.broker_id, 0) + 1
            self._epochs[record.broker_id, record.broker_epoch] = f"life {life} of {record.broker_id}"

    def _text(self, value: Any) -> str:
        return json.dumps(self._named(value), sort_keys=True)

    def _named(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._named(item) for item in value]
        if not isinstance(value, dict):
            return value
        for several, key in _UNORDERED.items():
            if several in value:
                value = {**value, several: sorted(value[several], key=itemgetter(key))}
        named = {key: self._named(member) for key, member in value.items()}
        if "topicId" in named:
            named["topicId"] = self._names.get(named["topicId"], named["topicId"])
        if "brokerEpoch" in named:
            epoch = named["brokerEpoch"]
            named["brokerEpoch"] = self._epochs.get((named.get("brokerId", -1), epoch), "?" if epoch >= 0 else epoch)
        return named


def _answered(answer: Any, version: int) -> Any:
    """Return the message as on the wire: fields that the version lacks are not compared."""
    return type(answer).decode(answer.encode(version), version).to_json(version)
