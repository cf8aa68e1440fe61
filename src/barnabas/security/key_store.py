"""Keys and certificates from the stores that Kafka's settings name: PEM files and texts, and PKCS12 files.

The type JKS, Kafka's default, is read as PKCS12 too, as Java does. A real JKS file is refused with the command that
converts it. The contents stay in memory. No error shows a key, a password or what a store contains.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    pkcs12,
)
from cryptography.x509 import Certificate, ExtensionNotFound, SubjectAlternativeName, load_der_x509_certificate

from barnabas.security.distinguished_name import subject_name
from barnabas.security.tls_settings import TlsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from barnabas.security.tls_settings import TlsSettings

__all__ = ["KeyMaterial", "expiry_notes", "load_key_material", "load_trusted"]

_JKS, _JCEKS, _DER = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30"
_TYPES = ("PEM", "PKCS12", "JKS")
_PEM_BLOCK = re.compile(r"-+BEGIN\s+([A-Z0-9 ]+?)\s*-+\s*([^-]*?)\s*-+END\s+\1\s*-+")
_PLAIN_KEYS = ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY")
_SOON = timedelta(days=30)


class KeyMaterial:
    """A private key and the certificates that vouch for it, the key's own first. Its ``repr`` shows the subject.

    ``setting`` names the setting that it was read from.
    """

    __slots__ = ("_key", "certificates", "setting")

    def __init__(self, key: PrivateKeyTypes, certificates: Sequence[Certificate], setting: str) -> None:
        self._key = key
        self.certificates = list(certificates)
        self.setting = setting

    @property
    def key_pem(self) -> bytes:
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def certificates_pem(self) -> bytes:
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in self.certificates)

    @property
    def subject(self) -> str:
        return _subject(self.certificates[0])

    @property
    def alternative_names(self) -> frozenset[str]:
        """The certificate's alternative names (host names, addresses) as text."""
        try:
            extension = self.certificates[0].extensions.get_extension_for_class(SubjectAlternativeName)
        except (ExtensionNotFound, ValueError):
            return frozenset()
        return frozenset(repr(usage) for usage in extension.value)

    def __repr__(self) -> str:
        return f"KeyMaterial({self.subject})"


def load_key_material(settings: TlsSettings) -> KeyMaterial | None:
    """Return the key of a server or client; None when no key is set. Raises TlsError."""
    if settings.key or settings.certificate_chain:
        name = "ssl.keystore.key"
        key, certificates = _inline_key(settings)
    elif settings.key_store_location:
        name = "ssl.keystore.location"
        key, certificates = _key_of_file(settings, settings.key_store_location)
    else:
        return None
    if not certificates:
        raise TlsError(name, "the key has no certificate", "add the certificate and those of its issuers")
    _check_pair(key, certificates, name)
    return KeyMaterial(key, certificates, name)


def load_trusted(settings: TlsSettings) -> list[Certificate] | None:
    """Return the trusted certificates; None when no trust store is set. Raises TlsError."""
    if settings.trust_certificates:
        name = "ssl.truststore.certificates"
        if settings.trust_store_location:
            raise TlsError(name, "ssl.truststore.location is set too", "remove one of them")
        _must_be_pem("ssl.truststore.type", settings.trust_store_type, name)
        certificates = _pem_certificates(settings.trust_certificates, name)
    elif settings.trust_store_location:
        name = "ssl.truststore.location"
        certificates = _trusted_of_file(settings, settings.trust_store_location)
    else:
        return None
    if not certificates:
        raise TlsError(name, "it contains no certificate", "add the certificate of your authority")
    return certificates


