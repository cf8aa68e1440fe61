"""Clients receive a random live broker as the controller (KIP-590), and none when no broker is live."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.unit.broker.apis.test_denials import World


class Brokers(World):
    """Broker 1, which answers, and brokers 2 and 3."""

    def __init__(self) -> None:
        super().__init__("CLUSTER:DESCRIBE", "TOPIC:DESCRIBE")
        self.harness.start_broker(2)
        self.harness.start_broker(3)

    def fence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.harness.heartbeat(broker_id, want_fence=True)

    def controllers_returned(self) -> tuple[set[int], set[int]]:
        """Return the controllers in 40 responses of each kind."""
        manifest: Any = None
        self.broker.metadata.publish(SimpleNamespace(), self.harness.controller.committed_image, manifest)
        return (
            {self.ask(MetadataRequest(topics=[]), 12).controller_id for _ in range(40)},
            {self.ask(DescribeClusterRequest(), 2).controller_id for _ in range(40)},
        )


@pytest.mark.parametrize(
    ("fenced", "controllers"),
    [((), {1, 2, 3}), ((2,), {1, 3}), ((1,), {2, 3}), ((1, 2), {3}), ((1, 2, 3), {-1})],
    ids=["none", "other", "this", "two", "all"],
)
def test_the_controller_for_clients_is_any_live_broker(fenced: tuple[int, ...], controllers: set[int]) -> None:
    world = Brokers()
    world.fence(*fenced)
    assert world.controllers_returned() == (controllers, controllers)
