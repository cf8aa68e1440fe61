"""The properties of a request outside its body: principal, client, host, API and listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.api_keys import ApiKey

__all__ = ["Peer", "RequestContext"]


class Peer(Protocol):
    """The client's end of a connection, as the client described it."""

    peer_port: int
    client_software_name: str
    client_software_version: str

    def add_close_listener(self, listener: Callable[[], None]) -> None:
        """Call the listener once when the connection is lost; soon if it was already."""
        ...


class RequestContext:
    """The context of one request. ``forwarding_principal`` is set if a broker forwarded the request.

    ``security_protocol`` is that of the channel on which this node received the request: the client's own at a broker
    and, in one process, at its controller; the broker's if the request was received in an Envelope.
    """

    __slots__ = (
        "_call_id",
        "_frame",
        "_peer",
        "api_key",
        "api_version",
        "client_host",
        "client_id",
        "connection_id",
        "correlation_id",
        "forwarding_principal",
        "from_privileged_listener",
        "listener_name",
        "principal",
        "security_protocol",
    )

    def __init__(
        self,
        *,
        api_key: ApiKey,
        api_version: int,
        correlation_id: int = 0,
        client_id: str | None = None,
        principal: Principal = ANONYMOUS,
        client_host: str = "127.0.0.1",
        listener_name: str = "",
        security_protocol: str = "PLAINTEXT",
        connection_id: str = "",
        from_privileged_listener: bool = False,
        forwarding_principal: Principal | None = None,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.principal = principal
        self.client_host = client_host
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.connection_id = connection_id
        self.from_privileged_listener = from_privileged_listener
        self.forwarding_principal = forwarding_principal

    @property
    def call_id(self) -> bytes | None:
        """The number that a barnabas broker assigned to a forwarded request."""
        return getattr(self, "_call_id", None)

    @call_id.setter
    def call_id(self, call_id: bytes) -> None:
        self._call_id = call_id

    @property
    def software(self) -> str:
        """Name and version of the client, as it reported them with ApiVersions."""
        peer = self.peer
        if peer is None or peer.client_software_name == "unknown":
            return "unknown software"
        return f"{peer.client_software_name} {peer.client_software_version}"

    @property
    def peer(self) -> Peer | None:
        """The connection of the request; None in an Envelope and within a process."""
        return getattr(self, "_peer", None)

    @peer.setter
    def peer(self, peer: Peer) -> None:
        self._peer = peer

    @property
    def frame(self) -> bytes | bytearray | None:
        """The request as received, with its header; kept for requests that a broker may forward."""
        return getattr(self, "_frame", None)

    @frame.setter
    def frame(self, frame: bytes | bytearray) -> None:
        self._frame = frame  # Set only then, so that other requests cost nothing.
