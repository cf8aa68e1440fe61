"""TLS between a socket and a connection: the socket's protocol, and the connection's transport.

It replaces asyncio's own TLS, so that a connection is counted from its acceptance, has a deadline for its handshake,
may be refused with a reason in the log, and uses the listener's newest context: certificates change without a new
listening socket. A peer that connects and sends nothing costs a socket and no TLS state.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Protocol, cast

from barnabas.network.receive_buffer import ReceiveMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.network.connection import Connection

__all__ = ["TlsLayer", "TlsOwner", "handshake_failure"]

_HANDSHAKE_RECORD = 0x16
_LINGER_S = 1.0
_received = ReceiveMemory(256 * 1024)

_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no certificate, and ssl.client.auth=required",
    "UNSUPPORTED_PROTOCOL": "it offers no version of TLS in ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "it offers no cipher suite that is allowed here",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the authority of this listener's certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not support the version of TLS",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this listener's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this listener's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this listener's certificate has expired",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it does not accept what this listener offers",
}


class TlsOwner(Protocol):
    """The listener that accepted the connection."""

    handshake_s_max: float

    def handshake_done(self, connection: Connection, peer_certificate_der: bytes | None) -> str | None:
        """Return why to refuse the connection after its handshake; None admits it."""
        ...

    def handshake_failed(self, connection: Connection, reason: str) -> None: ...


class TlsLayer(asyncio.BufferedProtocol, asyncio.Transport):
    """The TLS of one connection. ``context`` is called when the client's first bytes have arrived."""

    def __init__(
        self,
        connection: Connection,
        context: Callable[[], ssl.SSLContext],
        owner: TlsOwner,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._context = context
        self._owner = owner
        self._loop = loop
        self._raw: asyncio.Transport | None = None
        self._incoming: ssl.MemoryBIO | None = None
        self._outgoing: ssl.MemoryBIO | None = None
        self._tls: ssl.SSLObject | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_ready = False
        self._is_closing = False
        self._reading_paused = False
        self._writing_paused = False

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        if self._owner.handshake_s_max > 0:
            self._deadline = self._loop.call_later(self._owner.handshake_s_max, self._too_slow)
        self._connection.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_ready and not self._is_closing and self._tls is not None:
            self._owner.handshake_failed(self._connection, "it disconnected during the TLS handshake")
        self._is_closing = True
        self._stop_deadline()
        self._raw = self._tls = self._incoming = self._outgoing = None
        self._connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _received.view

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_closing:
            return
        data = _received.view[:nbytes]
        if self._tls is None and not self._begin(data):
            return
        if self._incoming is not None:
            self._incoming.write(data)
        if self._is_ready or self._shake_hands():
            self._deliver()

    def eof_received(self) -> bool:
        return False  # The transport closes itself.

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._update_reading()
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._update_reading()
        self._connection.resume_writing()

    # --- the handshake

    def _begin(self, data: memoryview) -> bool:
        if data[0] != _HANDSHAKE_RECORD:
            self._fail(_description_of(bytes(data[:8])))
            return False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        return True

    def _shake_hands(self) -> bool:
        """Return whether the handshake has completed successfully."""
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as error:
            self._flush()  # Sends the alert to the peer.
            self._fail(handshake_failure(error))
            return False
        self._flush()
        self._stop_deadline()
        reason = self._owner.handshake_done(self._connection, self._tls.getpeercert(binary_form=True))
        if reason is not None:
            self._fail(reason)
            return False
        self._is_ready = True
        return True

    def _too_slow(self) -> None:
        self._deadline = None
        self._fail(f"no TLS handshake within {self._owner.handshake_s_max:g} s (barnabas.authentication.timeout.ms)")

    def _fail(self, reason: str) -> None:
        if self._is_closing:
            return
        self._owner.handshake_failed(self._connection, reason)
        self._is_closing = True
        self._stop_deadline()
        if self._raw is None:
            return
        if self._tls is None:
            self._raw.close()
        else:
            # Later bytes of the peer are read and dropped for a while: else it would receive a reset, not the alert.
            self._raw.write_eof()
            self._deadline = self._loop.call_later(_LINGER_S, self._raw.close)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # --- data

    def _deliver(self) -> None:
        """Decrypt the received bytes and pass them on, a full buffer at a time."""
        while not (self._reading_paused or self._is_closing or self._tls is None):
            filled, more = self._decrypt(self._tls)
            if filled:
                self._connection.buffer_updated(filled)
            if not more:
                break
        self._flush()

    def _decrypt(self, tls: ssl.SSLObject) -> tuple[int, bool]:
        """Fill the connection's buffer; return the number of bytes, and whether more may follow."""
        buffer = self._connection.get_buffer(-1)
        filled, size = 0, len(buffer)
        try:
            while filled < size:
                count = tls.read(size - filled, buffer[filled:])
                if not count:
                    self._loop.call_soon(self.close)
                    return filled, False
                filled += cast("int", count)
        except ssl.SSLWantReadError:
            return filled, False
        except ssl.SSLZeroReturnError:
            self._loop.call_soon(self.close)
            return filled, False
        except ssl.SSLError:
            self._loop.call_soon(self.abort)
            return filled, False
        return filled, True

    def _flush(self) -> None:
        if self._outgoing is not None and self._outgoing.pending and self._raw is not None:
            self._raw.write(self._outgoing.read())

    def _update_reading(self) -> None:
        """Stop reading from a peer that doesn't read its responses: its bytes could require further responses."""
        if self._raw is None or self._raw.is_closing():
            return
        if self._reading_paused or self._writing_paused:
            self._raw.pause_reading()
        else:
            self._raw.resume_reading()

    # --- called by the connection

    def write(self, data: Any) -> None:
        if self._is_closing or self._tls is None or not data:
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError:
            self.abort()
            return
        self._flush()

    def pause_reading(self) -> None:
        self._reading_paused = True
        self._update_reading()

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._update_reading()
        if self._is_ready:
            self._loop.call_soon(self._deliver)  # For bytes that are still encrypted; never from inside a call.

    def close(self) -> None:
        """Send close_notify, and close after all written bytes have been sent."""
        if self._is_closing:
            return
        self._is_closing = True
        self._stop_deadline()
        if self._tls is not None and self._is_ready:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # It would wait for the peer's close_notify.
            self._flush()
        if self._raw is not None:
            self._raw.close()

    def abort(self) -> None:
        self._is_closing = True
        self._stop_deadline()
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._reading_paused

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._raw is not None:
            self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._raw is None else self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> object:
        if name == "ssl_object":
            return self._tls or default
        return default if self._raw is None else self._raw.get_extra_info(name, default)


def handshake_failure(error: ssl.SSLError) -> str:
    """Describe the reason, without any text that the peer chose."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "it disconnected during the TLS handshake"
    reason = error.reason or "unknown"
    return "TLS handshake failed: " + _REASONS.get(reason, reason.lower().replace("_", " "))


def _description_of(start: bytes) -> str:
    """Describe the bytes that were received where TLS was expected."""
    if start[:1] == b"\0" and len(start) >= 6:
        key = int.from_bytes(start[4:6], "big")
        return (
            f"it sent a plaintext request (API key {key}) to a TLS listener; "
            "set security.protocol=SSL (or SASL_SSL) in the client"
            if key < 128
            else "what it sent is not TLS"
        )
    if start[:4] in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI"):
        return "it sent an HTTP request to a TLS listener of Kafka's protocol"
    return "what it sent is not TLS"
