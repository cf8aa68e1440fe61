"""The session key that signs the internal requests of a group's workers, and its rotation by the leader (KIP-507).

Every worker, including the leader, takes its key only from the config topic, so that all switch at the same record.
``KeyRotation`` decides; its caller writes the key, reads the topic to its end, and reports the result.

* A worker that joins a group adopts the existing key, and a new leader keeps it until it expires. So followers never
  sign with a key that the leader does not have.
* Only the leader creates keys, only if the group has agreed to sign (protocol version 2), and one at a time: no second
  key is created before the first is read back.
* The old key stays in use until the new one was read back, even if it is overdue because writes fail. Pauses grow
  after failures; Kafka retries immediately, without a limit.
* With a time to live of 0 a key never expires. (Kafka's leader creates another after each of its own restarts.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["KeyRotation", "SessionKey", "SessionView"]

_SIGNING_SINCE = 2
"""The version of the group's protocol from which on internal requests are signed: ``sessioned``."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """``algorithm`` names how it was generated, not how it signs. The key itself is never printed."""

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int

    def __repr__(self) -> str:
        return f"SessionKey(key=[hidden], algorithm={self.algorithm!r}, created_ms={self.created_ms})"


@dataclass(frozen=True, slots=True)
class SessionView:
    """The data to sign and to verify an internal request at one moment (KIP-507)."""

    is_verification_in_force: bool
    """Whether the group has agreed on ``sessioned``."""
    key: bytes | None
    """The current session key, None until one was read from the config topic."""
    do_all_members_send_freshness: bool = False
    """Whether all members of the group are known to be barnabas workers; False if this is unknown."""

    def __repr__(self) -> str:
        key = "none" if self.key is None else "[hidden]"
        return f"SessionView(is_verification_in_force={self.is_verification_in_force}, key={key})"


class KeyRotation:
    """``size`` is the number of bytes that a key of this worker has; see ``mac_algorithms.key_size``.

    In each turn, after membership is confirmed and the config topic is read up to the assignment's offset, the caller
    passes the snapshot's key to ``adopt`` and calls ``poll``. That returns a key to be written, or None. The caller
    reports the result of the write by ``read`` (the record was read back) or ``failed``. After a failure it must read
    the topic to its end before the next ``poll``, because the record may be in it nevertheless.

    ``now_ms`` is the wall clock, which decides the age of keys; pauses after failures use the monotonic clock.
    ``algorithm`` is the platform's spelling (``mac_algorithms.key_generator``), which Kafka writes into the record.
    """

    def __init__(
        self,
        *,
        algorithm: str,
        size: int,
        ttl_ms: int,
        random_bytes: Callable[[int], bytes],
        backoff_ms: int = 250,
        backoff_max_ms: int = 60_000,
    ) -> None:
        self.key: SessionKey | None = None
        """The single key that signs and verifies now."""
        self._algorithm = algorithm
        self._size = size
        self._ttl_ms = ttl_ms
        self._random_bytes = random_bytes
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._expires_ms: int | None = None
        self._written: SessionKey | None = None
        self._failures = 0
        self._retry_ms = 0.0
        """The time of the next attempt on the monotonic clock."""

    @property
    def is_writing(self) -> bool:
        """Return whether a key was returned by ``poll`` whose result is not known yet."""
        return self._written is not None

    def adopt(self, key: SessionKey | None, now_ms: int) -> None:
        """Adopt the snapshot's key if this worker has none."""
        if self.key is None and key is not None:
            self.read(key, now_ms)

    def read(self, key: SessionKey, now_ms: int) -> None:
        """Note a key that was read from the topic, from this worker or another: it applies from now on."""
        self.key = key
        # A key with a future time, from a clock that is ahead, does not live longer.
        self._expires_ms = min(key.created_ms, now_ms) + self._ttl_ms if self._ttl_ms else None
        self._written = None
        self._failures = 0
        self._retry_ms = 0.0

    def poll(self, now_ms: int, monotonic_ms: float, *, is_leader: bool, protocol_version: int) -> SessionKey | None:
        """Return a new key, if one must be written now."""
        if not self._may_generate(is_leader, protocol_version):
            return None
        if monotonic_ms < self._retry_ms or not self._is_due(now_ms):
            return None
        self._written = SessionKey(self._random_bytes(self._size), self._algorithm, now_ms)
        return self._written

    def failed(self, monotonic_ms: float) -> None:
        """Note that the key could not be written, or not be read back in time."""
        if self._written is None:
            return  # It was read back after all.
        self._written = None
        pause = min(self._backoff_ms << min(self._failures, 32), self._backoff_max_ms)
        self._failures += 1
        self._retry_ms = monotonic_ms + pause

    def pause_ms(self, now_ms: int, monotonic_ms: float, *, is_leader: bool, protocol_version: int) -> float | None:
        """Return how long until ``poll`` may return a key without other events; None: never."""
        if not self._may_generate(is_leader, protocol_version):
            return None
        due = now_ms if self._is_due(now_ms) else self._expires_ms
        return None if due is None else max(due - now_ms, self._retry_ms - monotonic_ms, 0)

    def _may_generate(self, is_leader: bool, protocol_version: int) -> bool:
        return is_leader and protocol_version >= _SIGNING_SINCE and self._written is None

    def _is_due(self, now_ms: int) -> bool:
        key = self.key
        return (
            key is None
            or (self._expires_ms is not None and self._expires_ms <= now_ms)
            or key.algorithm != self._algorithm
            or len(key.key) != self._size
        )
