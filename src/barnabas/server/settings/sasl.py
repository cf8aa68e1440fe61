"""The SASL half of a listener's settings: their errors, and the mechanisms that they define.

Each enabled mechanism needs a JAAS line under ``listener.name.<listener>.<mechanism>.sasl.jaas.config``, as with Kafka:
a plain ``sasl.jaas.config`` does not apply to listeners. Files with a ``KafkaServer`` section, which a JVM finds by
``java.security.auth.login.config``, are not read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.config_value import Password
from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.security.sasl.jaas import InvalidJaasConfig, JaasEntry, parse_jaas_entry
from barnabas.server.settings.listener_values import listener_setting_name, listener_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.common.clock import Clock
    from barnabas.common.config_def import ConfigValue
    from barnabas.security.sasl.credential_store import CredentialStore
    from barnabas.security.sasl.sasl_listener import SaslListener, SaslMechanism
    from barnabas.security.sasl.sasl_server import SaslServer
    from barnabas.server.settings.listener_values import GivenSettings

__all__ = ["MECHANISMS", "SaslSettings", "plain_mechanism", "sasl_listener", "sasl_problems"]

log = logging.getLogger(__name__)

_JAAS = "sasl.jaas.config"
_HANDLER = "sasl.server.callback.handler.class"
_JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_PACKAGE = "org.apache.kafka.common.security"


class _Known(NamedTuple):
    """A supported mechanism: the login module that its JAAS line names, and the callback handlers that we implement."""

    login_module: str
    handlers: tuple[str, ...]


_SCRAM = _Known(f"{_PACKAGE}.scram.ScramLoginModule", (f"{_PACKAGE}.scram.internals.ScramServerCallbackHandler",))
MECHANISMS = {
    "PLAIN": _Known(f"{_PACKAGE}.plain.PlainLoginModule", (f"{_PACKAGE}.plain.internals.PlainServerCallbackHandler",)),
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    "OAUTHBEARER": _Known(
        f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
        (
            f"{_PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            f"{_PACKAGE}.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
        ),
    ),
}


class SaslSettings:
    """Reads a listener's settings: the mechanism's form first, then the listener's, then the setting itself."""

    def __init__(self, given: GivenSettings, listener: str) -> None:
        self._given = given
        self.listener = listener

    def given_name(self, name: str, mechanism: str | None = None) -> str:
        """Return the name under which the value was given; the shortest name if it was not given."""
        return listener_setting_name(self._given, self.listener, name, mechanism)

    def is_given(self, name: str) -> bool:
        return name in self._given.values

    def value(self, name: str, mechanism: str | None = None) -> ConfigValue:
        return listener_value(self._given, self.listener, name, mechanism)

    def text(self, name: str, mechanism: str | None = None) -> str | None:
        value = self.value(name, mechanism)
        return None if value is None or value == "" else str(value)

    def number(self, name: str, mechanism: str | None = None) -> int:
        value = self.value(name, mechanism)
        return value if isinstance(value, int) else 0

    def texts(self, name: str, mechanism: str | None = None) -> list[str]:
        value = self.value(name, mechanism)
        return [str(element) for element in value] if isinstance(value, list) else []

    @property
    def mechanisms(self) -> list[str]:
        return self.texts("sasl.enabled.mechanisms")

    def jaas_name(self, mechanism: str) -> str:
        return f"listener.name.{self.listener.lower()}.{mechanism.lower()}.{_JAAS}"

    def jaas_entry(self, mechanism: str) -> JaasEntry | None:
        """Return the login module of the JAAS line; None without a line. Raise InvalidJaasConfig if it is invalid."""
        value = self._given.values.get(self.jaas_name(mechanism))
        return parse_jaas_entry(value.value) if isinstance(value, Password) else None


class SaslProblem(NamedTuple):
    setting: str
    what: str
    advice: str


