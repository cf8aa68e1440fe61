"""Users with a certificate: its subject, through ``barnabas.connect.mtls.principal.mapping.rules``, is the name.

TLS has already checked the certificate against the trust store.
"""

from __future__ import annotations

from barnabas.connect.rest.authentication import NotAuthenticated
from barnabas.connect.rest.roles import RoleTable, User
from barnabas.security.distinguished_name import MalformedCertificate, subject_name
from barnabas.security.ssl_principal_mapper import NoMatchingRule, SslPrincipalMapper

__all__ = ["ClientCertificates"]


class ClientCertificates:
    """A CertificateMapper."""

    def __init__(self, mapper: SslPrincipalMapper, roles: RoleTable) -> None:
        self._mapper = mapper
        self._roles = roles

    def __call__(self, certificate: bytes) -> User:
        try:
            name = self._mapper.name_of(subject_name(certificate))
        except MalformedCertificate:
            raise NotAuthenticated("The client's certificate can't be read.") from None
        except NoMatchingRule:
            raise NotAuthenticated("No rule maps the subject of the client's certificate to a user.") from None
        except ValueError:
            raise NotAuthenticated("The subject of the client's certificate can't be mapped to a user.") from None
        if not name:
            raise NotAuthenticated("The client's certificate has no subject.")
        return User(name, self._roles.role_of(name))
