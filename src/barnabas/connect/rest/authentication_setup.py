"""Create the authentication methods from the settings: read the users file and mapping rules, load the token keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.connect.rest.authentication import Authenticator, PasswordCheck
from barnabas.connect.rest.bearer_tokens import BearerTokens, open_keys
from barnabas.connect.rest.client_certificates import ClientCertificates
from barnabas.connect.rest.rest_settings import AuthenticationSettings, UnusableRestSetting
from barnabas.connect.rest.users_file import UnusableUsersFile, read_users
from barnabas.security.sasl.jwks import ALGORITHMS, JsonWebKeys, UnusableJwks, UnusableJwksUrl, check_jwks_url
from barnabas.security.sasl.jwt_validator import JwtRules
from barnabas.security.ssl_principal_mapper import InvalidMappingRule, SslPrincipalMapper

if TYPE_CHECKING:
    from barnabas.common.clock import Clock

__all__ = ["Authentication", "set_up_authentication"]

_PROCESS_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Authentication:
    """``authenticator`` is None without authentication."""

    authenticator: Authenticator | None
    keys: JsonWebKeys | None = None

    def start(self) -> None:
        """Fetch the token keys now, and then periodically."""
        if self.keys is not None:
            self.keys.start()

    def close(self) -> None:
        if self.keys is not None:
            self.keys.close()


def set_up_authentication(
    settings: AuthenticationSettings, *, clock: Clock, random_bytes: Callable[[int], bytes]
) -> Authentication:
    """Create the methods. Raise UnusableRestSetting."""
    if not settings.ways:
        return Authentication(None)
    keys = _keys(settings) if "jwt" in settings.ways else None
    authenticator = Authenticator(
        passwords=_passwords(settings, clock, random_bytes) if "basic" in settings.ways else None,
        tokens=None if keys is None else BearerTokens(keys, *_token_rules(settings), settings.roles, clock),
        certificates=_certificates(settings) if "mtls" in settings.ways else None,
    )
    return Authentication(authenticator, keys)


def _passwords(settings: AuthenticationSettings, clock: Clock, random_bytes: Callable[[int], bytes]) -> PasswordCheck:
    try:
        users = read_users(Path(settings.users_file or ""), f"{settings.prefix}users.file")
    except UnusableUsersFile as error:
        raise UnusableRestSetting(str(error)) from None
    return PasswordCheck(
        users,
        settings.roles,
        process_key=random_bytes(_PROCESS_KEY_BYTES),
        now_s=lambda: clock.monotonic_ms() / 1000,
    )


def _keys(settings: AuthenticationSettings) -> JsonWebKeys:
    place, setting = settings.jwt_keys or "", f"{settings.prefix}jwt.keys.file"
    try:
        if "://" in place and not place.lower().startswith("file:"):
            check_jwks_url(place)
        return open_keys(place, setting)
    except (UnusableJwks, UnusableJwksUrl) as error:
        raise UnusableRestSetting(f"{setting}={place} can't be used: {error}") from None


def _token_rules(settings: AuthenticationSettings) -> tuple[JwtRules, frozenset[str]]:
    unknown = settings.jwt_algorithms.difference(ALGORITHMS)
    if unknown or not settings.jwt_algorithms:
        raise UnusableRestSetting(
            f"{settings.prefix}jwt.algorithms has {', '.join(sorted(unknown)) or 'nothing'}; "
            f"valid are {', '.join(ALGORITHMS)}"
        )
    rules = JwtRules(
        audiences=settings.jwt_audiences,
        issuer=settings.jwt_issuer,
        scope_claim=settings.jwt_roles_claim,
        subject_claim=settings.jwt_user_claim,
    )
    return rules, settings.jwt_algorithms


def _certificates(settings: AuthenticationSettings) -> ClientCertificates:
    try:
        return ClientCertificates(SslPrincipalMapper(settings.mtls_rules), settings.roles)
    except InvalidMappingRule as error:
        raise UnusableRestSetting(f"{settings.prefix}mtls.principal.mapping.rules: {error}") from None
