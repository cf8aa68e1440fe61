"""Clients are told that a live broker is the controller, this one if it lives, and nobody when none does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.unit.broker.apis.test_denials import World


class Brokers(World):
    """Broker 1, which answers, and broker 2."""

    def __init__(self) -> None:
        super().__init__("CLUSTER:DESCRIBE", "TOPIC:DESCRIBE")
        self.harness.start_broker(2)

    def fence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.harness.heartbeat(broker_id, want_fence=True)

    def told(self) -> tuple[int, int]:
        manifest: Any = None
        self.broker.metadata.publish(SimpleNamespace(), self.harness.controller.committed_image, manifest)
        answers = self.ask(MetadataRequest(topics=[]), 12), self.ask(DescribeClusterRequest(), 2)
        return answers[0].controller_id, answers[1].controller_id


@pytest.mark.parametrize(
    ("fenced", "controller"), [((), 1), ((2,), 1), ((1,), 2), ((1, 2), -1)], ids=["none", "other", "this", "both"]
)
def test_it_is_a_live_broker(fenced: tuple[int, ...], controller: int) -> None:
    world = Brokers()
    world.fence(*fenced)
    assert world.told() == (controller, controller)