def expiry_notes(certificates: Iterable[Certificate], name: str, now: datetime | None = None) -> list[str]:
    """Yield a line for each certificate that has expired, is not valid yet, or expires within 30 days."""
    moment = now or datetime.now(UTC)
    notes = []
    for certificate in certificates:
        described = f"{name}: the certificate of {_subject(certificate)}"
        if certificate.not_valid_after_utc < moment:
            notes.append(f"{described} expired on {certificate.not_valid_after_utc:%Y-%m-%d}")
        elif certificate.not_valid_before_utc > moment:
            notes.append(f"{described} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}")
        elif certificate.not_valid_after_utc < moment + _SOON:
            notes.append(f"{described} ends on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    return notes


# --- keys


def _inline_key(settings: TlsSettings) -> tuple[PrivateKeyTypes, list[Certificate]]:
    if settings.key_store_location:
        raise TlsError("ssl.keystore.location", "ssl.keystore.key is set too", "remove one of them")
    if not settings.key:
        raise TlsError("ssl.keystore.key", "ssl.keystore.certificate.chain is set without it", "set the key too")
    if not settings.certificate_chain:
        raise TlsError("ssl.keystore.certificate.chain", "ssl.keystore.key is set without it", "set the chain too")
    if settings.key_store_password:
        raise TlsError("ssl.keystore.password", "PEM has no store password", "remove it; ssl.key.password is the key's")
    _must_be_pem("ssl.keystore.type", settings.key_store_type, "ssl.keystore.key")
    key = _pem_key(settings.key, "ssl.keystore.key", settings.key_password)
    return key, _pem_certificates(settings.certificate_chain, "ssl.keystore.certificate.chain")


def _key_of_file(settings: TlsSettings, path: str) -> tuple[PrivateKeyTypes, list[Certificate]]:
    name = "ssl.keystore.location"
    data = _read(path, name)
    if _store_type(settings.key_store_type, "ssl.keystore.type") == "PEM":
        if settings.key_store_password:
            raise TlsError(
                "ssl.keystore.password", "PEM has no store password", "remove it; ssl.key.password is the key's"
            )
        text = _pem_text(data, path, name, "ssl.keystore.type")
        return _pem_key(text, name, settings.key_password), _pem_certificates(text, name)
    store = _pkcs12(data, path, name, settings.key_store_password)
    if store.key is None or store.cert is None:
        raise TlsError(
            name, f"{path} has no private key with a certificate", "a trust store can't serve as the key store"
        )
    return store.key, _chain(store.cert.certificate, [additional.certificate for additional in store.additional_certs])


def _check_pair(key: PrivateKeyTypes, certificates: Sequence[Certificate], name: str) -> None:
    try:
        own = _public_bytes(key.public_key())
        matches = [_public_bytes(certificate.public_key()) == own for certificate in certificates]
    except (UnsupportedAlgorithm, ValueError, TypeError) as error:
        raise TlsError(name, f"a key is of a kind that can't be used: {error}", "use RSA or EC keys") from None
    if matches[0]:
        return
    if any(matches):
        raise TlsError(
            name, "the certificate of the key is not the first one", "put it first, then those of its issuers in order"
        )
    raise TlsError(name, "the private key does not belong to the certificate", "give the key that it was made with")


def _public_bytes(key: object) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return encoded


def _chain(own: Certificate, others: Sequence[Certificate]) -> list[Certificate]:
    """Return the key's certificate and its chain of issuers: the order in a PKCS12 file has no meaning."""
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next(
            (candidate for candidate in others if _has_signed(candidate, chain[-1]) and candidate not in chain), None
        )
        if issuer is None:
            break
        chain.append(issuer)
    return chain


def _has_signed(issuer: Certificate, certificate: Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # Wrong names, kinds of keys or signatures: all of them mean no.
        return False
    return True


# --- trust


def _trusted_of_file(settings: TlsSettings, path: str) -> list[Certificate]:
    name = "ssl.truststore.location"
    data = _read(path, name)
    if _store_type(settings.trust_store_type, "ssl.truststore.type") == "PEM":
        if settings.trust_store_password:
            raise TlsError("ssl.truststore.password", "a PEM trust store has no password", "remove it")
        return _pem_certificates(_pem_text(data, path, name, "ssl.truststore.type"), name)
    store = _pkcs12(data, path, name, settings.trust_store_password)
    if store.key is None:
        return [entry.certificate for entry in (store.cert, *store.additional_certs) if entry is not None]
    # The certificates of a key's issuers are stored with it, and are not trusted; trusted certificates have names.
    own = [] if store.cert is None else [store.cert.certificate]
    return own + [additional.certificate for additional in store.additional_certs if additional.friendly_name]


# --- files and texts


def _read(path: str, name: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise TlsError(
            name, f"{path} can't be read: {error.strerror}", "give the path of a file that the node may read"
        ) from None


def _store_type(text: str, name: str) -> str:
    if text.upper() not in _TYPES:
        raise TlsError(name, f"stores of type {text} can't be read", f"use one of {', '.join(_TYPES)}")
    return text.upper()


def _must_be_pem(type_name: str, text: str, name: str) -> None:
    if text.upper() != "PEM":
        raise TlsError(type_name, f"{name} is PEM text and this is {text}", f"set {type_name}=PEM")


def _pem_text(data: bytes, path: str, name: str, type_name: str) -> str:
    if data.startswith((_JKS, _JCEKS)):
        raise _jks(path, name)
    if b"-BEGIN " not in data:
        hint = f"set {type_name}=PKCS12" if data.startswith(_DER) else "give a file that has -----BEGIN ...----- lines"
        raise TlsError(name, f"{path} is not PEM", hint)
    return data.decode("latin-1")


def _jks(path: str, name: str) -> TlsError:
    return TlsError(
        name,
        f"{path} is a JKS file, a format of Java only",
        f"convert it: keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12",
    )


def _pkcs12(data: bytes, path: str, name: str, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    password_name = name.replace("location", "password")
    if data.startswith((_JKS, _JCEKS)):
        raise _jks(path, name)
    if b"-BEGIN " in data and not data.startswith(_DER):
        raise TlsError(name, f"{path} is PEM", f"set {name.replace('location', 'type')}=PEM")
    if password is None and name == "ssl.keystore.location":
        raise TlsError(password_name, "is required for a key store that is a file", "set it, or use PEM")
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except UnsupportedAlgorithm:
        raise TlsError(name, f"{path} is encrypted in a way that can't be read", "make it again with keytool") from None
    except Exception:  # Wrong bytes and a wrong password look the same, and the cause must not be shown.
        if not data.startswith(_DER):
            raise TlsError(name, f"{path} is not a PKCS12 file", "make it with keytool -deststoretype PKCS12") from None
        raise TlsError(
            password_name,
            f"{path} can't be opened with it" if password is not None else f"{path} can't be opened without one",
            "give the password that the store was made with",
        ) from None


def _pem_blocks(text: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in _PEM_BLOCK.finditer(text)]


def _pem_key(text: str, name: str, password: str | None) -> PrivateKeyTypes:
    blocks = [(label, body) for label, body in _pem_blocks(text) if label.endswith("PRIVATE KEY")]
    if not blocks:
        raise TlsError(name, "it contains no private key", "add the block -----BEGIN PRIVATE KEY-----")
    label, body = blocks[0]
    if len(blocks) > 1:
        raise TlsError(name, f"it contains {len(blocks)} private keys", "keep one")
    if label not in _PLAIN_KEYS or ":" in body:
        raise TlsError(name, f"a {label} of this form can't be read", "convert it: openssl pkcs8 -topk8 -in KEY")
    is_encrypted = label.startswith("ENCRYPTED")
    if is_encrypted and password is None:
        raise TlsError("ssl.key.password", "is required: the private key is encrypted", "set it")
    if password is not None and not is_encrypted:
        raise TlsError("ssl.key.password", "the private key is not encrypted", "remove it")
    try:
        return load_der_private_key(_decoded(body, name), None if password is None else password.encode())
    except TlsError:
        raise
    except UnsupportedAlgorithm:
        raise TlsError(name, "the private key is of a kind that can't be used", "use an RSA or EC key") from None
    except Exception:  # As above: nothing of the cause may be shown.
        if is_encrypted:
            raise TlsError("ssl.key.password", "the private key can't be opened with it", "give its password") from None
        raise TlsError(name, "the private key is damaged", "export it again") from None


def _pem_certificates(text: str, name: str) -> list[Certificate]:
    certificates = []
    for label, body in _pem_blocks(text):
        if label in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
            try:
                certificates.append(load_der_x509_certificate(_decoded(body, name)))
            except TlsError:
                raise
            except ValueError:
                count = len(certificates) + 1
                raise TlsError(name, f"certificate {count} in it can't be read", "export it again") from None
    return certificates


def _decoded(body: str, name: str) -> bytes:
    try:
        return b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError):
        raise TlsError(name, "a PEM block in it is not base64", "copy it again as it was") from None


def _subject(certificate: Certificate) -> str:
    return subject_name(certificate.public_bytes(Encoding.DER)) or "nobody"
