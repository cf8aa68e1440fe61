"""The settings of the REST API, read from a worker's properties into typed values.

All errors are reported before a socket is opened, each with its name, its value and the allowed values.
As in Kafka, ``listeners.https.*`` replace all of ``ssl.*`` as soon as one of them is set; the same settings apply to
the client for other workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.connect.rest.cross_origin import CrossOriginRules
from barnabas.connect.rest.internal_request_check import RequireFreshness
from barnabas.connect.rest.request_body import BodyLimits
from barnabas.connect.rest.response_headers import HeaderRule, UnusableHeaderRule, parse_header_rules
from barnabas.connect.rest.roles import Role, RoleTable
from barnabas.connect.settings.listener_urls import Listener, UnusableListener, advertised_listener, parse_listeners
from barnabas.connect.settings.worker_settings import WORKER_CONFIG_DEF
from barnabas.security.tls_settings import TLS_SETTINGS, TlsSettings

__all__ = ["AuthenticationSettings", "RestSettings", "UnusableRestSetting"]

_WAYS = ("basic", "jwt", "mtls")
_TLS_WITH_DEFAULT = ("ssl.enabled.protocols", "ssl.endpoint.identification.algorithm")
_HTTPS_PREFIX, _ADMIN_HTTPS_PREFIX = "listeners.https.", "admin.listeners.https."


class UnusableRestSetting(ValueError):
    """An invalid setting. The text names the setting, its value and the allowed values."""


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """``ways`` is empty where all clients may do everything."""

    ways: frozenset[str] = frozenset()
    users_file: str | None = None
    jwt_keys: str | None = None
    jwt_issuer: str | None = None
    jwt_audiences: tuple[str, ...] = ()
    jwt_algorithms: frozenset[str] = frozenset(("RS256", "ES256"))
    jwt_user_claim: str = "sub"
    jwt_roles_claim: str = "roles"
    mtls_rules: str = "DEFAULT"
    roles: RoleTable = field(default_factory=lambda: RoleTable({}))
    prefix: str = "barnabas.connect."
    """The beginning of the settings' names, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """``admin_listeners`` is None if /admin is served with the rest, and empty if it is not served."""

    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    tls: TlsSettings
    admin_tls: TlsSettings
    advertised_scheme: str | None
    advertised_host: str | None
    advertised_port: int | None
    cross_origin: CrossOriginRules
    header_rules: tuple[HeaderRule, ...]
    authentication: AuthenticationSettings
    is_insecure_allowed: bool
    request_wait_s: float
    require_freshness: RequireFreshness
    freshness_age_ms_max: int
    signature_algorithm: str
    verification_algorithms: tuple[str, ...]
    body_limits: BodyLimits
    is_topic_tracking_enabled: bool
    may_topic_tracking_be_reset: bool

    @classmethod
    def read(cls, properties: Mapping[str, str]) -> RestSettings:
        """Parse the settings. Raise UnusableRestSetting."""
        reader = _Reader(properties)
        try:
            listeners = parse_listeners("listeners", reader.texts("listeners"))
            admin = properties.get("admin.listeners")
            admin_listeners = None if admin is None else parse_listeners("admin.listeners", _list(admin))
            header_rules = parse_header_rules(reader.text("response.http.headers.config") or "")
            scheme = reader.text("rest.advertised.listener")
            if not listeners:
                raise UnusableRestSetting("listeners is empty; write at least one, such as http://localhost:8083")
            advertised_listener(listeners, scheme)
        except (UnusableListener, UnusableHeaderRule) as error:
            raise UnusableRestSetting(str(error)) from None
        return cls(
            listeners=listeners,
            admin_listeners=admin_listeners,
            tls=reader.tls(_HTTPS_PREFIX),
            admin_tls=reader.tls(_ADMIN_HTTPS_PREFIX),
            advertised_scheme=scheme,
            advertised_host=reader.text("rest.advertised.host.name"),
            advertised_port=reader.number("rest.advertised.port", most=65535) or None,
            cross_origin=CrossOriginRules.of(
                reader.texts("access.control.allow.origin"), reader.texts("access.control.allow.methods")
            ),
            header_rules=header_rules,
            authentication=_authentication(reader),
            is_insecure_allowed=reader.truth("barnabas.connect.insecure"),
            request_wait_s=reader.number("barnabas.connect.request.wait.ms") / 1000,
            require_freshness=RequireFreshness(
                reader.word("barnabas.connect.require.fresh.signatures", ("auto", "true", "false"))
            ),
            freshness_age_ms_max=reader.number("barnabas.connect.fresh.signature.max.age.ms", least=1),
            signature_algorithm=reader.text("inter.worker.signature.algorithm") or "",
            verification_algorithms=reader.texts("inter.worker.verification.algorithms"),
            body_limits=_body_limits(reader),
            is_topic_tracking_enabled=reader.truth("topic.tracking.enable"),
            may_topic_tracking_be_reset=reader.truth("topic.tracking.allow.reset"),
        )

    @property
    def all_listeners(self) -> tuple[Listener, ...]:
        return (*self.listeners, *(self.admin_listeners or ()))

    @property
    def advertised(self) -> Listener:
        return advertised_listener(self.listeners, self.advertised_scheme)


