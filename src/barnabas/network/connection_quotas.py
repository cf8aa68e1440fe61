"""Limits connections and the rate of new ones: for all listeners together, for a listener, and for an address.

The rules are Kafka's (KIP-402, KIP-612):

- A connection beyond ``max.connections.per.ip`` is closed immediately.
- One that exceeds the rate of its address is closed after a delay, so that reconnecting is not faster.
- When ``max.connections`` are open, or connections are created faster than ``max.connection.creation.rate``, new ones
  wait: Kafka leaves them in the system's queue, here they are accepted and not read.
- The inter-broker listener does not wait for connections of other listeners: if it needs one, the connection of another
  listener that was idle for longest is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.metadata.quota_rates import WindowedRate, still_used

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.network.connection import Connection

__all__ = ["UNLIMITED", "ConnectionCaps", "ConnectionQuotas", "ListenerCaps"]

UNLIMITED = 2147483647
_REMEMBERED_MAX = 10_000
_LONG_S = 365 * 24 * 3600.0


class ListenerCaps(NamedTuple):
    connections_max: int = UNLIMITED
    creation_rate: int = UNLIMITED


class ConnectionCaps(NamedTuple):
    """The settings; ``by_listener`` has those of single listeners."""

    connections_max: int = UNLIMITED
    creation_rate: int = UNLIMITED
    per_ip_max: int = UNLIMITED
    per_ip_overrides: Mapping[str, int] = {}
    by_listener: Mapping[str, ListenerCaps] = {}
    protected_listener: str | None = None

    def of(self, listener: str) -> ListenerCaps:
        return self.by_listener.get(listener, _NO_CAPS)


_NO_CAPS = ListenerCaps()


class ConnectionQuotas:
    """Connection limits shared by listeners: those of a broker, or those of a controller."""

    def __init__(
        self,
        caps: ConnectionCaps | None = None,
        *,
        now_s: Callable[[], float],
        window_count: int = 11,
        window_s: int = 1,
    ) -> None:
        self._caps = caps or ConnectionCaps()
        self._now_s = now_s
        self._window_count = window_count
        self._window_ms = window_s * 1000
        self._open: dict[str, dict[Connection, None]] = {}
        self._per_ip: dict[str, int] = {}
        self._waiting: dict[Connection, str] = {}
        self._rates: dict[str | None, WindowedRate] = {}
        self._ip_rates: dict[str, WindowedRate] = {}
        self._ip_limits: Mapping[str, float] = {}
        self._ip_default: float | None = None
        self._next_start_s = 0.0

    # --- limits, also while running

    def follow(self, caps: ConnectionCaps) -> None:
        """Apply new limits. Open connections stay; waiting connections that are now allowed continue."""
        self._caps = caps
        self._let_in(len(self._waiting))

    def follow_ip_rates(self, default: float | None, limits: Mapping[str, float]) -> None:
        """``connection_creation_rate`` of addresses (client quotas)."""
        self._ip_default = default
        self._ip_limits = limits
        if default is None and not limits:
            self._ip_rates = {}

    # --- connections

    def opened(self, listener: str, connection: Connection) -> str | None:
        """Return why to close the connection immediately; None to keep it, although it may have to wait."""
        host = connection.peer_host
        now_s = self._now_s()
        if self._has_slot(listener):
            self._open.setdefault(listener, {})[connection] = None
            self._close_excess(listener)
        else:
            self._waiting[connection] = listener
            connection.rest(_LONG_S)
        self._per_ip[host] = self._per_ip.get(host, 0) + 1
        over_s = self._over_ip_rate(host, now_s)
        if over_s > 0:
            connection.end_after(over_s, None)
            return None
        most = self._caps.per_ip_overrides.get(host, self._caps.per_ip_max)
        if self._per_ip[host] > most:
            return f"it has max.connections.per.ip={most} connections"
        delay_s = self._creation_delay_s(listener, now_s)
        if delay_s > 0 and connection not in self._waiting:
            connection.rest(delay_s)
        return None

    def closed(self, listener: str, connection: Connection) -> None:
        """Uncount a connection; one that was never counted may end too."""
        found = self._open.get(listener, {})
        if connection not in self._waiting and connection not in found:
            return
        host = connection.peer_host
        left = self._per_ip.get(host, 1) - 1
        if left:
            self._per_ip[host] = left
        else:
            self._per_ip.pop(host, None)
        if self._waiting.pop(connection, None) is None:
            del found[connection]
            self._let_in(1)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def _let_in(self, count: int) -> None:
        """Admit at most ``count`` waiting connections, the longest waiting first."""
        while count > 0:
            first = next((waiter for waiter, listener in self._waiting.items() if self._has_slot(listener)), None)
            if first is None:
                return
            listener = self._waiting.pop(first)
            self._open.setdefault(listener, {})[first] = None
            first.wake()
            count -= 1

    def _has_slot(self, listener: str) -> bool:
        caps = self._caps
        if len(self._open.get(listener, ())) >= caps.of(listener).connections_max:
            return False
        return self._is_protected(listener) or self._open_count < caps.connections_max

    @property
    def _open_count(self) -> int:
        return sum(map(len, self._open.values()))

    def _is_protected(self, listener: str) -> bool:
        return listener == self._caps.protected_listener and len({*self._open, listener}) > 1

    def _close_excess(self, listener: str) -> None:
        if not self._is_protected(listener) or self._open_count <= self._caps.connections_max:
            return
        others = [connection for name, found in self._open.items() if name != listener for connection in found]
        if others:
            min(others, key=lambda connection: connection.last_active).close()

    # --- rates

    def _over_ip_rate(self, host: str, now_s: float) -> float:
        """Return how long to keep an excess connection before it is closed. It is not counted."""
        limit = self._ip_limits.get(host, self._ip_default)
        if limit is None:
            return 0.0
        now_ms = int(now_s * 1000)
        rate = self._ip_rates.get(host)
        if rate is None:
            if len(self._ip_rates) >= _REMEMBERED_MAX:
                self._ip_rates = still_used(self._ip_rates, now_ms)
            rate = self._ip_rates[host] = self._new_rate()
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        if throttle_ms > 0:
            rate.record(-1, now_ms)
        return min(throttle_ms, self._window_ms) / 1000

    def _creation_delay_s(self, listener: str, now_s: float) -> float:
        """Connections are admitted one after the other; each waits for a window at most."""
        limits = ((None, self._caps.creation_rate), (listener, self._caps.of(listener).creation_rate))
        now_ms, throttle_ms = int(now_s * 1000), 0
        for name, limit in limits:
            if limit < UNLIMITED:
                rate = self._rates.get(name)
                if rate is None:
                    rate = self._rates[name] = self._new_rate()
                rate.record(1, now_ms)
                throttle_ms = max(throttle_ms, rate.throttle_ms(max(limit, 1), now_ms))
        if throttle_ms:
            start_s = max(self._next_start_s, now_s) + min(throttle_ms, self._window_ms) / 1000
            self._next_start_s = start_s
        return max(self._next_start_s - now_s, 0.0)

    def _new_rate(self) -> WindowedRate:
        return WindowedRate(count=self._window_count, window_ms=self._window_ms)
