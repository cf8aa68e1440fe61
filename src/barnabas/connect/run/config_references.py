"""References to secrets in the settings of connectors (KIP-297): resolved to run, never written.

The config topic has ``${provider:path:key}``. Connectors and tasks receive the provider's value. Task configs that a
connector returns contain the secrets, so they are replaced by references before task configs are published; the worker
that starts a task resolves them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.common.config_providers import ConfigProviders, UnresolvedReference, has_reference
from barnabas.connect.errors import ConnectError

__all__ = ["resolve_references", "restore_references"]


def resolve_references(
    config: Mapping[str, str], providers: ConfigProviders, given: list[str] | None = None
) -> dict[str, str]:
    """Resolve references; ``given`` receives their values. May read files.

    Raise ConnectError, which names the setting but not its value.
    """
    resolved: dict[str, str] = {}
    for name, text in config.items():
        try:
            resolved[name] = providers.resolve(text, given) if has_reference(text) else text
        except UnresolvedReference as error:
            raise ConnectError(f"Could not resolve {name}: {error}") from error
    return resolved


def restore_references(
    connector_config: Mapping[str, str | None], task_configs: Sequence[Mapping[str, str]], providers: ConfigProviders
) -> list[dict[str, str]]:
    """Return task configs in the form for publication. ``connector_config`` is as it was written.

    A setting that the connector passed on under its name becomes its reference again, as in Kafka. If another setting
    has the secret, also as part of a longer text, each occurrence of the value is replaced, if it can be recognised.
    """
    written = {name: text for name, text in connector_config.items() if text is not None and has_reference(text)}
    secrets: dict[str, str] = {}
    for text in written.values():
        try:
            value = providers.resolve(text)
        except UnresolvedReference:
            continue
        if len(value) >= _SECRET_LENGTH_MIN and value != text:
            secrets[value] = text
    # The longest first, so that a secret inside another one does not break it.
    ordered = sorted(secrets, key=len, reverse=True)
    return [
        {name: written[name] if name in written else _hidden(text, ordered, secrets) for name, text in config.items()}
        for config in task_configs
    ]


_SECRET_LENGTH_MIN = 6
"""A shorter value ("1", "true") would match unrelated texts."""


def _hidden(text: str, ordered: Sequence[str], secrets: Mapping[str, str]) -> str:
    for value in ordered:
        text = text.replace(value, secrets[value])
    return text
