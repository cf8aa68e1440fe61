"""The SASL of one listener: its mechanisms, its limits, and its login counters.

Created once when the listener opens; it creates the authenticator of each connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.common.clock import Clock
    from barnabas.security.sasl.sasl_server import SaslServer

__all__ = ["AuthenticationStats", "MechanismStats", "SaslListener", "SaslMechanism"]


class MechanismStats:
    """How often one mechanism of one listener was tried, for the metrics."""

    __slots__ = (
        "failed",
        "failed_reauthentications",
        "reauthentications",
        "successful",
        "successful_without_reauthentication",
    )

    def __init__(self) -> None:
        self.successful = 0
        self.failed = 0
        self.reauthentications = 0
        self.failed_reauthentications = 0
        self.successful_without_reauthentication = 0
        """Successful logins of clients too old to re-authenticate on the same connection."""


class AuthenticationStats:
    """The counts of one listener. Failures before a mechanism was agreed on count under the empty name."""

    __slots__ = ("expired_connections_killed", "mechanisms")

    def __init__(self, mechanisms: Mapping[str, SaslMechanism]) -> None:
        self.mechanisms = {name: MechanismStats() for name in (*mechanisms, "")}
        self.expired_connections_killed = 0

    def of(self, mechanism: str) -> MechanismStats:
        return self.mechanisms[mechanism]


@dataclass(frozen=True, slots=True)
class SaslMechanism:
    """``make_server`` creates the server's side of one exchange."""

    make_server: Callable[[], SaslServer]
    reauthentication_ms_max: int = 0
    """connections.max.reauth.ms: the longest lifetime of a login; 0 for the lifetime of the connection."""


@dataclass(slots=True)
class SaslListener:
    name: str
    mechanisms: Mapping[str, SaslMechanism]
    """Mechanisms by name, in the order in which clients receive them."""
    clock: Clock
    receive_bytes_max: int = 524288
    authentication_timeout_ms: int = 30000
    """Within this time a connection must have logged in; 0 for no limit."""
    failure_delay_ms: int = 100
    close: Callable[[], None] = lambda: None
    """Ends the background work of the mechanisms (a key refresh)."""
    stats: AuthenticationStats = field(init=False)

    def __post_init__(self) -> None:
        self.stats = AuthenticationStats(self.mechanisms)
