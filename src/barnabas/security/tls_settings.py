"""The values of Kafka's ``ssl.*`` settings for a listener or a client, without secrets in the ``repr``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TLS_SETTINGS", "TlsError", "TlsSettings"]

TLS_SETTINGS = (
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""The settings that a TlsSettings reads."""


class TlsError(ValueError):
    """A setting that prevents TLS: its name, the error, and the remedy."""

    def __init__(self, name: str, what: str, advice: str = "") -> None:
        super().__init__(f"{name}: {what}" + (f" -> {advice}" if advice else ""))
        self.name = name
        self.what = what
        self.advice = advice


class TlsSettings:
    """Created with ``read``. Texts are None or empty if they were not set."""

    __slots__ = (
        "certificate_chain",
        "cipher_suites",
        "client_auth",
        "enabled_protocols",
        "key",
        "key_password",
        "key_store_location",
        "key_store_password",
        "key_store_type",
        "trust_certificates",
        "trust_store_location",
        "trust_store_password",
        "trust_store_type",
        "verifies_host",
    )

    def __init__(
        self,
        *,
        key_store_type: str = "JKS",
        key_store_location: str | None = None,
        key_store_password: str | None = None,
        key_password: str | None = None,
        key: str | None = None,
        certificate_chain: str | None = None,
        trust_store_type: str = "JKS",
        trust_store_location: str | None = None,
        trust_store_password: str | None = None,
        trust_certificates: str | None = None,
        client_auth: str = "none",
        enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3"),
        cipher_suites: tuple[str, ...] = (),
        verifies_host: bool = True,
    ) -> None:
        self.key_store_type = key_store_type
        self.key_store_location = key_store_location
        self.key_store_password = key_store_password
        self.key_password = key_password
        self.key = key
        self.certificate_chain = certificate_chain
        self.trust_store_type = trust_store_type
        self.trust_store_location = trust_store_location
        self.trust_store_password = trust_store_password
        self.trust_certificates = trust_certificates
        self.client_auth = client_auth
        self.enabled_protocols = enabled_protocols
        self.cipher_suites = cipher_suites
        self.verifies_host = verifies_host

    @classmethod
    def read(cls, value: Callable[[str], object]) -> TlsSettings:
        """Create the settings from a function that returns the typed value of a setting in TLS_SETTINGS."""
        return cls(
            key_store_type=_text(value("ssl.keystore.type")) or "JKS",
            key_store_location=_text(value("ssl.keystore.location")),
            key_store_password=_text(value("ssl.keystore.password")),
            key_password=_text(value("ssl.key.password")),
            key=_text(value("ssl.keystore.key")),
            certificate_chain=_text(value("ssl.keystore.certificate.chain")),
            trust_store_type=_text(value("ssl.truststore.type")) or "JKS",
            trust_store_location=_text(value("ssl.truststore.location")),
            trust_store_password=_text(value("ssl.truststore.password")),
            trust_certificates=_text(value("ssl.truststore.certificates")),
            client_auth=(_text(value("ssl.client.auth")) or "none").lower(),
            enabled_protocols=_texts(value("ssl.enabled.protocols")),
            cipher_suites=_texts(value("ssl.cipher.suites")),
            verifies_host=bool(_text(value("ssl.endpoint.identification.algorithm"))),
        )

    @property
    def has_key(self) -> bool:
        return bool(self.key_store_location or self.key)

    @property
    def has_trust(self) -> bool:
        return bool(self.trust_store_location or self.trust_certificates)

    @property
    def files(self) -> tuple[str, ...]:
        """The store files."""
        return tuple(path for path in (self.key_store_location, self.trust_store_location) if path)

    def __repr__(self) -> str:
        shown = ", ".join(self.files) or "no files"
        return f"TlsSettings({shown}; client_auth={self.client_auth}, {'/'.join(self.enabled_protocols)})"


def _text(value: object) -> str | None:
    """Return the text of a value, also of a hidden one."""
    if value is None:
        return None
    text = getattr(value, "value", value)
    return str(text) or None


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    return tuple(str(item).strip() for item in value) if isinstance(value, list | tuple) else ()