def sasl_problems(given: GivenSettings, listener: str) -> Iterator[SaslProblem]:
    """Yield the problems that prevent a SASL listener from working."""
    settings = SaslSettings(given, listener)
    name = settings.given_name("sasl.enabled.mechanisms")
    if not settings.mechanisms:
        yield SaslProblem(name, f"listener {listener} has no SASL mechanism", f"allowed are {', '.join(MECHANISMS)}")
    for mechanism in settings.mechanisms:
        if mechanism in MECHANISMS:
            yield from _mechanism_problems(settings, mechanism)
        else:
            what = f"{mechanism} is not supported on listener {listener}"
            if not settings.is_given(name):
                what += " (it is the default)"
            yield SaslProblem(name, what, f"set it to some of {', '.join(MECHANISMS)}")


def _mechanism_problems(settings: SaslSettings, mechanism: str) -> Iterator[SaslProblem]:
    known = MECHANISMS[mechanism]
    jaas_name = settings.jaas_name(mechanism)
    try:
        entry = settings.jaas_entry(mechanism)
    except InvalidJaasConfig as error:
        yield SaslProblem(jaas_name, str(error), f"write '{known.login_module} required ...;'")
    else:
        if entry is None:
            yield SaslProblem(
                jaas_name,
                f"listener {settings.listener} offers {mechanism}, but has no JAAS line for it"
                " (only this name counts; sasl.jaas.config and KafkaServer files are not used)",
                f"set it to '{known.login_module} required ...;'",
            )
        elif entry.login_module != known.login_module:
            # If the beginning of the line is missing, its first word may be a secret.
            module = entry.login_module if entry.login_module.endswith("LoginModule") else "its first word"
            yield SaslProblem(jaas_name, f"{module} is not a login module of {mechanism}", f"use {known.login_module}")
    handler = settings.text(_HANDLER, mechanism)
    if handler is not None and handler not in known.handlers:
        yield SaslProblem(
            settings.given_name(_HANDLER, mechanism),
            f"{handler} can't be loaded: a callback handler is Java code",
            f"remove it; allowed for {mechanism} is {' or '.join(known.handlers)}",
        )
    if mechanism == "OAUTHBEARER":
        yield from _oauthbearer_problems(settings)


def _oauthbearer_problems(settings: SaslSettings) -> Iterator[SaslProblem]:
    from barnabas.security.sasl.jwks import UnusableJwksUrl, check_jwks_url

    name = settings.given_name(_JWKS_URL, "OAUTHBEARER")
    url = settings.text(_JWKS_URL, "OAUTHBEARER")
    if url is None:
        yield SaslProblem(
            name,
            f"listener {settings.listener} offers OAUTHBEARER, but the keys that sign its tokens are not configured;"
            " unsigned tokens are never accepted",
            "set it to the file: or https: URL of a JSON Web Key Set",
        )
        return
    try:
        check_jwks_url(url)
    except UnusableJwksUrl as error:
        yield SaslProblem(name, str(error), "set it to the file: or https: URL of a JSON Web Key Set")


def sasl_listener(given: GivenSettings, listener: str, *, credentials: CredentialStore, clock: Clock) -> SaslListener:
    """Return the SASL side of a listener whose settings have no problems."""
    from barnabas.security.sasl.sasl_listener import SaslListener

    settings = SaslSettings(given, listener)
    closers: list[Callable[[], None]] = []

    def close() -> None:
        for close in closers:
            close()

    return SaslListener(
        name=listener,
        mechanisms={
            mechanism: _mechanism(settings, mechanism, credentials, clock, closers) for mechanism in settings.mechanisms
        },
        clock=clock,
        receive_bytes_max=settings.number("sasl.server.max.receive.size"),
        authentication_timeout_ms=settings.number("barnabas.authentication.timeout.ms"),
        failure_delay_ms=settings.number("connection.failed.authentication.delay.ms"),
        close=close,
    )


