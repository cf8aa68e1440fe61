"""Derives a connection's principal: the port that ``principal.builder.class`` names, and its input.

A custom builder is a class ``module:Class`` that derives from PrincipalBuilder (or has its methods). It is created
once per listener without arguments, then configured. Because principals are sent between nodes inside forwarded
requests, a builder must have ``serialize`` and ``deserialize``: without them the node doesn't start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.x509 import Certificate

    from barnabas.security.ssl_principal_mapper import SslPrincipalMapper

__all__ = [
    "KAFKA_DEFAULT_BUILDER",
    "AuthenticationContext",
    "DefaultPrincipalBuilder",
    "PrincipalBuilder",
    "PrincipalRefused",
    "check_principal",
    "missing_methods",
    "session_principal",
]

KAFKA_DEFAULT_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_PRINCIPAL_BYTES_MAX = 32767
"""The longest principal that a request, a rule or a record can hold."""

_REQUIRED = ("build", "serialize", "deserialize")


class PrincipalRefused(Exception):
    """The connection's identity is not acceptable as a principal; the text is for the log."""


class AuthenticationContext:
    """The facts about a connection after its authentication.

    ``authorization_id`` and ``sasl_mechanism`` are None without SASL. ``peer_certificate_der`` is None unless the
    client sent a certificate, which was then verified; ``peer_certificate`` parses it on access.
    """

    __slots__ = (
        "authorization_id",
        "client_host",
        "listener_name",
        "peer_certificate_der",
        "sasl_mechanism",
        "security_protocol",
        "token_authenticated",
    )

    def __init__(
        self,
        *,
        listener_name: str,
        security_protocol: str,
        client_host: str,
        peer_certificate_der: bytes | None = None,
        authorization_id: str | None = None,
        sasl_mechanism: str | None = None,
        token_authenticated: bool = False,
    ) -> None:
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.client_host = client_host
        self.peer_certificate_der = peer_certificate_der
        self.authorization_id = authorization_id
        self.sasl_mechanism = sasl_mechanism
        self.token_authenticated = token_authenticated

    @property
    def peer_certificate(self) -> Certificate | None:
        """The client's certificate. Raises ValueError when it can't be read."""
        if self.peer_certificate_der is None:
            return None
        from cryptography.x509 import load_der_x509_certificate

        return load_der_x509_certificate(self.peer_certificate_der)


class PrincipalBuilder:
    """The base of every builder. ``build`` runs on the event loop: it must not block.

    An exception of ``build`` closes the connection and is logged. ``deserialize`` raises ValueError for bytes
    that it can't read.
    """

    def configure(self, configs: Mapping[str, object]) -> None:
        """Called once, with the listener's settings by name."""

    def build(self, context: AuthenticationContext) -> Principal:
        raise NotImplementedError

    def serialize(self, principal: Principal) -> bytes:
        raise NotImplementedError

    def deserialize(self, data: bytes) -> Principal:
        raise NotImplementedError


class DefaultPrincipalBuilder(PrincipalBuilder):
    """Kafka's rules: the authorization id with SASL, the mapped name of the certificate with TLS, else ANONYMOUS."""

    def __init__(self, mapper: SslPrincipalMapper | None = None) -> None:
        self._mapper = mapper

    def build(self, context: AuthenticationContext) -> Principal:
        if context.authorization_id is not None:
            return Principal("User", context.authorization_id, context.token_authenticated)
        if context.peer_certificate_der is None:
            return ANONYMOUS
        from barnabas.security.distinguished_name import subject_name

        name = subject_name(context.peer_certificate_der)
        return Principal("User", name if self._mapper is None else self._mapper.name_of(name))

    def serialize(self, principal: Principal) -> bytes:
        from barnabas.security.principal_serde import serialize_principal  # Most nodes never need it.

        return serialize_principal(principal)

    def deserialize(self, data: bytes) -> Principal:
        from barnabas.security.principal_serde import deserialize_principal

        return deserialize_principal(data)


def session_principal(builder: PrincipalBuilder, context: AuthenticationContext) -> Principal:
    """Return the principal of a connection. Raises PrincipalRefused, with the builder's own exception as its cause.

    ``User:*`` means all principals in rules, so a connection must not have it.
    """
    try:
        principal = builder.build(context)
    except PrincipalRefused:
        raise
    except Exception as error:
        raise PrincipalRefused(f"no principal could be built: {type(error).__name__}: {error}") from error
    if not isinstance(principal, Principal):
        raise PrincipalRefused(f"{type(builder).__name__}.build returned {type(principal).__name__}, not a Principal")
    check_principal(principal)
    return principal


def check_principal(principal: Principal) -> None:
    """Raise PrincipalRefused if this can't be the principal of a connection."""
    if principal.name == "*":
        raise PrincipalRefused(f"{principal} means all principals and can't be the principal of a connection")
    try:
        size = len(str(principal).encode())
    except UnicodeEncodeError:
        raise PrincipalRefused(
            "a principal whose name is not valid text can't be the principal of a connection"
        ) from None
    if size > _PRINCIPAL_BYTES_MAX:
        raise PrincipalRefused(
            f"a principal of {size} bytes can't be the principal of a connection; {_PRINCIPAL_BYTES_MAX} at most"
        )


def missing_methods(builder_class: type) -> list[str]:
    """Return the methods of a builder that a class lacks."""
    return [
        name
        for name in _REQUIRED
        if not callable(getattr(builder_class, name, None))
        or getattr(builder_class, name) is getattr(PrincipalBuilder, name)
    ]
