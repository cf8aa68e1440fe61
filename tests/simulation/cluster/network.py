"""Messages between nodes: delayed, lost, duplicated, reordered, or cut off in one direction only."""

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
        """The share of messages that take a hundred times as long, so that many others overtake them."""
        self.cut: set[tuple[int, int]] = set()
        """(from, to): one direction. Clients have negative ids."""
        self.silent: set[tuple[int, int]] = set()
        """Cut directions of which neither side is notified: messages arrive after the silence has ended."""
        self._held: list[Callable[[], None]] = []
        self._draw = draw
        self._no_process = copy_context()
        """The context of messages on their way: they arrive even if their sender has died."""

    def send(
        self,
        source: int,
        target: int,
        arrive: Callable[[], None],
        lost: Callable[[], None] | None = None,
        *,
        may_double: bool = False,
    ) -> None:
        """Send a message. If it does not arrive, ``lost`` is called later, as the end of the sender's connection.

        ``may_double`` allows duplicates, as of raft's messages: they may be sent again over a new connection while the
        first copy still arrives over the old one. Messages within one connection are not duplicated.
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
        """Notify the sender soon that the peer refused the message."""
        self._later(self._delay(), refused)

    def is_cut(self, source: int, target: int) -> bool:
        return (source, target) in self.cut

    def silence(self, node_id: int, others: list[int]) -> None:
        """Drop the packets from and to the node until the silence ends. Each side retransmits, as TCP does."""
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
        self.loop.call_later(delay_ms / 1000, action, context=self._no_process)
