"""ShareFetch and ShareAcknowledge: a walk that a real Kafka answered, by ``tests.peers.record_share_requests``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message
from tests.peers.share_requests import CONFIGS, assert_equal_to_kafkas, walk
from tests.unit.broker.share.share_broker import OTHER, OTHER_ID, TOPIC, TOPIC_ID, Peer, ShareBroker

pytestmark = pytest.mark.oracle


class OurBroker:
    def __init__(self, broker: ShareBroker) -> None:
        self._broker = broker
        self._peers: dict[str, Peer] = {}

    def topic_id(self, name: str) -> Uuid:
        return {TOPIC: TOPIC_ID, OTHER: OTHER_ID}[name]

    def produce(self, topic: str, partition: int, count: int) -> None:
        self._broker.produce(count, partition, topic)

    def delete_topic(self, name: str) -> None:
        assert name == TOPIC
        self._broker.delete_topic()

    def ask(self, member_id: str, request: Message, version: int) -> Any:
        if member_id not in self._peers:
            self._peers[member_id] = self._broker.new_peer()
        answer = self._broker.ask(request, version, self._peers[member_id])
        self._broker.run(getattr(request, "max_wait_ms", 0))
        return answer.result()

    def disconnect(self, member_id: str) -> None:
        self._broker.call(self._peers.pop(member_id).close)


def test_the_handlers_answer_like_kafka(tmp_path: Path) -> None:
    broker = ShareBroker(tmp_path)
    for name, value in CONFIGS.items():
        broker.set_config(name, value)
    answers = walk(OurBroker(broker))
    broker.close()
    assert_equal_to_kafkas(answers)
