"""TLS for listeners and clients: a context from Kafka's settings, and a context that is reloaded with its files.

TLS 1.2 and 1.3 only. OpenSSL receives a private key from memory through a pipe, never through a file. Certificates of
a trust store are trusted themselves, also those of intermediate authorities, as in Java.
"""

from __future__ import annotations

import logging
import os
import ssl
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding

from barnabas.security.key_store import KeyMaterial, expiry_notes, load_key_material, load_trusted
from barnabas.security.tls_settings import TlsError, TlsSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cryptography.x509 import Certificate

__all__ = [
    "TLS_VERSIONS",
    "ServerTls",
    "TlsError",
    "TlsSettings",
    "client_context",
    "server_context",
    "server_mistakes",
]

log = logging.getLogger(__name__)

TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TLS13_SUITES = frozenset(("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"))
_KEY_EXCHANGES = {"ECDHE_ECDSA": "ECDHE-ECDSA-", "ECDHE_RSA": "ECDHE-RSA-", "RSA": ""}
_CIPHERS = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_128_CBC_SHA": "AES128-SHA",
}
_SIGNAL_SUITE = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The TLS context of a listener. Raises TlsError."""
    return _server_context(settings, _server_key(settings), _server_trust(settings))


def server_mistakes(settings: TlsSettings) -> list[TlsError]:
    """Return all errors of a listener's settings, not only the first: of the key, the trust store and the rest."""
    first = _failure_of(server_context, settings)
    if first is None:
        return []
    checks: tuple[Callable[[TlsSettings], object], ...] = (_server_key, _server_trust, _check_versions)
    failures = [_failure_of(check, settings) for check in checks]
    return [error for error in failures if error is not None] or [first]


def _failure_of(check: Callable[[TlsSettings], object], settings: TlsSettings) -> TlsError | None:
    try:
        check(settings)
    except TlsError as error:
        return error
    return None


def _check_versions(settings: TlsSettings) -> None:
    _set_versions(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings)


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The TLS context of a client; without a trust store the system's authorities are trusted. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_host
    _set_versions(context, settings)
    trusted = load_trusted(settings)
    if trusted is None:
        context.load_default_certs()
    else:
        _trust(context, trusted)
    material = load_key_material(settings)
    if material is not None:
        _load_key(context, material)
    return context


def _server_key(settings: TlsSettings) -> KeyMaterial:
    material = load_key_material(settings)
    if material is None:
        raise TlsError("ssl.keystore.location", "is required for a TLS listener", "or set ssl.keystore.key (PEM)")
    return material


def _server_trust(settings: TlsSettings) -> list[Certificate] | None:
    trusted = load_trusted(settings)
    if trusted is None and settings.client_auth != "none":
        raise TlsError(
            "ssl.truststore.location",
            f"is required with ssl.client.auth={settings.client_auth}",
            "give the certificates of the authorities whose clients may connect",
        )
    return trusted


