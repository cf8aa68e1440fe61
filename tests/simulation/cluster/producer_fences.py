"""Which producers are fenced: a newer one has received its id and epoch for the same transactional id.

A producer id is retired once the transactional id has another one. Ids are not allocated in order, so of two requests
that were under way together neither id is known to be the newer one.
"""

from __future__ import annotations

__all__ = ["ProducerFences"]


class ProducerFences:
    def __init__(self) -> None:
        self._now = 0
        self._known: dict[str, dict[int, int]] = {}
        """By transactional id, each producer id and when a client received it first."""
        self._epochs: dict[int, int] = {}
        self._retired: set[int] = set()
        self._asked_s: dict[str, float] = {}

    def asked(self, transactional_id: str, now_s: float) -> int:
        """Record that a client asks for an id and epoch; return the moment."""
        self._now += 1
        self._asked_s[transactional_id] = now_s
        return self._now

    def is_asked_since(self, transactional_id: str, since_s: float) -> bool:
        return self._asked_s.get(transactional_id, -1.0) > since_s

    def received(self, transactional_id: str, producer_id: int, epoch: int, asked: int) -> None:
        """Record what a client has received for its request of that moment: all earlier producers are fenced."""
        self.continues(transactional_id, producer_id)
        known = self._known[transactional_id]
        self._epochs[producer_id] = max(self._epochs.get(producer_id, 0), epoch)
        self._retired.update(other for other, since in known.items() if other != producer_id and since < asked)

    def continues(self, transactional_id: str, producer_id: int) -> None:
        """Record the producer id that a client goes on with after a transaction."""
        self._now += 1
        self._known.setdefault(transactional_id, {}).setdefault(producer_id, self._now)

    def is_fenced(self, producer_id: int, epoch: int) -> bool:
        return producer_id in self._retired or epoch < self._epochs.get(producer_id, 0)
