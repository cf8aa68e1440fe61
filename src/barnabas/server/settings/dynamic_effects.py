"""Applies changed settings, which ``dynamic_settings`` computes, to a running node.

Open connections do not change: new keys, new trust and new passwords apply to later connections.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from barnabas.security.tls_settings import TLS_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_settings import BrokerSettings
    from barnabas.server.broker.log_maintenance import LogMaintenance
    from barnabas.server.listeners.security import ListenerSecurity
    from barnabas.server.settings.dynamic_broker_config import SettingsChange
    from barnabas.storage.log_manager import LogManager

__all__ = ["AssignmentIntervalEffect", "CleanerEffect", "ListenerEffect", "ProducerIdEffect", "VerificationEffect"]

_CLEANER_SETTINGS = frozenset(
    (
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
    )
)

_INTERVALS = {
    "consumer": attrgetter("group_consumer_assignment_interval_ms"),
    "share": attrgetter("group_share_assignment_interval_ms"),
    "streams": attrgetter("group_streams_assignment_interval_ms"),
}


class CleanerEffect:
    def __init__(self, maintenance: LogMaintenance) -> None:
        self._maintenance = maintenance

    def prepare(self, change: SettingsChange) -> Callable[[], None] | None:
        if not change.touches(_CLEANER_SETTINGS.__contains__):
            return None
        return partial(self._maintenance.follow, change.new)


class ProducerIdEffect:
    def __init__(self, logs: LogManager, settings: BrokerSettings) -> None:
        self._logs = logs
        self._settings = settings

    def prepare(self, change: SettingsChange) -> Callable[[], None] | None:
        expiration_ms = change.new.producer_id_expiration_ms
        if expiration_ms == change.old.producer_id_expiration_ms:
            return None

        def follow() -> None:
            self._logs.producer_id_expiration_ms = expiration_ms
            self._settings.producer_id_expiration_ms = expiration_ms

        return follow


class AssignmentIntervalEffect:
    """The shortest time between two computations of a group's assignment."""

    def __init__(self, intervals_ms: dict[str, int]) -> None:
        """``intervals_ms``: of the group coordinator, by kind of group."""
        self._intervals_ms = intervals_ms

    def prepare(self, change: SettingsChange) -> Callable[[], None] | None:
        old, new = (
            {kind: interval(config) for kind, interval in _INTERVALS.items()} for config in (change.old, change.new)
        )
        return None if old == new else partial(self._intervals_ms.update, new)


class VerificationEffect:
    """``transaction.partition.verification.enable``."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings

    def prepare(self, change: SettingsChange) -> Callable[[], None] | None:
        is_enabled = change.new.transaction_partition_verification_enable
        if is_enabled == change.old.transaction_partition_verification_enable:
            return None

        def follow() -> None:
            self._settings.transaction_partition_verification_enable = is_enabled

        return follow


class ListenerEffect:
    """The TLS of a listener with its key and trust stores, and the users of its PLAIN mechanism."""

    def __init__(self, security: ListenerSecurity) -> None:
        self._security = security
        prefix = f"listener.name.{security.listener.lower()}."
        self._tls_names = frozenset((*TLS_SETTINGS, *(prefix + name for name in TLS_SETTINGS)))
        self._plain_jaas = f"{prefix}plain.sasl.jaas.config"

    def prepare(self, change: SettingsChange) -> Callable[[], None] | None:
        """Prepare the change. Raise TlsError, a ValueError, for unusable stores, or stores for another name."""
        steps = [step for step in (self._tls(change), self._plain(change)) if step is not None]
        if not steps:
            return None

        def follow() -> None:
            for step in steps:
                step()

        return follow

    def _tls(self, change: SettingsChange) -> Callable[[], None] | None:
        tls = self._security.tls
        if tls is None or not (change.rereads or change.touches(self._tls_names.__contains__)):
            return None
        from barnabas.server.settings.tls import tls_settings_of

        # A value that is set for all listeners does not apply if the listener has a value of its own.
        return tls.prepared(tls_settings_of(change.new, self._security.listener, self._security.protocol))

    def _plain(self, change: SettingsChange) -> Callable[[], None] | None:
        sasl = self._security.sasl
        if sasl is None or "PLAIN" not in sasl.mechanisms or not change.touches(self._plain_jaas.__eq__):
            return None
        from barnabas.server.settings.sasl import plain_mechanism

        changed = plain_mechanism(change.new, self._security.listener)

        def follow() -> None:
            sasl.mechanisms = {**sasl.mechanisms, "PLAIN": changed}

        return follow
