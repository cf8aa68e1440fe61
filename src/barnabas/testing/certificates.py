"""A certificate authority for one run, and the certificates that it signs: PEM files for nodes and clients."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from barnabas.testing.ports import HOST

__all__ = ["CertificateAuthority"]

_DAYS = 365
_HOSTS = ("localhost", HOST, "::1")


class CertificateAuthority:
    """Its private key exists only in this process."""

    def __init__(self, folder: Path) -> None:
        """Write ``ca.pem`` into the folder."""
        self.path = folder / "ca.pem"
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("barnabas test authority")
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.path.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str) -> Path:
        """Sign a certificate with ``CN=name``, for a server on this machine or for a client.

        Return the path of a file with key and certificate. The key alone is beside it, with the suffix ``.key``.
        """
        path = self._folder / f"{name}.pem"
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(_name(name), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in _HOSTS]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        for file, content in (
            (path, key_pem + certificate.public_bytes(Encoding.PEM)),
            (path.with_suffix(".key"), key_pem),
        ):
            file.touch(mode=0o600)
            file.write_bytes(content)
        return path


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
