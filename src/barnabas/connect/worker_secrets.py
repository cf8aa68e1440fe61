"""What connectors say when they fail, without the secrets that their settings refer to (KIP-297)."""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from barnabas.common.config_providers import ConfigProviders
from barnabas.connect.herder.effects import ConfigMap
from barnabas.connect.plugins.config_references import resolve_references

__all__ = ["hide_secrets", "resolve_config", "trace_of"]


def resolve_config(config: ConfigMap, providers: ConfigProviders) -> dict[str, str]:
    """With what the references refer to; settings without a value are left out. Raises ConnectError."""
    return resolve_references({name: text for name, text in config.items() if text is not None}, providers)


def hide_secrets(text: str, raw: ConfigMap, resolved: Mapping[str, str]) -> str:
    """A trace may quote a setting."""
    for name, secret in resolved.items():
        if secret and secret != raw.get(name):
            text = text.replace(secret, "[hidden]")
    return text


def trace_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
