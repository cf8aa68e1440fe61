"""Errors between a client and a node. Messages are for the person who runs the client.

Retry loops ask only whether an error is ``Transient``.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.common.errors import Terminal, Transient

__all__ = [
    "AuthenticationFailed",
    "ClientError",
    "ConnectFailed",
    "Disconnected",
    "InvalidClientConfig",
    "LoginRequired",
    "RemoteProtocolError",
    "RequestTimedOut",
    "UnsupportedVersion",
]


class ClientError(Exception):
    """The request was not answered."""


class InvalidClientConfig(ClientError, Terminal):
    """The client's settings can't be used; ``problems`` has a line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class ConnectFailed(ClientError, Transient):
    """No connection could be made: the node is unreachable, or TLS could not be negotiated."""


class AuthenticationFailed(ClientError, Terminal):
    """The node rejected this client's credentials, or the client the node's. A retry does not help."""


class Disconnected(ClientError, Transient):
    """The connection ended before the answer arrived. It is unknown whether the node performed the request."""


class LoginRequired(Disconnected):
    """The node answered a client without a login once, and then disconnected, as a listener with SASL does.

    A node that stops does the same, so one such error proves nothing; several in succession do.
    """


class RequestTimedOut(ClientError, Transient):
    """No answer in time. It is unknown whether the node performed the request."""


class UnsupportedVersion(ClientError, Terminal):
    """The node and this client have no version of the API in common."""


class RemoteProtocolError(ClientError, Terminal):
    """The node violated Kafka's protocol."""
