"""A client of a cluster: finds a node that answers, negotiates versions, authenticates, and sends requests.

``NetworkClient`` uses the first reachable bootstrap server, and any other node by its address
(``connection_to``), over one connection each. The caller chooses the node of a request, and decides about repetitions:
a request is sent once. The next request reopens an ended connection.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from barnabas import __version__
from barnabas.clients.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectFailed,
    Disconnected,
    InvalidClientConfig,
    RemoteProtocolError,
)
from barnabas.clients.node_connection import NodeConnection, SupportedVersions
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from barnabas.clients.client_config import Address, ClientConfig
    from barnabas.protocol.schema import Message, Request
    from barnabas.security.sasl.sasl_client import SaslClient

__all__ = ["NetworkClient"]

R = TypeVar("R", bound="Message")


class NetworkClient:
    """Use it as ``async with NetworkClient(config) as client``, or close it."""

    def __init__(self, config: ClientConfig) -> None:
        """Raise InvalidClientConfig when the stores or credentials of the settings are unusable."""
        self.config = config
        self._tls = _tls_context(config)
        self._make_sasl_client = _sasl_client_maker(config)
        self._connections: dict[Address, NodeConnection] = {}
        self._opening: dict[Address, asyncio.Task[NodeConnection]] = {}
        self._bootstrap: Address | None = None

    @property
    def address(self) -> Address:
        """The bootstrap server in use; the first one before any was reached."""
        return self._bootstrap or self.config.bootstrap[0]

    async def connect(self) -> NodeConnection:
        """Return a connection to a bootstrap server: the one in use, else the first that answers.

        A server that rejects the client's credentials ends the search: the others would too.
        """
        if self._bootstrap is not None and (known := self._connections.get(self._bootstrap)) and known.is_open:
            return known
        failures: list[ClientError] = []
        for address in self.config.bootstrap:
            try:
                connection = await self.connection_to(address)
            except (ConnectFailed, Disconnected, RemoteProtocolError) as error:
                failures.append(error)
            else:
                self._bootstrap = address
                return connection
        if len(failures) == 1:
            raise failures[0]
        raise ConnectFailed("no bootstrap server can be used:\n" + "\n".join(f"  {error}" for error in failures))

    async def connection_to(self, address: Address) -> NodeConnection:
        """Return the connection to this node, opened if necessary."""
        known = self._connections.get(address)
        if known is not None and known.is_open:
            return known
        task = self._opening.get(address)
        if task is None:
            task = self._opening[address] = asyncio.get_running_loop().create_task(
                _open(address, self.config, self._tls, self._make_sasl_client)
            )
            task.add_done_callback(lambda done: self._opened(address, done))
        return await asyncio.shield(task)

    async def open(self, address: Address) -> NodeConnection:
        """Open a connection that the caller owns and closes."""
        return await _open(address, self.config, self._tls, self._make_sasl_client)

    def _opened(self, address: Address, task: asyncio.Task[NodeConnection]) -> None:
        """Keep the connection for later requests, even if its caller has given up."""
        self._opening.pop(address, None)
        if not task.cancelled() and task.exception() is None:
            self._connections[address] = task.result()

    async def request(self, message: Request[R], *, version: int | None = None, timeout_s: float | None = None) -> R:
        """Send a request to a bootstrap server; see ``NodeConnection.request``."""
        connection = await self.connect()
        return await connection.request(message, version=version, timeout_s=timeout_s)

    async def close(self) -> None:
        for task in list(self._opening.values()):
            task.cancel()
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            await connection.close()

    async def __aenter__(self) -> NetworkClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _open(
    address: Address,
    config: ClientConfig,
    tls: ssl.SSLContext | None,
    make_sasl_client: Callable[[], SaslClient] | None,
) -> NodeConnection:
    """Connect, negotiate versions, and authenticate. Raise a ClientError with advice."""
    connection = await _connect(address, config, tls)
    try:
        answer = await _versions(connection)
        connection.versions = _offered(answer)
        connection.features = {found.name: found.max_version_level for found in answer.finalized_features}
        if make_sasl_client is not None:
            from barnabas.clients.sasl_login import SaslLogin

            await SaslLogin(connection, config.sasl_mechanism, make_sasl_client).log_in()
    except BaseException:
        await connection.close()
        raise
    return connection


def _tls_context(config: ClientConfig) -> ssl.SSLContext | None:
    if not config.uses_tls:
        return None
    from barnabas.security.tls import TlsError, TlsSettings, client_context

    try:
        return client_context(TlsSettings.read(config.values.get))
    except TlsError as error:
        raise InvalidClientConfig([str(error)]) from error


def _sasl_client_maker(config: ClientConfig) -> Callable[[], SaslClient] | None:
    if not config.uses_sasl:
        return None
    from barnabas.clients.sasl_login import sasl_client_maker

    return sasl_client_maker(config)


async def _connect(address: Address, config: ClientConfig, tls: ssl.SSLContext | None) -> NodeConnection:
    loop = asyncio.get_running_loop()

    def make() -> NodeConnection:
        return NodeConnection(
            address,
            client_id=config.client_id,
            request_timeout_s=config.request_timeout_s,
            is_plaintext=not config.uses_tls,
            uses_sasl=config.uses_sasl,
        )

    limit = config.connect_timeout_s
    try:
        async with asyncio.timeout(limit):
            transport, connection = await loop.create_connection(
                make, address.host, address.port, ssl=tls, server_hostname=address.host if tls is not None else None
            )
    except TimeoutError as error:
        raise ConnectFailed(f"{address} did not accept a connection in {limit:g} s") from error
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationFailed(_untrusted(address, error)) from error
    except (ssl.SSLError, ConnectionError) as error:
        raise ConnectFailed(_refused(address, error, uses_tls=tls is not None)) from error
    except socket.gaierror as error:
        raise ConnectFailed(f"{address}: the name can't be resolved ({error.strerror})") from error
    except OSError as error:
        raise ConnectFailed(_refused(address, error, uses_tls=tls is not None)) from error
    _set_options(transport.get_extra_info("socket"), config)
    return connection


async def _versions(connection: NodeConnection) -> ApiVersionsResponse:
    """Return the node's API versions and features. A node with older versions of ApiVersions names them."""
    version = 4
    for _ in range(2):
        request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
        response = await connection.request(request, version=version)
        if not response.error_code:
            return response
        own = _offered(response).get(ApiKey.API_VERSIONS)
        if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
            break
        version = 0 if own is None else min(version - 1, own.max)
    name = ErrorCode(response.error_code).name if response.error_code in ErrorCode._value2member_map_ else "?"
    raise RemoteProtocolError(f"{connection.address} does not return its API versions: {name} ({response.error_code})")


