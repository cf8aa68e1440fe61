"""``barnabas configs explain``: read settings from a cluster, and show the explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.access.config_explanation import (
    ConfigExplanation,
    broker_settings_behind,
    explain_broker_setting,
    explain_group_setting,
    explain_topic_setting,
    levels_of,
    reason,
)
from barnabas.cli.arguments.config_names import unknown_setting_advice
from barnabas.cli.arguments.config_resources import noun, right_to
from barnabas.cli.output.advice import problem_of
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.table import Sheet
from barnabas.clients.admin import ConfigResource
from barnabas.metadata.config_resolution import BrokerLevels, ConfigEntry, ConfigSource, ConfigSynonym

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, Config, ConfigResource
    from barnabas.clients.admin import ConfigEntry as Described

__all__ = ["explained_answer"]

_HIDDEN = "(hidden)"
_EXPLAINED = {"topic": explain_topic_setting, "group": explain_group_setting}


async def explained_answer(admin: AdminClient, resources: Sequence[ConfigResource], settings: Sequence[str]) -> Answer:
    """Explain each setting of each resource; without ``settings``, the configured ones."""
    found = await admin.describe_configs(resources, keys=list(settings) or None, include_synonyms=True)
    problems = [
        problem_of(error, right=right_to("DESCRIBE_CONFIGS", resource)) for resource, error in found.errors.items()
    ]
    configs = list(found.values.values())
    levels, more = await _levels_of_nodes(admin, configs)
    rows: list[tuple[Config, ConfigExplanation]] = []
    notes = []
    for config in configs:
        chosen = settings or sorted(entry.name for entry in config.entries.values() if not entry.is_default)
        for setting in chosen:
            if setting not in config.entries:
                kind = noun(config.resource)
                notes.append(f"{setting} is not a setting of a {kind}; {unknown_setting_advice(kind, [setting])}")
                continue
            rows.append((config, _explained(config, config.entries[setting], levels)))
    notes += [
        f"{_title(config)}: nodes return different values of {explanation.setting}, because their files differ"
        for config, explanation in rows
        if not explanation.nodes_agree
    ]
    if not rows and not notes and not problems:
        notes.append("all settings have their defaults (--config shows one setting)")
    document = {"explanations": [_document(config, explanation) for config, explanation in rows]}
    return Answer(document, [_sheet(config, explanation) for config, explanation in rows], notes, problems + more)


async def _levels_of_nodes(
    admin: AdminClient, configs: Sequence[Config]
) -> tuple[dict[int, BrokerLevels], list[Problem]]:
    """Return each node's broker settings that are defaults of topics' and groups' settings; empty if none are."""
    behind = [
        name
        for config in configs
        if noun(config.resource) in _EXPLAINED
        for setting in config.entries
        for name in broker_settings_behind(setting)
    ]
    if not behind:
        return {}, []
    nodes = [node.id for node in (await admin.describe_cluster()).nodes]
    found = await admin.describe_configs(
        [ConfigResource.broker(node) for node in nodes], keys=list(dict.fromkeys(behind)), include_synonyms=True
    )
    problems = [
        problem_of(error, right=right_to("DESCRIBE_CONFIGS", resource)) for resource, error in found.errors.items()
    ]
    levels = {
        int(resource.name): levels_of(synonym for entry in config.entries.values() for synonym in _synonyms(entry))
        for resource, config in found.values.items()
    }
    return levels, problems


def _explained(config: Config, entry: Described, nodes: dict[int, BrokerLevels]) -> ConfigExplanation:
    explain = _EXPLAINED.get(noun(config.resource))
    if explain is not None and nodes:
        own = (ConfigSource.TOPIC_CONFIG, ConfigSource.GROUP_CONFIG)
        overrides = {entry.name: entry.value or ""} if ConfigSource(int(entry.source)) in own else {}
        explanation = explain(entry.name, overrides, nodes)
        if explanation is not None:
            return explanation
    resolved = ConfigEntry(
        entry.name,
        entry.value,
        ConfigSource(int(entry.source)),
        0,
        entry.is_sensitive,
        entry.is_read_only,
        _synonyms(entry),
    )
    return explain_broker_setting(int(config.resource.name) if config.resource.name.isdecimal() else -1, resolved)


def _synonyms(entry: Described) -> list[ConfigSynonym]:
    return [ConfigSynonym(synonym.name, synonym.value, ConfigSource(int(synonym.source))) for synonym in entry.synonyms]


def _title(config: Config) -> str:
    return f"{noun(config.resource)} {config.resource.name or '(default)'}"


def _sheet(config: Config, explanation: ConfigExplanation) -> Sheet:
    sheet = Sheet(f"{explanation.setting} of {_title(config)}", ["node", "value", "because", "otherwise"], keep=3)
    for answer in explanation.answers:
        behind = [
            f"{_HIDDEN if answer.sensitive else synonym.value} ({reason(synonym)})" for synonym in answer.chain[1:]
        ]
        node = str(answer.node_id) if answer.node_id >= 0 else ""
        sheet.add(node, _HIDDEN if answer.sensitive else answer.value or "", answer.because, "; then ".join(behind))
    return sheet


def _document(config: Config, explanation: ConfigExplanation) -> dict[str, Any]:
    return {
        "type": noun(config.resource),
        "name": config.resource.name,
        "setting": explanation.setting,
        "nodes_agree": explanation.nodes_agree,
        "nodes": [
            {
                "node": None if answer.node_id < 0 else answer.node_id,
                "value": answer.value,
                "source": answer.source.name,
                "chain": [{"name": s.name, "value": s.value, "source": s.source.name} for s in answer.chain],
            }
            for answer in explanation.answers
        ],
    }