def _body_limits(reader: _Reader) -> BodyLimits:
    limits = BodyLimits(
        reader.number("barnabas.connect.request.max.bytes", least=1024),
        reader.number("barnabas.connect.anonymous.request.max.bytes", least=1024),
        reader.number("barnabas.connect.request.memory.max.bytes", least=1024),
    )
    if limits.memory_bytes_max < 2 * limits.bytes_max:
        raise UnusableRestSetting(
            f"barnabas.connect.request.memory.max.bytes is {limits.memory_bytes_max}; it must be at least twice "
            f"barnabas.connect.request.max.bytes, {limits.bytes_max}"
        )
    return limits


def _authentication(reader: _Reader) -> AuthenticationSettings:
    setting = "barnabas.connect.authentication"
    words = [word.lower() for word in reader.texts(setting)]
    unknown = [word for word in words if word not in ("none", *_WAYS)]
    if unknown or ("none" in words and len(words) > 1):
        raise UnusableRestSetting(f"{setting} is {','.join(words)}; it must be none, or any of {', '.join(_WAYS)}")
    audience = reader.text("barnabas.connect.jwt.audience")
    return AuthenticationSettings(
        ways=frozenset(words) - {"none"},
        users_file=reader.text("barnabas.connect.users.file"),
        jwt_keys=reader.text("barnabas.connect.jwt.keys.file"),
        jwt_issuer=reader.text("barnabas.connect.jwt.issuer"),
        jwt_audiences=() if audience is None else _list(audience),
        jwt_algorithms=frozenset(reader.texts("barnabas.connect.jwt.algorithms")),
        jwt_user_claim=reader.text("barnabas.connect.jwt.user.claim") or "",
        jwt_roles_claim=reader.text("barnabas.connect.jwt.roles.claim") or "",
        mtls_rules=reader.text("barnabas.connect.mtls.principal.mapping.rules") or "",
        roles=RoleTable({role: frozenset(reader.texts(f"barnabas.connect.roles.{role.text}")) for role in Role}),
    )


class _Reader:
    """Properties, with the defaults of a worker's settings."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def text(self, name: str) -> str | None:
        return self._properties.get(name, "").strip() or WORKER_CONFIG_DEF[name].default_text or None

    def texts(self, name: str) -> tuple[str, ...]:
        return _list(self._properties.get(name, WORKER_CONFIG_DEF[name].default_text or ""))

    def truth(self, name: str) -> bool:
        return self.word(name, ("true", "false")) == "true"

    def word(self, name: str, allowed: tuple[str, ...]) -> str:
        word = (self.text(name) or "").lower()
        if word not in allowed:
            raise UnusableRestSetting(f"{name} is {word}; it must be one of {', '.join(allowed)}")
        return word

    def number(self, name: str, *, least: int = 0, most: int = 2**31 - 1) -> int:
        """Return the number; 0 without a value and a default."""
        text = self.text(name)
        if text is None:
            return 0
        if not text.isascii() or not text.isdigit() or len(text) > 10 or not least <= int(text) <= most:
            raise UnusableRestSetting(f"{name} is {text}; it must be a number from {least} to {most}")
        return int(text)

    def tls(self, prefix: str) -> TlsSettings:
        used = prefix if any(name.startswith(prefix) for name in self._properties) else ""
        defaults = {name: WORKER_CONFIG_DEF[name].default_text for name in _TLS_WITH_DEFAULT}
        values = {name: self._properties.get(used + name, defaults.get(name)) for name in TLS_SETTINGS}
        if values["ssl.client.auth"] not in (None, "", "none", "requested", "required"):
            raise UnusableRestSetting(
                f"{used}ssl.client.auth is {values['ssl.client.auth']}; it must be none, requested or required"
            )
        return TlsSettings.read(values.__getitem__)


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())