def _mechanism(
    settings: SaslSettings,
    mechanism: str,
    credentials: CredentialStore,
    clock: Clock,
    closers: list[Callable[[], None]],
) -> SaslMechanism:
    from barnabas.security.sasl.sasl_listener import SaslMechanism

    if mechanism == "PLAIN":
        make_server = _plain(settings)
    elif mechanism == "OAUTHBEARER":
        make_server = _oauthbearer(settings, clock, closers)
    else:
        make_server = _scram(mechanism, credentials, clock)
    return SaslMechanism(make_server, settings.number("connections.max.reauth.ms", mechanism))


def plain_mechanism(given: GivenSettings, listener: str) -> SaslMechanism:
    """Return PLAIN with the users of its JAAS line, which must be valid."""
    from barnabas.security.sasl.sasl_listener import SaslMechanism

    settings = SaslSettings(given, listener)
    return SaslMechanism(_plain(settings), settings.number("connections.max.reauth.ms", "PLAIN"))


def _warn_about_tokens(settings: SaslSettings) -> None:
    """Warn about the same settings as Kafka, and about keys that could be changed in transit."""
    where = f"listener {settings.listener}, OAUTHBEARER"
    if not settings.texts("sasl.oauthbearer.expected.audience", "OAUTHBEARER"):
        log.warning("%s: sasl.oauthbearer.expected.audience is not set: only tokens without 'aud' are accepted", where)
    if settings.text("sasl.oauthbearer.expected.issuer", "OAUTHBEARER") is None:
        log.warning("%s: sasl.oauthbearer.expected.issuer is not set: tokens of any issuer are accepted", where)
    if (settings.text(_JWKS_URL, "OAUTHBEARER") or "").lower().startswith("http:"):
        log.warning(
            "%s: %s is not https: an attacker who changes the keys in transit can impersonate any user",
            where,
            _JWKS_URL,
        )


def _plain(settings: SaslSettings) -> Callable[[], SaslServer]:
    from barnabas.security.sasl.plain import PlainServer, plain_users

    entry = settings.jaas_entry("PLAIN")
    users = {} if entry is None else plain_users(entry.options)
    return lambda: PlainServer(users)


def _scram(mechanism: str, credentials: CredentialStore, clock: Clock) -> Callable[[], SaslServer]:
    from barnabas.security.sasl.scram import FakeCredentials, ScramServer

    kind, fakes = ScramMechanism.from_name(mechanism), FakeCredentials(credentials.disguise_key)
    return lambda: ScramServer(kind, credentials, fakes, clock)


def _oauthbearer(settings: SaslSettings, clock: Clock, closers: list[Callable[[], None]]) -> Callable[[], SaslServer]:
    from barnabas.security.sasl.jwks import JsonWebKeys, RefreshPolicy
    from barnabas.security.sasl.jwt_validator import JwtRules, JwtValidator
    from barnabas.security.sasl.oauthbearer import OAuthBearerServer

    def number(name: str) -> int:
        return settings.number(f"sasl.oauthbearer.{name}", "OAUTHBEARER")

    def text(name: str) -> str | None:
        return settings.text(f"sasl.oauthbearer.{name}", "OAUTHBEARER")

    _warn_about_tokens(settings)
    keys = JsonWebKeys(
        text("jwks.endpoint.url") or "",
        RefreshPolicy(
            interval_ms=number("jwks.endpoint.refresh.ms"),
            backoff_ms=number("jwks.endpoint.retry.backoff.ms"),
            backoff_ms_max=number("jwks.endpoint.retry.backoff.max.ms"),
        ),
    )
    keys.start()
    closers.append(keys.close)
    rules = JwtRules(
        audiences=tuple(settings.texts("sasl.oauthbearer.expected.audience", "OAUTHBEARER")),
        issuer=text("expected.issuer"),
        clock_skew_s=number("clock.skew.seconds"),
        scope_claim=text("scope.claim.name") or "scope",
        subject_claim=text("sub.claim.name") or "sub",
    )
    validator = JwtValidator(keys, rules, clock)
    return lambda: OAuthBearerServer(validator)
