"""The configuration of a node from ``server.properties`` and ``--override``s, checked before anything is written.

``load_node_config`` returns a NodeConfig or raises InvalidSettings with *every* unusable setting: its name and value,
its source, the error, the allowed values and advice. Unknown names are refused too: a typo that is silently ignored
costs more than a start that fails. Without a file, defaults for one node on localhost apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.common.broker_config import BROKER_CONFIG_DEF, broker_config_key, topic_defaults
from barnabas.common.config_def import ConfigException, ConfigValue, Setting
from barnabas.common.properties_file import MalformedProperties, read_properties_file
from barnabas.common.settings.node_settings import NodeSettings
from barnabas.common.settings.problem import InvalidSettings, SettingProblem
from barnabas.common.settings.setting import SupportState
from barnabas.common.topic_config import TopicConfig
from barnabas.server.settings.endpoints import Endpoint, QuorumVoter
from barnabas.server.settings.node_rules import check_rules, derive
from barnabas.server.settings.problem import Given, node_problem
from barnabas.server.settings.support import removed_setting, support_of

if TYPE_CHECKING:
    from barnabas.common.config_providers import ConfigProviders

__all__ = [
    "FILELESS_SETTINGS",
    "Given",
    "InvalidSettings",
    "NodeConfig",
    "SettingProblem",
    "load_node_config",
    "node_config_of",
]

# The settings of a node without a file: broker and controller on this machine, with data below the current folder.
FILELESS_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "log.dirs": "barnabas-data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "barnabas.auto.format": "true",
}


_DYNAMIC_VALUE_USED = "The dynamic value is used instead, as long as it is set"
# Names that appear in Kafka's documents (KIP-133), but that Kafka never had.
_ALIASES = {"alter.configs.policy.class.name": "alter.config.policy.class.name"}

_OF_A_PROVIDER = "config.providers."


class NodeConfig(NodeSettings):
    """A node's settings, typed. ``value`` returns any setting; the attributes here are derived from several."""

    source: str | None
    """The path of the file; None without a file."""
    static: dict[str, str]
    """The text of every setting that was given. Describe calls show it as the static broker config."""
    warnings: list[str]
    """Warnings for the operator, one line each."""
    values: dict[str, ConfigValue]
    """The typed value of every setting that was given."""
    config_providers: ConfigProviders | None
    """The providers that the file names. References to them are resolved already."""
    broker_listeners: list[Endpoint]
    controller_listeners: list[Endpoint]
    advertised_broker_listeners: list[Endpoint]
    """The advertised addresses. A host may be empty if the listener's is: it means the machine's own name."""
    advertised_controller_listeners: list[Endpoint]
    first_controller_listener: str
    """The listener of the quorum, by which controllers and brokers find the controllers."""
    controller_security_protocol: str
    """The security protocol of that listener."""
    quorum_voters: list[QuorumVoter]
    quorum_bootstrap_servers: list[QuorumVoter]
    metrics_endpoint: tuple[str, int] | None
    topic_defaults: TopicConfig

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    def value(self, name: str) -> ConfigValue:
        """Return the typed value of any known setting: the given value, else the default."""
        return self.values[name] if name in self.values else BROKER_CONFIG_DEF[name].default


def load_node_config(path: str | None, overrides: Sequence[str] = ()) -> NodeConfig:
    """Read the file (if any), apply ``key=value`` overrides, and check everything.

    Raise InvalidSettings, or OSError when the file can't be read.
    """
    given: dict[str, Given] = {}
    problems: list[SettingProblem] = []
    warnings: list[str] = []
    if path is None:
        given.update((name, Given(text, "default without a file")) for name, text in FILELESS_SETTINGS.items())
    else:
        try:
            properties = read_properties_file(path)
        except MalformedProperties as error:
            raise InvalidSettings([node_problem(path, None, str(error))]) from None
        warnings += [f"{path}: {warning}" for warning in properties.warnings]
        for name, text in properties.values.items():
            given[name] = Given(text, f"{path} line {properties.lines[name]}")
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            end = next((at for at, c in enumerate(override) if not (c.isalnum() or c in "._-")), len(override))
            shown = override[:end] or "--override"  # What follows the name may be a secret.
            problems.append(node_problem(shown, None, "is not of the form key=value", "write --override key=value"))
            continue
        given[name.strip()] = Given(text.strip(), "--override")
    providers = _resolve_references(given, problems, warnings)
    if path is None and given["listeners"].where == "--override" and _untouched(given):
        del given["controller.quorum.bootstrap.servers"]  # It would name the default's port; the listener knows better.
    try:
        return node_config_of(given, source=path, warnings=warnings, problems=problems, providers=providers)
    except InvalidSettings as refused:
        from barnabas.server.settings.stored_dynamic_configs import in_place_of  # Loaded only if problems exist.

        stored = in_place_of(refused.problems, given)
        if not stored:
            raise
        warnings += [f"{problem}. {_DYNAMIC_VALUE_USED}" for problem in refused.problems if problem.name in stored]
        return node_config_of(
            {**given, **stored},
            source=path,
            warnings=warnings,
            problems=[problem for problem in problems if problem.name not in stored],
            providers=providers,
        )