def _offered(answer: ApiVersionsResponse) -> Mapping[int, SupportedVersions]:
    return {api.api_key: SupportedVersions(api.min_version, api.max_version) for api in answer.api_keys}


def _set_options(sock: socket.socket | None, config: ClientConfig) -> None:
    if sock is None:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, option in (("send.buffer.bytes", socket.SO_SNDBUF), ("receive.buffer.bytes", socket.SO_RCVBUF)):
        size = config.values[name]
        if size > 0:
            sock.setsockopt(socket.SOL_SOCKET, option, size)


def _untrusted(address: Address, error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message or error.reason
    if error.verify_code == 62 or "match" in str(why):
        hint = "connect by a name that is in it, or set ssl.endpoint.identification.algorithm to nothing to trust any"
    else:
        hint = "put the authority that signed it into ssl.truststore.location"
    return f"the certificate of {address} is not trusted: {why} -> {hint}"


def _refused(address: Address, error: OSError, *, uses_tls: bool) -> str:
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return f"nothing listens at {address} (connection refused)"
    if uses_tls and isinstance(error, ssl.SSLError | ConnectionError):
        reason = getattr(error, "reason", None) or "the connection was closed"
        return (
            f"no TLS with {address}: {reason} -> if that listener is not encrypted, "
            "set security.protocol=PLAINTEXT, or SASL_PLAINTEXT if it requires a login"
        )
    return f"can't connect to {address}: {error.strerror or error}"
