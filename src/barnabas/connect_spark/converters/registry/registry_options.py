"""The parsed settings of a converter with a registry, and the client that they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.clients.schema_registry.errors import SchemaError
from barnabas.clients.schema_registry.oauth_tokens import ClientCredentials, OauthTokens
from barnabas.clients.schema_registry.registry_client import RegistryAccess, SchemaRegistry, shown_url
from barnabas.clients.schema_registry.subject_names import SubjectNameStrategy
from barnabas.common.config_value import ConfigException, ConfigValue, Password
from barnabas.connect.decide.validation.converters_config import CONVERTER_TYPE, WITH_REGISTRY
from barnabas.connect.decide.validation.registry_settings import (
    AUTO_REGISTER,
    LATEST_STRICT,
    NORMALIZE,
    REGISTRY_TLS_PREFIX,
    REGISTRY_URL,
    USE_LATEST,
)
from barnabas.security.tls import TlsError, TlsSettings, client_context

if TYPE_CHECKING:
    import ssl

__all__ = ["RegistryOptions"]

_Values = Mapping[str, ConfigValue]


@dataclass(frozen=True)
class RegistryOptions:
    """How a converter uses its registry."""

    is_key: bool
    registers: bool
    uses_latest: bool
    is_strict: bool
    """Whether records must fit the latest schema as a whole."""
    normalizes: bool
    strategy: SubjectNameStrategy

    @classmethod
    def of(cls, java_class: str, settings: Mapping[str, str]) -> tuple[RegistryOptions, SchemaRegistry, _Values]:
        """Return the options, the client and all values. Raise ConfigException."""
        values = WITH_REGISTRY[java_class].parse({CONVERTER_TYPE: "value", **settings})
        is_key = values[CONVERTER_TYPE] == "key"
        side = "key" if is_key else "value"
        options = cls(
            is_key,
            registers=bool(values[AUTO_REGISTER]),
            uses_latest=bool(values[USE_LATEST]),
            is_strict=bool(values[LATEST_STRICT]),
            normalizes=bool(values[NORMALIZE]),
            strategy=SubjectNameStrategy.of(str(values[f"{side}.subject.name.strategy"])),
        )
        return options, _client(values), values


def _client(values: _Values) -> SchemaRegistry:
    urls = values[REGISTRY_URL]
    if not isinstance(urls, list) or not urls:
        raise ConfigException(REGISTRY_URL, "", "name at least one URL, as in http://localhost:8081")
    age_s = int(str(values["latest.cache.ttl.sec"]))
    access = RegistryAccess(
        user_info=_user_info(values),
        token=_token(values),
        headers=_headers(values),
        tls=_tls(values, urls),
        connect_timeout_s=_seconds(values["http.connect.timeout.ms"]),
        read_timeout_s=_seconds(values["http.read.timeout.ms"]),
        retries=int(str(values["max.retries"])),
        retry_wait_s=_seconds(values["retries.wait.ms"]),
        retry_wait_max_s=_seconds(values["retries.max.wait.ms"]),
        latest_max_age_s=None if age_s < 0 else float(age_s),
        cache_size=int(str(values["schemas.cache.config"])),
    )
    try:
        return SchemaRegistry(urls, access)
    except SchemaError as error:
        raise ConfigException(REGISTRY_URL, ", ".join(map(shown_url, urls)), str(error)) from None


def _seconds(value: ConfigValue) -> float:
    return int(str(value)) / 1000


def _text(value: ConfigValue) -> str:
    if isinstance(value, Password):
        return value.value or ""
    return "" if value is None else str(value)


def _user_info(values: _Values) -> str:
    source = _text(values["basic.auth.credentials.source"]).upper()
    given = _text(values["basic.auth.user.info"]) or _text(values["schema.registry.basic.auth.user.info"])
    if source != "USER_INFO":
        return ""
    if ":" not in given:
        raise ConfigException(
            "basic.auth.user.info", None, "set it to user:password, as basic.auth.credentials.source=USER_INFO needs"
        )
    return given


def _token(values: _Values) -> Callable[[], str] | None:
    source = _text(values["bearer.auth.credentials.source"]).upper()
    if not source:
        return None
    wanted = {
        "STATIC_TOKEN": ("bearer.auth.token",),
        "OAUTHBEARER": ("bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.client.secret"),
    }[source]
    for name in wanted:
        if not _text(values[name]):
            raise ConfigException(name, None, f"set it, as bearer.auth.credentials.source={source} needs")
    if source == "STATIC_TOKEN":
        token = _text(values["bearer.auth.token"])
        return lambda: token
    endpoint, client_id, secret = (_text(values[name]) for name in wanted)
    return OauthTokens(ClientCredentials(endpoint, client_id, secret, _text(values["bearer.auth.scope"])))


def _headers(values: _Values) -> dict[str, str]:
    named = {
        "target-sr-cluster": "bearer.auth.logical.cluster",
        "Confluent-Identity-Pool-Id": "bearer.auth.identity.pool.id",
    }
    return {header: _text(values[name]) for header, name in named.items() if _text(values[name])}


def _tls(values: _Values, urls: list[str]) -> ssl.SSLContext | None:
    if not any(url.startswith("https:") for url in urls):
        return None
    try:
        return client_context(TlsSettings.read(lambda name: values.get(REGISTRY_TLS_PREFIX + name)))
    except TlsError as error:
        raise ConfigException(REGISTRY_TLS_PREFIX + error.name, None, f"{error.what} {error.advice}".strip()) from None
