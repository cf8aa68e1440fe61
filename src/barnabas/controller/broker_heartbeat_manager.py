"""Tracks which brokers are alive: sessions, applied offsets and the next state of each broker.

This is not replicated: it has the heartbeats that this controller received since it became active. A new active
controller starts a full session for every unfenced broker; that session does not block a new incarnation of the broker,
because this controller has received no heartbeat of the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from barnabas.metadata.image.cluster import BrokerRegistration

__all__ = ["BrokerControlState", "BrokerHeartbeatManager"]


class BrokerControlState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


class _Contact:
    __slots__ = ("controlled_shutdown_offset", "epoch", "is_heard", "last_contact_ms", "metadata_offset")

    def __init__(self, epoch: int, last_contact_ms: int, is_heard: bool) -> None:
        self.epoch = epoch
        self.last_contact_ms = last_contact_ms
        self.is_heard = is_heard
        self.metadata_offset = -1
        self.controlled_shutdown_offset = -1


class BrokerHeartbeatManager:
    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._contacts: dict[int, _Contact] = {}
        self._active: set[int] = set()

    def touch(self, broker_id: int, epoch: int, metadata_offset: int, now_ms: int, *, is_active: bool) -> None:
        """Record the heartbeat of a registered broker."""
        contact = self._contacts.get(broker_id)
        if contact is None or contact.epoch != epoch:
            contact = self._contacts[broker_id] = _Contact(epoch, now_ms, True)
        contact.last_contact_ms = now_ms
        contact.is_heard = True
        contact.metadata_offset = metadata_offset
        if is_active:
            self._active.add(broker_id)
        else:
            self._active.discard(broker_id)

    def grant_session(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """Start a full session, from now, for an unfenced broker without a heartbeat so far."""
        self._contacts[broker_id] = _Contact(epoch, now_ms, False)
        self._active.add(broker_id)

    def stood_still(self, for_ms: int, now_ms: int) -> None:
        """Extend all sessions by the time for which this controller did not read any heartbeat."""
        for contact in self._contacts.values():
            contact.last_contact_ms = min(now_ms, contact.last_contact_ms + for_ms)

    def forget(self, broker_id: int) -> None:
        self._contacts.pop(broker_id, None)
        self._active.discard(broker_id)

    def has_valid_session(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        contact = self._contacts.get(broker_id)
        return (
            contact is not None
            and contact.is_heard
            and contact.epoch == epoch
            and now_ms - contact.last_contact_ms < self._session_timeout_ms
        )

    def stale_brokers(self, now_ms: int) -> list[int]:
        """Return brokers whose session has expired; each is reported once."""
        stale = [b for b, c in self._contacts.items() if now_ms - c.last_contact_ms >= self._session_timeout_ms]
        for broker_id in stale:
            self.forget(broker_id)
        return stale

    def is_in_touch(self, broker_id: int) -> bool:
        """Return whether the broker has a session that has not been reported as expired."""
        return broker_id in self._contacts

    def next_expiry_ms(self) -> int | None:
        if not self._contacts:
            return None
        return min(contact.last_contact_ms for contact in self._contacts.values()) + self._session_timeout_ms

    def begin_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """The broker may stop once every active broker has applied the records up to ``offset``."""
        contact = self._contacts.get(broker_id)
        if contact is not None and contact.controlled_shutdown_offset < offset:
            contact.controlled_shutdown_offset = offset

    def next_state(
        self,
        registration: BrokerRegistration,
        *,
        want_fence: bool,
        want_shut_down: bool,
        is_caught_up: bool,
        has_leaderships: Callable[[], bool],
    ) -> tuple[BrokerControlState, BrokerControlState]:
        """Return the broker's present state and the next one after this heartbeat."""
        if registration.in_controlled_shutdown and not registration.fenced:
            current = BrokerControlState.CONTROLLED_SHUTDOWN
            if has_leaderships() or not self._others_know_of_shutdown(registration.id):
                return current, current
            return current, BrokerControlState.SHUTDOWN_NOW
        if registration.fenced:
            current = BrokerControlState.FENCED
            if want_shut_down:
                return current, BrokerControlState.SHUTDOWN_NOW
            return current, BrokerControlState.UNFENCED if not want_fence and is_caught_up else current
        current = BrokerControlState.UNFENCED
        if want_fence:
            return current, BrokerControlState.SHUTDOWN_NOW if want_shut_down else BrokerControlState.FENCED
        if want_shut_down:
            leads = has_leaderships()
            return current, BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW
        return current, current

    def _others_know_of_shutdown(self, broker_id: int) -> bool:
        contact = self._contacts.get(broker_id)
        if contact is None:
            return True
        offsets = [self._contacts[b].metadata_offset for b in self._active if b != broker_id and b in self._contacts]
        return not offsets or contact.controlled_shutdown_offset <= min(offsets)