def _server_context(
    settings: TlsSettings, material: KeyMaterial, trusted: Sequence[Certificate] | None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION
    _set_versions(context, settings)
    _load_key(context, material)
    if settings.client_auth != "none" and trusted is not None:
        context.verify_mode = _CLIENT_AUTH[settings.client_auth]
        _trust(context, trusted)
        # A resumed session would rely on an old check of the client's certificate.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def _trust(context: ssl.SSLContext, certificates: Sequence[Certificate]) -> None:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    unique = dict.fromkeys(certificate.public_bytes(Encoding.DER) for certificate in certificates)
    context.load_verify_locations(cadata=b"".join(unique))


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = [TLS_VERSIONS.get(name) for name in settings.enabled_protocols]
    if not versions or None in versions:
        raise TlsError(
            "ssl.enabled.protocols",
            f"{','.join(settings.enabled_protocols) or 'nothing'} can't be served",
            "use TLSv1.2, TLSv1.3 or both",
        )
    known = [version for version in versions if version is not None]
    suites = [name for name in settings.cipher_suites if name != _SIGNAL_SUITE]
    if suites:
        older = _older_ciphers(suites)
        known = _versions_with_suites(known, suites, older)
        if older:
            try:
                context.set_ciphers(":".join(older))
            except ssl.SSLError:
                raise TlsError("ssl.cipher.suites", "OpenSSL has none of them", "remove the setting") from None
    context.minimum_version, context.maximum_version = min(known), max(known)


def _older_ciphers(suites: Sequence[str]) -> list[str]:
    """OpenSSL's names of the suites of TLS 1.2."""
    ciphers = []
    for name in suites:
        if name in _TLS13_SUITES:
            continue
        exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
        known = name.startswith("TLS_") and exchange in _KEY_EXCHANGES and cipher in _CIPHERS
        if not known or (exchange == "RSA" and cipher in ("CHACHA20_POLY1305_SHA256", "AES_256_CBC_SHA384")):
            raise TlsError(
                "ssl.cipher.suites",
                f"{name} is not supported",
                "use suites of TLS 1.3, or TLS_ECDHE_(ECDSA|RSA)_WITH_(AES_256_GCM_SHA384|AES_128_GCM_SHA256|...)",
            )
        ciphers.append(_KEY_EXCHANGES[exchange] + _CIPHERS[cipher])
    return ciphers


def _versions_with_suites(
    versions: Sequence[ssl.TLSVersion], suites: Sequence[str], older: Sequence[str]
) -> list[ssl.TLSVersion]:
    """Return the versions with at least one suite. Those of TLS 1.3 can only be enabled together or not at all."""
    newer = _TLS13_SUITES.intersection(suites)
    if newer and newer != _TLS13_SUITES and ssl.TLSVersion.TLSv1_3 in versions:
        missing = ", ".join(sorted(_TLS13_SUITES - newer))
        raise TlsError(
            "ssl.cipher.suites",
            f"the suites of TLS 1.3 can't be chosen one by one, and {missing} is missing",
            "name all three of them, or none together with ssl.enabled.protocols=TLSv1.2",
        )
    left: list[ssl.TLSVersion] = [
        version
        for version in versions
        if (version is ssl.TLSVersion.TLSv1_3 and newer) or (version is ssl.TLSVersion.TLSv1_2 and older)
    ]
    if not left:
        raise TlsError("ssl.cipher.suites", "none of them fits ssl.enabled.protocols", "change one of the two")
    return left


def _load_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    try:
        with _through_pipe(material.certificates_pem) as certificates, _through_pipe(material.key_pem) as key:
            context.load_cert_chain(certificates, key, password=_no_password)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error.strerror or "it can't be used"
        raise TlsError(
            material.setting,
            f"OpenSSL refuses the key of {material.subject}: {reason}",
            "use an EC key, or an RSA key of at least 2048 bits, signed with SHA-256",
        ) from None


def _no_password() -> str:
    return ""  # Never let OpenSSL ask a terminal.


@contextmanager
def _through_pipe(data: bytes) -> Iterator[str]:
    """Yield a path from which the bytes can be read once. A thread writes: a pipe may hold less than all bytes."""
    reading, writing = os.pipe()
    writer = Thread(target=_write_all, args=(writing, data), daemon=True)
    try:
        writer.start()
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


def _write_all(descriptor: int, data: bytes) -> None:
    try:
        with open(descriptor, "wb", buffering=0) as pipe:
            rest = memoryview(data)
            while rest:
                rest = rest[pipe.write(rest) :]
    except OSError:
        pass  # The reader has stopped reading, and reports the reason itself.


_Fingerprint = tuple[tuple[int, int, int, int] | None, ...]


class ServerTls:
    """The TLS of a listener: ``context`` is for new connections, and changes when ``reload`` succeeds.

    ``has_changed`` is called every few seconds and is cheap. ``reload_if_changed`` may take long (a store's password is
    slow to check on purpose) and can run on any thread. Unusable stores are logged, and the old context stays. A
    certificate for another name is refused on reload unless it is allowed (``ssl.allow.dn.changes`` and
    ``ssl.allow.san.changes``): most likely it is the wrong file. The constructor raises TlsError.
    """

    def __init__(
        self,
        listener: str,
        settings: TlsSettings,
        *,
        name_may_change: bool = False,
        alternative_names_may_change: bool = False,
    ) -> None:
        self.listener = listener
        self.settings = settings
        self._name_may_change = name_may_change
        self._alternative_names_may_change = alternative_names_may_change
        self._seen = _fingerprint(settings)
        self._material = _server_key(settings)
        trusted = _server_trust(settings)
        self.context = _server_context(settings, self._material, trusted)
        self.warnings = self._notes(trusted)
        self.reload_count = 0

    @property
    def expires_at_s(self) -> float:
        """When the listener's own certificate expires, in seconds since 1970."""
        return self._material.certificates[0].not_valid_after_utc.timestamp()

    def reload(self, settings: TlsSettings | None = None) -> None:
        """Read everything again, with new settings if passed. Raises TlsError; then nothing has changed."""
        self.prepared(settings)()

    def prepared(self, settings: TlsSettings | None = None) -> Callable[[], None]:
        """Do the part of ``reload`` that is slow or may fail; calling the result does the rest. Raises TlsError."""
        chosen = settings or self.settings
        seen = _fingerprint(chosen)
        material = _server_key(chosen)
        self._check_names(material)
        trusted = _server_trust(chosen)
        context = _server_context(chosen, material, trusted)

        def take() -> None:
            self.context = context
            self.settings, self._material, self._seen = chosen, material, seen
            self.warnings = self._notes(trusted)
            self.reload_count += 1

        return take

    def has_changed(self) -> bool:
        return _fingerprint(self.settings) != self._seen

    def reload_if_changed(self) -> bool:
        """Return whether new connections use new keys or trusted certificates. Never raises."""
        if not self.has_changed():
            return False
        seen = _fingerprint(self.settings)
        try:
            self.reload()
        except TlsError as error:
            # Tried once for each state of the files; a file that is still being written changes again.
            self._seen = seen
            log.error("listener %s keeps its certificate, the changed store can't be used: %s", self.listener, error)
            return False
        log.info(
            "listener %s: the stores were read again; new connections use the certificate of %s",
            self.listener,
            self._material.subject,
        )
        for note in self.warnings:
            log.warning("%s", note)
        return True

    def _check_names(self, material: KeyMaterial) -> None:
        if not self._name_may_change and material.subject != self._material.subject:
            raise TlsError(
                "ssl.keystore.location",
                f"the new certificate is for {material.subject}, the old one is for {self._material.subject}",
                "set ssl.allow.dn.changes=true if that is intended",
            )
        if not self._alternative_names_may_change and not (
            material.alternative_names >= self._material.alternative_names
        ):
            raise TlsError(
                "ssl.keystore.location",
                "the new certificate lacks alternative names (hosts) of the old one",
                "set ssl.allow.san.changes=true if that is intended",
            )

    def _notes(self, trusted: Sequence[Certificate] | None) -> list[str]:
        prefix = f"listener {self.listener}: "
        notes = expiry_notes(self._material.certificates, "ssl.keystore")
        notes += expiry_notes(trusted or (), "ssl.truststore")
        return [prefix + note for note in notes]


def _fingerprint(settings: TlsSettings) -> _Fingerprint:
    """Return a value that changes when a store file does, also when a link points to another file."""
    marks: list[tuple[int, int, int, int] | None] = []
    for path in settings.files:
        try:
            stat = os.stat(path)
        except OSError:
            marks.append(None)
        else:
            marks.append((stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size))
    return tuple(marks)
