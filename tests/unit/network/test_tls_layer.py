"""TLS between a fake socket and a real connection; the client is OpenSSL in memory."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable

import pytest

from barnabas.network.authentication import ConnectionSecurity
from barnabas.network.connection import Answer, Connection, RequestProcessor
from barnabas.network.loop_scheduler import LoopShare
from barnabas.network.request_limits import RequestLimits
from barnabas.network.tls_layer import TlsLayer
from barnabas.security.tls import ServerTls, TlsSettings, client_context
from tests.peers.certificates import Authority, Identity
from tests.unit.network.test_connection import FakeTransport

pytestmark = pytest.mark.anyio

AUTHORITY = Authority()
SERVER = AUTHORITY.issue("localhost")
ALICE = AUTHORITY.issue("alice")
STRANGER = Authority("Elsewhere").issue("mallory")


def server_settings(client_auth: str = "none", **more: object) -> TlsSettings:
    return TlsSettings(
        key_store_type="PEM",
        key=SERVER.key_pem(),
        certificate_chain=SERVER.certificates_pem(),
        trust_store_type="PEM",
        trust_certificates=AUTHORITY.pem(),
        client_auth=client_auth,
        **more,  # type: ignore[arg-type]
    )


def client_settings(identity: Identity | None = None, **more: object) -> TlsSettings:
    return TlsSettings(
        key_store_type="PEM",
        key=identity.key_pem() if identity else None,
        certificate_chain=identity.certificates_pem() if identity else None,
        trust_store_type="PEM",
        trust_certificates=AUTHORITY.pem(),
        **more,  # type: ignore[arg-type]
    )


class Owner:
    """Accepts connections, echoes requests, and records its callbacks."""

    name = "SSL"
    request_limits = RequestLimits(bytes_max=50_000_000, usual_bytes_max=50_000_000, bytes_min=0)
    security: ConnectionSecurity | None = None
    handshake_s_max = 15.0

    def __init__(self) -> None:
        self.loop_share = LoopShare()
        self.processor: RequestProcessor = self
        self.reasons: list[str] = []
        self.failures: list[str] = []
        self.certificates: list[bytes | None] = []
        self.refusal: str | None = None
        self.closed_count = 0
        self.answer_bytes = 0

    def process(self, connection: Connection, frame: bytearray) -> Answer | Awaitable[Answer]:
        return [bytes(self.answer_bytes)] if self.answer_bytes else [b"answer to " + bytes(frame)]

    def opened(self, connection: Connection) -> bool:
        return True

    def closed(self, connection: Connection) -> None:
        self.closed_count += 1

    def login_failed(self, connection: Connection, reason: str) -> None:
        raise AssertionError("these connections do not log in")

    def broke_protocol(self, connection: Connection, reason: str) -> None:
        self.failures.append(reason)

    def handshake_done(self, connection: Connection, peer_certificate_der: bytes | None) -> str | None:
        self.certificates.append(peer_certificate_der)
        return self.refusal

    def handshake_failed(self, connection: Connection, reason: str) -> None:
        self.reasons.append(reason)


class FakeSocket(FakeTransport):
    def write_eof(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted


class World:
    """The layer, its socket and a client."""

    def __init__(self, settings: TlsSettings, client: TlsSettings | ssl.SSLContext | None = None) -> None:
        self.owner = Owner()
        self.loop = asyncio.get_running_loop()
        self.connection = Connection(self.owner, self.loop, "SSL-1")
        tls = ServerTls("SSL", settings)
        self.layer = TlsLayer(self.connection, lambda: tls.context, self.owner, self.loop)
        self.transport = FakeSocket()
        self.layer.connection_made(self.transport)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client if isinstance(client, ssl.SSLContext) else client_context(client or client_settings())
        self.client = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def feed(self, data: bytes) -> None:
        """Pass bytes to the layer."""
        while data:
            buffer = self.layer.get_buffer(-1)
            piece, data = data[: len(buffer)], data[len(buffer) :]
            buffer[: len(piece)] = piece
            self.layer.buffer_updated(len(piece))

    def exchange(self) -> None:
        """Transfer all pending bytes of either side to the other."""
        self.feed(self._outgoing.read())
        data = b"".join(self.transport.writes)
        self.transport.writes.clear()
        self._incoming.write(data)

    def shake_hands(self) -> None:
        for _ in range(5):
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.exchange()
            else:
                break
        self.exchange()

    def send(self, *bodies: bytes) -> None:
        self.client.write(b"".join(len(body).to_bytes(4, "big") + body for body in bodies))
        self.exchange()

    def received(self) -> bytes:
        self.exchange()
        data = bytearray()
        try:
            while piece := self.client.read(1 << 20):
                data += piece
        except ssl.SSLWantReadError:
            pass
        return bytes(data)


async def test_requests_are_decrypted_and_answers_encrypted() -> None:
    world = World(server_settings())
    world.shake_hands()
    assert world.owner.certificates == [None]
    world.send(b"one", b"two")
    assert world.received() == b"\0\0\0\x0danswer to one\0\0\0\x0danswer to two"
    assert world.client.version() == "TLSv1.3"


async def test_a_client_is_identified_by_its_certificate() -> None:
    world = World(server_settings("required"), client_settings(ALICE))
    world.shake_hands()
    assert world.owner.certificates == [ALICE.der]
    assert world.owner.reasons == []


async def test_tls_1_2_is_served() -> None:
    world = World(server_settings("required"), client_settings(ALICE, enabled_protocols=("TLSv1.2",)))
    world.shake_hands()
    world.send(b"x")
    assert world.client.version() == "TLSv1.2"
    assert world.received().endswith(b"answer to x")
    assert world.owner.certificates == [ALICE.der]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_older_versions_are_refused(version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = context.maximum_version = version
    world = World(server_settings(), context)
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        world.shake_hands()
    assert world.owner.reasons == ["TLS handshake failed: it offers no version of TLS in ssl.enabled.protocols"]
    assert world.transport.is_closed


async def test_a_client_without_certificate_is_refused_where_one_is_required() -> None:
    world = World(server_settings("required"))
    world.shake_hands()
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        world.received()
    assert world.owner.reasons == ["TLS handshake failed: it sent no certificate, and ssl.client.auth=required"]
    assert world.transport.is_closed
    assert world.layer._deadline is not None
    world.feed(b"more")
    world.layer.connection_lost(None)
    assert world.layer._deadline is None
    assert len(world.owner.reasons) == 1


async def test_a_client_without_certificate_is_accepted_where_one_is_only_requested() -> None:
    world = World(server_settings("requested"))
    world.shake_hands()
    assert (world.owner.certificates, world.owner.reasons) == ([None], [])


@pytest.mark.parametrize("client_auth", ["requested", "required"])
async def test_a_certificate_of_an_unknown_authority_is_refused(client_auth: str) -> None:
    world = World(server_settings(client_auth), client_settings(STRANGER))
    world.shake_hands()
    assert "its certificate is not accepted" in world.owner.reasons[0]
    assert world.owner.certificates == []
    assert world.transport.is_closed


async def test_an_expired_certificate_is_refused() -> None:
    world = World(server_settings("required"), client_settings(AUTHORITY.issue("late", days=-1)))
    world.shake_hands()
    assert world.owner.reasons == ["its certificate is not accepted: certificate has expired"]


async def test_a_client_that_distrusts_the_listener_is_named_as_the_cause() -> None:
    elsewhere = TlsSettings(trust_store_type="PEM", trust_certificates=Authority("Other").pem())
    world = World(server_settings(), elsewhere)
    with pytest.raises(ssl.SSLCertVerificationError):
        world.shake_hands()
    world.exchange()
    assert "does not trust" in world.owner.reasons[0] or "does not accept" in world.owner.reasons[0]


async def test_a_client_refused_after_the_handshake_is_disconnected() -> None:
    world = World(server_settings("required"), client_settings(ALICE))
    world.owner.refusal = "No rules apply"
    world.shake_hands()
    world.send(b"x")
    assert world.owner.reasons == ["No rules apply"]
    assert world.transport.is_closed
    assert world.received() == b""


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (b"\0\0\0\x10\0\x12\0\4\0\0\0\1", "a plaintext request (API key 18)"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"\xff" * 100, "is not TLS"),
        (b"\0", "is not TLS"),
        (b"\x80\x2e\1\3\1", "is not TLS"),
    ],
)
async def test_bytes_other_than_tls_are_reported_as_such(start: bytes, reason: str) -> None:
    world = World(server_settings())
    world.feed(start)
    assert reason in world.owner.reasons[0]
    assert world.transport.is_closed
    world.feed(b"more")
    assert len(world.owner.reasons) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\xff\xff" + bytes(65535),  # Longer than the maximum length of a record.
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff" + b"\x16\x03\x01\x40\x00" + bytes(0x4000) * 40,  # A hello of 16 MB.
        b"\x16\x03\x01\x00\x00" * 40,
        b"\x16\x03\x01\x00\x05hello",
        b"\x16\x03\x03\x00\x02\x02\x28",  # An alert that claims to be a handshake.
    ],
)
async def test_garbage_instead_of_a_hello_ends_the_connection(garbage: bytes) -> None:
    world = World(server_settings())
    world.feed(garbage)
    world.layer.connection_lost(None)
    assert len(world.owner.reasons) == 1
    assert world.owner.closed_count == 1


async def test_a_handshake_may_arrive_byte_by_byte() -> None:
    world = World(server_settings())
    with pytest.raises(ssl.SSLWantReadError):
        world.client.do_handshake()
    for byte in world._outgoing.read():
        world.feed(bytes((byte,)))
    world.shake_hands()
    world.send(b"x")
    assert world.received().endswith(b"answer to x")


async def test_a_handshake_has_a_deadline() -> None:
    world = World(server_settings())
    deadline = world.layer._deadline
    assert deadline is not None
    assert deadline.when() - world.loop.time() == pytest.approx(15, abs=1)
    world.layer._too_slow()
    assert world.owner.reasons == ["no TLS handshake within 15 s (barnabas.authentication.timeout.ms)"]
    assert world.transport.is_closed


async def test_no_deadline_applies_after_the_handshake() -> None:
    world = World(server_settings())
    world.shake_hands()
    assert world.layer._deadline is None


async def test_disconnecting_is_a_failure_only_during_the_handshake() -> None:
    quiet, leaving = World(server_settings()), World(server_settings())
    quiet.layer.connection_lost(None)
    leaving.feed(b"\x16\x03\x01\x02\x00\x01")
    leaving.layer.connection_lost(None)
    assert quiet.owner.reasons == []
    assert leaving.owner.reasons == ["it disconnected during the TLS handshake"]
    assert (quiet.owner.closed_count, leaving.owner.closed_count) == (1, 1)


async def test_a_large_request_and_a_large_response_are_transferred() -> None:
    world = World(server_settings())
    world.owner.answer_bytes = 5_000_000
    world.shake_hands()
    world.send(b"z" * 3_000_000)
    assert len(world.received()) == 5_000_004


async def test_a_close_notify_closes_the_connection_after_its_responses() -> None:
    world = World(server_settings())
    world.shake_hands()
    world.client.write(b"\0\0\0\1x")
    with pytest.raises(ssl.SSLWantReadError):
        world.client.unwrap()
    world.exchange()
    await asyncio.sleep(0)
    assert world.transport.is_closed
    world.exchange()
    assert world.client.read(100) == b"\0\0\0\x0banswer to x"


async def test_damaged_data_ends_the_connection() -> None:
    world = World(server_settings())
    world.shake_hands()
    world.client.write(b"\0\0\0\1x")
    record = bytearray(world._outgoing.read())
    record[-1] ^= 1
    world.feed(bytes(record))
    await asyncio.sleep(0)
    assert world.transport.is_aborted
    assert world.owner.reasons == []


async def test_while_reading_is_paused_nothing_is_passed_on_and_nothing_is_lost() -> None:
    world = World(server_settings())
    world.shake_hands()
    world.layer.pause_reading()
    assert world.transport.is_reading_paused
    world.send(b"one")
    assert world.received() == b""
    world.layer.resume_reading()
    await asyncio.sleep(0)
    assert world.received().endswith(b"answer to one")
    assert not world.transport.is_reading_paused


async def test_requests_of_a_client_that_does_not_read_are_not_read() -> None:
    world = World(server_settings())
    world.shake_hands()
    world.layer.pause_writing()
    assert world.transport.is_reading_paused
    world.layer.resume_writing()
    assert not world.transport.is_reading_paused
