"""Creates the TLS and the principal builder of a listener from the node's settings, and reports every error.

``load_node_config`` calls ``tls_problems`` before anything is written: it opens stores, compares keys with
certificates, and parses rules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from barnabas.security.principal_builder import (
    KAFKA_DEFAULT_BUILDER,
    DefaultPrincipalBuilder,
    PrincipalBuilder,
    missing_methods,
)
from barnabas.security.ssl_principal_mapper import InvalidMappingRule, SslPrincipalMapper
from barnabas.security.tls_settings import TlsError, TlsSettings
from barnabas.server.settings.listener_values import listener_setting_name, listener_value
from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.common.config_def import ConfigValue
    from barnabas.security.tls import ServerTls
    from barnabas.server.settings.listener_values import GivenSettings

__all__ = ["TlsProblem", "principal_builder_of", "server_tls_of", "tls_problems", "tls_settings_of"]

_CLIENT_AUTH = "ssl.client.auth"
_SHOWN_TO_BUILDERS = ("ssl.principal.mapping.rules", "sasl.kerberos.principal.to.local.rules", _CLIENT_AUTH)


class TlsProblem(NodeStartError):
    """An unusable setting, as it was given (perhaps for one listener), and the reason.

    If it is raised while the node opens a listener, a store was changed since its settings were checked.
    """

    def __init__(self, name: str, what: str, advice: str) -> None:
        super().__init__(f"{name}: {what}" + (f" -> {advice}" if advice else ""))
        self.name = name
        self.what = what
        self.advice = advice


def tls_settings_of(config: GivenSettings, listener: str, protocol: str = "SSL") -> TlsSettings:
    """Return the settings. As in Kafka, ``ssl.client.auth`` applies to SASL_SSL only if set for that listener."""
    settings = TlsSettings.read(_lookup(config, listener))
    if protocol == "SASL_SSL" and listener_setting_name(config, listener, _CLIENT_AUTH) == _CLIENT_AUTH:
        settings.client_auth = "none"
    return settings


def server_tls_of(config: GivenSettings, listener: str, protocol: str = "SSL") -> ServerTls:
    """Create the TLS of a listener. Raise TlsProblem for unusable settings."""
    from barnabas.security.tls import ServerTls  # Loads OpenSSL and cryptography.

    value = _lookup(config, listener)
    try:
        return ServerTls(
            listener,
            tls_settings_of(config, listener, protocol),
            name_may_change=bool(value("ssl.allow.dn.changes")),
            alternative_names_may_change=bool(value("ssl.allow.san.changes")),
        )
    except TlsError as error:
        raise _problem(config, listener, error) from None


def principal_builder_of(config: GivenSettings, listener: str) -> PrincipalBuilder:
    """Create the principal builder of a listener. Raise TlsProblem for unusable settings."""
    value = _lookup(config, listener)
    class_name = str(value("principal.builder.class"))
    if class_name == KAFKA_DEFAULT_BUILDER:
        try:
            return DefaultPrincipalBuilder(SslPrincipalMapper(str(value("ssl.principal.mapping.rules"))))
        except InvalidMappingRule as error:
            name = listener_setting_name(config, listener, "ssl.principal.mapping.rules")
            raise TlsProblem(name, str(error), "write DEFAULT or RULE:expression/replacement/[L|U]") from None
    return _custom_builder(config, listener, class_name)


def tls_problems(config: GivenSettings, listener: str, protocol: str) -> tuple[list[TlsProblem], list[str]]:
    """Return the errors in a listener's settings, and warnings for its operator."""
    problems, notes = [], []
    if protocol in ("SSL", "SASL_SSL"):
        from barnabas.security.tls import server_mistakes

        settings = tls_settings_of(config, listener, protocol)
        mistakes = server_mistakes(settings)
        problems += [_problem(config, listener, mistake) for mistake in mistakes]
        if not mistakes:
            notes += server_tls_of(config, listener, protocol).warnings
        if settings.client_auth == "none" != listener_value(config, listener, _CLIENT_AUTH):
            notes.append(
                f"{_CLIENT_AUTH} is for SSL listeners and not for {listener}, which is SASL_SSL; "
                f"set listener.name.{listener.lower()}.{_CLIENT_AUTH} if its clients need certificates too"
            )
    try:
        principal_builder_of(config, listener)
    except TlsProblem as problem:
        problems.append(problem)
    return problems, notes


def _problem(config: GivenSettings, listener: str, error: TlsError) -> TlsProblem:
    return TlsProblem(listener_setting_name(config, listener, error.name), error.what, error.advice)


def _custom_builder(config: GivenSettings, listener: str, class_name: str) -> PrincipalBuilder:
    name = listener_setting_name(config, listener, "principal.builder.class")
    module_name, colon, attribute = class_name.partition(":")
    if not colon:
        raise TlsProblem(
            name, f"{class_name} is a Java class", f"write module:Class of a Python class, or {KAFKA_DEFAULT_BUILDER}"
        )
    try:
        builder_class = getattr(import_module(module_name), attribute)
    except Exception as error:  # Importing a user's module may raise anything.
        raise TlsProblem(
            name, f"{class_name} can't be loaded: {type(error).__name__}: {error}", "is it on PYTHONPATH?"
        ) from error
    missing = missing_methods(builder_class) if isinstance(builder_class, type) else ["build"]
    if missing:
        raise TlsProblem(
            name,
            f"{class_name} lacks {', '.join(missing)}",
            "derive it from barnabas.security.principal_builder.DefaultPrincipalBuilder, which has a serde",
        )
    try:
        builder: Any = builder_class()
        if hasattr(builder, "configure"):
            builder.configure({name: listener_value(config, listener, name) for name in _SHOWN_TO_BUILDERS})
    except Exception as error:
        raise TlsProblem(name, f"{class_name} can't be created: {type(error).__name__}: {error}", "") from error
    made: PrincipalBuilder = builder
    return made


def _lookup(config: GivenSettings, listener: str) -> Callable[[str], ConfigValue]:
    return lambda name: listener_value(config, listener, name)
