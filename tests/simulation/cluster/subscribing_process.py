"""A process of a member that subscribes to topics: what both protocols of consumer groups have in common."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.cluster.consumer_group_shape import ConsumerGroupShape, MemberShape, draw_subscription
from tests.simulation.cluster.member_process import MemberProcess

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["SubscribingProcess"]

CHANGES = 0.05


class SubscribingProcess(MemberProcess):
    def __init__(
        self, world: World, shape: MemberShape, draw: random.Random, number: int, dies_s: float | None
    ) -> None:
        settings = world.shape.consumer_groups
        assert settings is not None
        super().__init__(world, shape, settings, world.checks.consumer_groups, draw, number, dies_s)
        self.shape = shape
        self._shape_of_run: ConsumerGroupShape = settings
        self._draw_subscription()

    def _draw_subscription(self) -> None:
        self.subscription = draw_subscription(self.draw, self._shape_of_run, has_patterns=not self.uses_classic)

    def maybe_change(self) -> None:
        """Subscribe to other topics now and then, until the faults end."""
        if self.draw.random() < CHANGES and not self.world.is_healed:
            self._draw_subscription()
            self.is_settled = False
