"""Settings of topics, brokers, their loggers, groups and client-metrics subscriptions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, chunks, refuse_unless
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import Deadline
from barnabas.clients.admin.routing import ANY, Target, broker
from barnabas.clients.admin.words import known
from barnabas.common.config_value import ConfigType
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import alter_configs as legacy
from barnabas.protocol.messages import incremental_alter_configs as incremental
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest

__all__ = [
    "AlterConfigOp",
    "AlterConfigOpType",
    "Config",
    "ConfigEntry",
    "ConfigOperations",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
]

_DESCRIBED_PER_REQUEST = 250
_ALTERED_PER_REQUEST = 1000


class ConfigResourceType(IntEnum):
    """The numbers differ from those of ACL resources."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class AlterConfigOpType(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """What has settings. The broker with the empty name stands for the default of all brokers."""

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | None = None) -> ConfigResource:
        """One broker; without an id the default of all."""
        return cls(ConfigResourceType.BROKER, "" if broker_id is None else str(broker_id))

    @classmethod
    def broker_logger(cls, broker_id: int) -> ConfigResource:
        return cls(ConfigResourceType.BROKER_LOGGER, str(broker_id))

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        return cls(ConfigResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        return cls(ConfigResourceType.CLIENT_METRICS, name)

    @property
    def answers_itself(self) -> bool:
        """Whether only the broker of this name can be asked."""
        return self.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and self.name != ""

    def __str__(self) -> str:
        return f"{self.type.name} {self.name or '(default)'}"


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. The value of a sensitive one is None: no node tells it. ``type`` is None when it is not told."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType | None = None
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a resource by name."""

    resource: ConfigResource
    entries: Mapping[str, ConfigEntry]

    def __getitem__(self, name: str) -> ConfigEntry:
        return self.entries[name]

    def get(self, name: str) -> str | None:
        """The value, None without one."""
        entry = self.entries.get(name)
        return None if entry is None else entry.value


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """One change. APPEND and SUBTRACT are for lists, with commas between values. The value never gets into a text."""

    name: str
    value: str | None = None
    op: AlterConfigOpType = AlterConfigOpType.SET

    @classmethod
    def set(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value)

    @classmethod
    def delete(cls, name: str) -> AlterConfigOp:
        return cls(name, None, AlterConfigOpType.DELETE)

    @classmethod
    def append(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value, AlterConfigOpType.APPEND)

    @classmethod
    def subtract(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value, AlterConfigOpType.SUBTRACT)

    def __repr__(self) -> str:
        return f"AlterConfigOp({self.op.name} {self.name})"