def node_config_of(
    given: Mapping[str, Given],
    *,
    source: str | None = None,
    warnings: Sequence[str] = (),
    problems: Sequence[SettingProblem] = (),
    providers: ConfigProviders | None = None,
) -> NodeConfig:
    """Check settings that were read already. Raise InvalidSettings with all errors."""
    found = list(problems)
    notes = list(warnings)
    given = _without_aliases(given, notes, found)
    values: dict[str, ConfigValue] = {}
    bad = {problem.name for problem in found}
    for name, text in given.items():
        if name in bad or (name.startswith(_OF_A_PROVIDER) and "config.providers" in given):
            continue
        problem = _check_one(name, text, values, notes)
        if problem is not None:
            found.append(problem)
            bad.add(name)
    found += check_rules(values, given, bad, notes=notes, fileless=source is None)
    if found:
        raise InvalidSettings(found)
    config = NodeConfig()
    config.source = source
    config.static = {name: found.text for name, found in given.items()}
    config.values = values
    config.config_providers = providers
    config.warnings = notes
    config.topic_defaults = topic_defaults(values)
    derive(config)
    return config


def _resolve_references(
    given: dict[str, Given], problems: list[SettingProblem], warnings: list[str]
) -> ConfigProviders | None:
    """Replace references by the values of config providers."""
    if "config.providers" not in given:
        return None
    from barnabas.common.config_providers import ConfigProviders, UnresolvedReference, has_reference

    providers = ConfigProviders({name: found.text for name, found in given.items()})
    problems += [node_problem(name, given.get(name), what) for name, what in providers.problems.items()]
    for name, text in given.items():
        if name.startswith("config.providers") or not has_reference(text.text):
            continue
        warnings += [
            f"{name} refers to a provider {provider!r} that config.providers does not name; the text is used unchanged"
            for provider in providers.unnamed(text.text)
        ]
        try:
            given[name] = Given(providers.resolve(text.text), text.where)
        except UnresolvedReference as error:
            problems.append(
                node_problem(name, text, str(error), "add the key to the provider's source, or write the value itself")
            )
    return providers


def _without_aliases(given: Mapping[str, Given], notes: list[str], found: list[SettingProblem]) -> Mapping[str, Given]:
    """Return the settings with aliases replaced by the correct names."""
    renamed = dict(given)
    for alias, name in _ALIASES.items():
        if alias not in given:
            continue
        value = renamed.pop(alias)
        if name in given:
            found.append(node_problem(alias, value, f"{name} is set too", f"keep only {name}"))
        else:
            renamed[name] = value
            notes.append(f"{alias} is treated as {name}, its correct name")
    return renamed


def _untouched(given: Mapping[str, Given]) -> bool:
    servers = given.get("controller.quorum.bootstrap.servers")
    return servers is not None and servers.where != "--override"


def _check_one(name: str, given: Given, values: dict[str, ConfigValue], notes: list[str]) -> SettingProblem | None:
    """Put the setting's value into ``values``, or return the problem with it."""
    key = broker_config_key(name)
    if key is None or (name not in BROKER_CONFIG_DEF and not name.startswith("listener.name.")):
        return _unknown(name, given)
    support = support_of(name)
    try:
        value = key.parse(given.text)
    except ConfigException as error:
        reason = error.reason or "is not allowed"
        allowed = str(key.validator) if key.validator is not None else ""
        return node_problem(name, given, reason, f"its type is {key.type.name}" + (allowed and f", allowed: {allowed}"))
    if support.state is SupportState.REFUSED and not _is_allowed(key, value, support.also_allowed, name):
        default = "no value" if key.default in (None, "", []) else f"{key.default_text}"
        allowed = " or ".join(f"'{text}'" for text in support.also_allowed)
        return node_problem(
            name,
            given,
            support.reason,
            f"remove it; allowed is its default ({default})" + (allowed and f", or {allowed}"),
        )
    if support.state is SupportState.NO_EFFECT and value != key.default:
        notes.append(f"{name} has no effect here. {support.reason}")
    values[name] = value
    return None


def _is_allowed(key: Setting, value: ConfigValue, also_allowed: Sequence[str], name: str) -> bool:
    if name != key.name and not key.name.startswith("ssl."):
        return False  # The form for one listener has no default, unless each listener has one.
    return value == key.default or any(value == key.parse(text) for text in also_allowed)


def _unknown(name: str, given: Given) -> SettingProblem:
    removed = removed_setting(name)
    if removed is not None:
        what, _, advice = removed.partition("; ")
        return node_problem(name, given, what, advice)
    nearest = BROKER_CONFIG_DEF.nearest_name(name)
    advice = f"did you mean {nearest}?" if nearest else "remove it; docs/reference/configs.md lists all settings"
    return node_problem(name, given, "no such setting exists", advice)
