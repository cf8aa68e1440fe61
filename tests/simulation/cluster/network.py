"""Messages between nodes: late, lost, doubled, overtaken, or cut off in one direction only."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextvars import copy_context

from tests.simulation.cluster.virtual_loop import VirtualLoop

__all__ = ["Network"]


class Network:
    def __init__(self, loop: VirtualLoop, draw: random.Random) -> None:
        self.loop = loop
        self.loss = 0.0
        self.duplication = 0.0
        self.delay_ms = (0.2, 3.0)
        self.slow_share = 0.0
        """How many messages take a hundred times as long: they are overtaken by many."""
        self.cut: set[tuple[int, int]] = set()
        """(from, to): one way. Clients have negative ids."""
        self.silent: set[tuple[int, int]] = set()
        """The same, and neither side learns of it: what is sent arrives when the silence is over."""
        self._held: list[Callable[[], None]] = []
        self._draw = draw
        self._nobody = copy_context()
        """What is under way belongs to nobody: it arrives also when its sender is dead."""

    def send(
        self,
        source: int,
        target: int,
        arrive: Callable[[], None],
        lost: Callable[[], None] | None = None,
        *,
        may_double: bool = False,
    ) -> None:
        """``lost`` is what the sender's connection comes to, some time later, when the message does not arrive.

        A message that ``may_double`` stands for those that are sent again over a new connection while the old one's
        still comes through: raft's. Within one connection nothing doubles.
        """
        draw = self._draw
        if (source, target) in self.silent:
            self._held.append(arrive)
            return
        if source != target and ((source, target) in self.cut or (self.loss and draw.random() < self.loss)):
            if lost is not None:
                self._later(draw.uniform(50.0, 400.0), lost)
            return
        self._later(self._delay(), arrive)
        if may_double and self.duplication and draw.random() < self.duplication:
            self._later(self._delay() * 3, arrive)

    def refuse(self, refused: Callable[[], None]) -> None:
        """Nobody listens at the other end: the sender hears of it soon."""
        self._later(self._delay(), refused)

    def is_cut(self, source: int, target: int) -> bool:
        return (source, target) in self.cut

    def silence(self, node_id: int, others: list[int]) -> None:
        """Packets from the node and to it vanish. Each side goes on sending what it has sent, as TCP does."""
        for other in others:
            if other != node_id:
                self.silent |= {(node_id, other), (other, node_id)}

    def is_silent(self, source: int, target: int) -> bool:
        return (source, target) in self.silent or (target, source) in self.silent

    def end_silence(self) -> None:
        self.silent.clear()
        held, self._held = self._held, []
        for arrive in held:
            self._later(self._delay(), arrive)

    def heal(self) -> None:
        self.cut.clear()
        self.loss = self.duplication = self.slow_share = 0.0
        self.delay_ms = (0.2, 3.0)

    def _delay(self) -> float:
        delay = self._draw.uniform(*self.delay_ms)
        return delay * 100 if self.slow_share and self._draw.random() < self.slow_share else delay

    def _later(self, delay_ms: float, action: Callable[[], None]) -> None:
        self.loop.call_later(delay_ms / 1000, action, context=self._nobody)
