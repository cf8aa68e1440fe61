"""Resolve references in the settings of connectors (KIP-297), and hide their values in the worker's output: traces,
plans, responses and its log.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace

from barnabas.common.config_providers import ConfigProviders
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.decide.tasks.task_progress import QueryPlan, TaskInsight, TaskProgress
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.redaction import names_a_class, without
from barnabas.connect.run.config_references import resolve_references

__all__ = ["InsightWithoutSecrets", "KnownSecrets", "LinesWithoutSecrets", "hide_secrets", "trace_of"]

_OWN_LENGTH_MIN = 4
_LENGTH_MIN = 6
"""A shorter text ("1", "true") also occurs where it is not a secret. A connector's own traces may hide more than those
of others and the log."""


class KnownSecrets:
    """The values of references since the worker started. Thread-safe."""

    def __init__(self, providers: ConfigProviders) -> None:
        self._providers = providers
        self._texts: tuple[str, ...] = ()

    def resolve(self, config: ConfigMap) -> dict[str, str]:
        """Return the settings with references resolved; settings without a value are omitted. Raise ConnectError."""
        given: list[str] = []
        written = {name: text for name, text in config.items() if text is not None}
        classes = {name: text for name, text in written.items() if names_a_class(name)}
        others = {name: text for name, text in written.items() if name not in classes}
        resolved = resolve_references(classes, self._providers) | resolve_references(others, self._providers, given)
        self.add(given)
        return {name: resolved[name] for name in written}

    def add(self, given: list[str]) -> None:
        known = {*self._texts}
        for secret in (form for text in given for form in (text, text.strip())):
            if len(secret) >= _LENGTH_MIN:
                known |= {secret, json.dumps(secret)[1:-1]}
        self._texts = tuple(sorted(known, key=len, reverse=True))  # One may be a part of another.

    def hide(self, text: str) -> str:
        return without(text, self._texts)


class LinesWithoutSecrets(logging.Formatter):
    """Wraps a formatter and removes secrets: a library's log or trace may quote anything."""

    def __init__(self, inner: logging.Formatter, hide: Callable[[str], str]) -> None:
        super().__init__()
        self._inner = inner
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(self._inner.format(record))


class InsightWithoutSecrets:
    """A TaskInsight without secrets."""

    def __init__(self, inner: TaskInsight, hide: Callable[[str], str]) -> None:
        self._inner = inner
        self._hide = hide

    def task_progress(self, task: ConnectorTaskId) -> TaskProgress | None:
        return self._inner.task_progress(task)

    async def query_plan(self, task: ConnectorTaskId) -> QueryPlan | None:
        found = await self._inner.query_plan(task)
        if found is None:
            return None
        return replace(found, plan=self._hide(found.plan), progress=self._hide(found.progress))


def hide_secrets(text: str, raw: ConfigMap, resolved: Mapping[str, str]) -> str:
    """Hide secrets, because a trace may quote a setting."""
    secrets = {
        secret
        for name, secret in resolved.items()
        if len(secret) >= _OWN_LENGTH_MIN and secret != raw.get(name) and not names_a_class(name)
    }
    return without(text, sorted(secrets, key=len, reverse=True))


def trace_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
