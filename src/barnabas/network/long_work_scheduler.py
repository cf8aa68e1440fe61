"""The long work of all listeners of a node: threads, turns, and the owner of each piece of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.network.fair_scheduling import FairThreads, FairTurns
from barnabas.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Hashable

    from barnabas.security.request_context import RequestContext

__all__ = ["LongWork", "work_owner"]

_THREADS = 2


def work_owner(context: RequestContext) -> Hashable:
    """The owner of a request's work: its principal, or the host of an anonymous client."""
    return context.client_host if context.principal == ANONYMOUS else context.principal


class LongWork:
    """``threads`` decode and check. On the loop, brokers and clients take turns separately."""

    def __init__(self) -> None:
        self.threads = FairThreads(_THREADS, "long-work")
        self.short_requests = 0
        """How many short requests have been answered at once."""
        self._of_brokers = FairTurns(pause_ratio=0.0)
        self._of_clients = FairTurns(short_requests=lambda: self.short_requests)

    def turns(self, *, is_peer: bool) -> FairTurns:
        return self._of_brokers if is_peer else self._of_clients

    def close(self) -> None:
        """Stop: no further request is answered."""
        self.threads.close()
