"""Tables and documents of ``barnabas configs describe``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.config_names import unknown_setting_advice
from barnabas.cli.arguments.config_resources import noun, resource_problems
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.progress import in_steps
from barnabas.cli.output.table import Sheet
from barnabas.clients.admin import ConfigSource

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, Config, ConfigEntry, ConfigResource

__all__ = ["described_answer"]

_RESOURCES_PER_STEP = 250
_HIDDEN = "(hidden)"


async def described_answer(
    admin: AdminClient,
    resources: Sequence[ConfigResource],
    *,
    names: Iterable[str] | None,
    with_defaults: bool,
    synonyms: bool,
    documentation: bool,
) -> Answer:
    wanted = None if names is None else list(names)
    found: list[Config] = []
    problems: list[Problem] = []
    for part in in_steps(resources, _RESOURCES_PER_STEP, "describing settings"):
        results = await admin.describe_configs(
            part, keys=wanted, include_synonyms=synonyms or documentation, include_documentation=documentation
        )
        found += results.values.values()
        problems += await resource_problems(admin, results.errors, "DESCRIBE_CONFIGS")
    rows = [(config, _entries(config, with_defaults)) for config in found]
    notes = [
        f"{noun(config.resource)} {config.resource.name or '(default)'} does not have the setting {name}; "
        + unknown_setting_advice(noun(config.resource), [name])
        for config, _ in rows
        for name in wanted or ()
        if name not in config.entries
    ]
    if not any(entries for _, entries in rows) and not problems and not notes:
        notes.append("all settings have their defaults (--all shows them)")
    document = {"configs": [_document(config, entries, synonyms, documentation) for config, entries in rows]}
    return Answer(document, _sheets(rows, synonyms, documentation), notes, problems)


def _entries(config: Config, with_defaults: bool) -> list[ConfigEntry]:
    """Return the settings that are configured on this kind of resource, or also defaults, sorted by name."""
    entries = sorted(config.entries.values(), key=lambda entry: entry.name)
    return entries if with_defaults else [entry for entry in entries if _is_set(entry, config)]


def _is_set(entry: ConfigEntry, config: Config) -> bool:
    static = (ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG)
    if noun(config.resource) == "topic":
        return entry.source == ConfigSource.TOPIC_CONFIG
    return entry.source not in static


def _sheets(rows: Sequence[tuple[Config, list[ConfigEntry]]], synonyms: bool, documentation: bool) -> list[Sheet]:
    sheets = []
    columns = ["setting", "value", "source"]
    columns += ["synonyms"] if synonyms else []
    columns += ["documentation"] if documentation else []
    for config, entries in rows:
        if not entries:
            continue
        sheet = Sheet(f"{noun(config.resource)} {config.resource.name or '(default)'}", columns)
        for entry in entries:
            cells = [entry.name, _value(entry), _source(entry.source)]
            if synonyms:
                cells.append(
                    ", ".join(
                        f"{_source(s.source)}:{s.name}={_HIDDEN if entry.is_sensitive else s.value or ''}"
                        for s in entry.synonyms
                    )
                )
            if documentation:
                cells.append(entry.documentation or "")
            sheet.add(*cells)
        sheets.append(sheet)
    return sheets


def _value(entry: ConfigEntry) -> str:
    return _HIDDEN if entry.is_sensitive else entry.value or ""


def _source(source: Any) -> str:
    """Format a source: ``dynamic broker`` for DYNAMIC_BROKER_CONFIG."""
    return str(source.name).removesuffix("_CONFIG").replace("_", " ").lower()


def _document(config: Config, entries: Sequence[ConfigEntry], synonyms: bool, documentation: bool) -> dict[str, Any]:
    return {
        "type": noun(config.resource),
        "name": config.resource.name,
        "entries": [
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name,
                "sensitive": entry.is_sensitive,
                "read_only": entry.is_read_only,
                "type": None if entry.type is None else entry.type.name,
            }
            | (
                {"synonyms": [{"name": s.name, "value": s.value, "source": s.source.name} for s in entry.synonyms]}
                if synonyms
                else {}
            )
            | ({"documentation": entry.documentation} if documentation else {})
            for entry in entries
        ],
    }