class ConfigOperations(Operations):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_s: float | None = None,
    ) -> Results[ConfigResource, Config]:
        """The settings of resources, or those of the ``keys`` only. A broker is asked for its own."""
        batches = self.stream_configs(
            resources,
            keys=keys,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
            timeout_s=timeout_s,
        )
        parts = [part async for part in batches]
        return Results(
            {key: value for part in parts for key, value in part.values.items()},
            {key: error for part in parts for key, error in part.errors.items()},
        )

    async def stream_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Results[ConfigResource, Config]]:
        """The same in batches of some hundred resources, for listings too large to hold."""
        wanted = list(dict.fromkeys(resources))
        names = None if keys is None else list(keys)
        deadline = self._deadline(timeout_s)
        for target, part in _by_target(wanted, _DESCRIBED_PER_REQUEST):

            async def describe(left: Sequence[ConfigResource], target: Target) -> Results[ConfigResource, Config]:
                return await self._describe(left, names, include_synonyms, include_documentation, target, deadline)

            yield await self._ask_node(describe, part, target)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfigOp]],
        *,
        validate_only: bool = False,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Change some settings of resources and leave the others. With ``wait`` every live broker answers by it."""
        wanted = {resource: tuple(ops) for resource, ops in changes.items()}
        for resource, ops in wanted.items():
            _refuse_bad_ops(resource, ops)

        def build(left: Sequence[ConfigResource]) -> incremental.IncrementalAlterConfigsRequest:
            return incremental.IncrementalAlterConfigsRequest(
                resources=[
                    incremental.AlterConfigsResource(
                        resource_type=each.type,
                        resource_name=each.name,
                        configs=[
                            incremental.AlterableConfig(name=op.name, config_operation=op.op, value=op.value)
                            for op in wanted[each]
                        ],
                    )
                    for each in left
                ],
                validate_only=validate_only,
            )

        deadline = self._deadline(timeout_s)
        results = await self._alter(wanted, build, ApiKey.INCREMENTAL_ALTER_CONFIGS, deadline)
        if wait and not validate_only and results.values:
            await self._until_configs_show({each: wanted[each] for each in results.values}, deadline)
        return results

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[ConfigResource, None]:
        """The legacy API: these settings replace ALL that were set on the resource. Prefer the incremental one.

        With ``wait`` every live broker tells these settings; what they replaced is not looked at.
        """

        def build(left: Sequence[ConfigResource]) -> legacy.AlterConfigsRequest:
            return legacy.AlterConfigsRequest(
                resources=[
                    legacy.AlterConfigsResource(
                        resource_type=each.type,
                        resource_name=each.name,
                        configs=[
                            legacy.AlterableConfig(name=name, value=value) for name, value in configs[each].items()
                        ],
                    )
                    for each in left
                ],
                validate_only=validate_only,
            )

        deadline = self._deadline(timeout_s)
        results = await self._alter(configs, build, ApiKey.ALTER_CONFIGS, deadline)
        if wait and not validate_only and results.values:
            changes = {
                each: [AlterConfigOp.set(name, value) for name, value in configs[each].items() if value is not None]
                for each in results.values
            }
            await self._until_configs_show(changes, deadline)
        return results

    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout_s: float | None = None
    ) -> list[ConfigResource]:
        """The resources that have or may have settings, of these types or of all that the node knows.

        Before Kafka 4.1 a node lists client-metrics subscriptions only.
        """
        asked = list(dict.fromkeys(types))
        only_metrics = asked == [ConfigResourceType.CLIENT_METRICS]

        def build(version: int) -> ListConfigResourcesRequest:
            return ListConfigResourcesRequest(resource_types=[] if version == 0 else [int(each) for each in asked])

        response = await self._call(
            build,
            self._deadline(timeout_s),
            api=ApiKey.LIST_CONFIG_RESOURCES,
            at_least=0 if only_metrics else 1,
        )
        return sorted(
            (
                ConfigResource(
                    known(ConfigResourceType, each.resource_type, ConfigResourceType.UNKNOWN), each.resource_name
                )
                for each in response.config_resources
            ),
            key=lambda each: (each.type, each.name),
        )

    async def _describe(
        self,
        resources: Sequence[ConfigResource],
        keys: list[str] | None,
        synonyms: bool,
        documentation: bool,
        target: Target,
        deadline: Deadline,
    ) -> Results[ConfigResource, Config]:
        def build(version: int) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=each.type, resource_name=each.name, configuration_keys=keys)
                    for each in resources
                ],
                include_synonyms=synonyms,
                include_documentation=documentation and version >= 3,
            )

        return await self._items(
            resources,
            lambda left: build,
            lambda response: ((_resource(each), _config(each)) for each in response.results),
            deadline,
            api=ApiKey.DESCRIBE_CONFIGS,
            target=target,
        )

    async def _alter(
        self, wanted: Mapping[ConfigResource, object], build: Any, api: ApiKey, deadline: Deadline
    ) -> Results[ConfigResource, None]:
        values: dict[ConfigResource, None] = {}
        errors: dict[ConfigResource, AdminError] = {}

        async def alter(part: Sequence[ConfigResource], target: Target) -> Results[ConfigResource, None]:
            return await self._items(
                part,
                build,
                lambda response: ((_resource(each), _done(each)) for each in response.responses),
                deadline,
                api=api,
                target=target,
            )

        for target, part in _by_target(list(wanted), _ALTERED_PER_REQUEST):
            results = await self._ask_node(alter, part, target)
            values |= results.values
            errors |= results.errors
        return Results(values, errors)

    async def _until_configs_show(
        self, changes: Mapping[ConfigResource, Sequence[AlterConfigOp]], deadline: Deadline
    ) -> None:
        async def shows(target: Target) -> bool:
            here = [each for each in changes if not each.answers_itself or broker(int(each.name)) == target]
            for part in chunks(here, _DESCRIBED_PER_REQUEST):
                found = await self._describe(part, None, False, False, target, deadline)
                if any(
                    each not in found.values or not all(_is_shown(op, found.values[each]) for op in changes[each])
                    for each in part
                ):
                    return False
            return True

        await self._until_each_broker(shows, deadline, "changing configs")


_OWN_SOURCE = {
    ConfigResourceType.TOPIC: ConfigSource.TOPIC_CONFIG,
    ConfigResourceType.BROKER_LOGGER: ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
    ConfigResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS_CONFIG,
    ConfigResourceType.GROUP: ConfigSource.GROUP_CONFIG,
}


def _is_shown(op: AlterConfigOp, config: Config) -> bool:
    """Whether the described settings are those after the change. A secret shows by its source only."""
    entry = config.entries.get(op.name)
    own = _OWN_SOURCE.get(config.resource.type)
    if own is None:
        is_one = config.resource.name != ""
        own = ConfigSource.DYNAMIC_BROKER_CONFIG if is_one else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    if op.op == AlterConfigOpType.DELETE:
        return entry is None or entry.source != own
    if entry is None or (op.op == AlterConfigOpType.SET and entry.source != own):
        return False
    if entry.is_sensitive:
        return True
    if op.op == AlterConfigOpType.SET:
        return _same(entry.value, op.value)
    held, meant = _words(entry.value), _words(op.value)
    return meant <= held if op.op == AlterConfigOpType.APPEND else not meant & held


def _same(told: str | None, given: str | None) -> bool:
    """Nodes may tell a value in another form than it was given: 0100 as 100, TRUE as true, lists without blanks."""
    if told is None or given is None or told == given:
        return told == given
    try:
        return float(told) == float(given)
    except ValueError:
        return [each.strip().lower() for each in told.split(",")] == [each.strip().lower() for each in given.split(",")]


def _words(value: str | None) -> set[str]:
    return {each.strip() for each in (value or "").split(",") if each.strip()}


def _by_target(resources: list[ConfigResource], size: int) -> Iterable[tuple[Target, Sequence[ConfigResource]]]:
    """Broker ids that are no numbers go to any node, which refuses them in its own words."""
    by_target: dict[Target, list[ConfigResource]] = {}
    for each in resources:
        target = broker(int(each.name)) if each.answers_itself and each.name.isdecimal() else ANY
        by_target.setdefault(target, []).append(each)
    for target, group in by_target.items():
        for part in chunks(group, size):
            yield target, part


def _refuse_bad_ops(resource: ConfigResource, ops: Sequence[AlterConfigOp]) -> None:
    names = [op.name for op in ops]
    refuse_unless(len(set(names)) == len(names), f"{resource}: a setting is changed twice")
    for op in ops:
        refuse_unless(op.name, f"{resource}: a setting needs a name")
        refuse_unless(
            op.value is not None or op.op == AlterConfigOpType.DELETE,
            f"{resource}: {op.op.name} {op.name} needs a value",
        )


def _resource(each: Any) -> ConfigResource:
    return ConfigResource(known(ConfigResourceType, each.resource_type, ConfigResourceType.UNKNOWN), each.resource_name)


def _done(each: Any) -> AdminError | None:
    return admin_error(each.error_code, each.error_message, _resource(each)) if each.error_code else None


def _config(each: Any) -> Config | AdminError:
    if each.error_code:
        return admin_error(each.error_code, each.error_message, _resource(each))
    return Config(_resource(each), {entry.name: _entry(entry) for entry in each.configs})


def _entry(entry: Any) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        known(ConfigSource, entry.config_source, ConfigSource.UNKNOWN),
        entry.is_sensitive,
        entry.read_only,
        tuple(
            ConfigSynonym(each.name, each.value, known(ConfigSource, each.source, ConfigSource.UNKNOWN))
            for each in entry.synonyms
        ),
        ConfigType(entry.config_type) if entry.config_type in ConfigType._value2member_map_ else None,
        entry.documentation,
    )
