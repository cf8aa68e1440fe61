"""Keys and certificates for tests, created at run time: a certificate authority and the certificates that it signs. The
files have every format that a node or a client may use: PEM (also with an encrypted key), PKCS12, and a PKCS12 trust
store that Java reads. All files are deleted with the test's folder.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["PASSWORD", "Authority", "Identity", "common_name"]

PASSWORD = "only-for-tests"
"""The password of every store and encrypted key that is created here."""

_LOCAL = ("localhost", "127.0.0.1")
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Identity:
    """A private key with its certificate and those of its issuers."""

    def __init__(self, key: PrivateKey, certificate: x509.Certificate, issuers: Sequence[x509.Certificate]) -> None:
        self.key = key
        self.certificate = certificate
        self.issuers = list(issuers)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def certificates_pem(self) -> str:
        """Return the certificate, then its issuers without the root."""
        chain = [self.certificate, *(issuer for issuer in self.issuers if issuer.subject != issuer.issuer)]
        return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in chain)

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)).decode()

    def write_pem(self, path: Path, *, password: str | None = None) -> Path:
        """Write key and certificates into one file, as ``ssl.keystore.type=PEM`` needs them."""
        path.write_text(self.key_pem(password) + self.certificates_pem())
        return path

    def write_key(self, path: Path, *, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password))
        return path

    def write_certificates(self, path: Path) -> Path:
        path.write_text(self.certificates_pem())
        return path

    def write_pkcs12(self, path: Path, *, password: str = PASSWORD, name: str = "node") -> Path:
        data = pkcs12.serialize_key_and_certificates(
            name.encode(), self.key, self.certificate, self.issuers, _encryption(password)
        )
        path.write_bytes(data)
        return path


class Authority:
    """A certificate authority. ``intermediate`` creates another one below it."""

    def __init__(self, name: str = "Test CA", *, parent: Authority | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        subject = common_name(name)
        builder = _builder(subject, parent.certificate.subject if parent else subject, self.key.public_key(), 100)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        self.certificate: x509.Certificate = builder.sign((parent or self).key, hashes.SHA256())
        self.issuers: list[x509.Certificate] = [self.certificate, *(parent.issuers if parent else [])]

    def intermediate(self, name: str = "Test CA below") -> Authority:
        return Authority(name, parent=self)

    def issue(
        self,
        subject: str | x509.Name,
        *,
        hosts: Sequence[str] = _LOCAL,
        days: float = 90,
        key: PrivateKey | None = None,
        usages: Sequence[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    ) -> Identity:
        """Sign a new certificate, for servers and clients unless ``usages`` says otherwise. With fewer than 0 days it
        has expired."""
        own_key = key or ec.generate_private_key(ec.SECP256R1())
        name = common_name(subject) if isinstance(subject, str) else subject
        builder = _builder(name, self.certificate.subject, own_key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), False)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
        return Identity(own_key, builder.sign(self.key, hashes.SHA256()), self.issuers)

    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write_pem(self, path: Path) -> Path:
        path.write_text(self.pem())
        return path

    def write_trust_store(self, path: Path, *, password: str = PASSWORD) -> Path:
        """Return a PKCS12 store of trusted certificates with the attribute that Java needs to see them."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"ca")
        path.write_bytes(pkcs12.serialize_java_truststore([entry], _encryption(password)))
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - datetime.timedelta(days=1))
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())
