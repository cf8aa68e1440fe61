"""A herder without a group, topics or tasks, for tests of the REST API: the state of a cluster in dictionaries. Two
workers of a ``ScriptedCluster`` share its state; one leads. Its texts are Kafka's, from the captures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.connect.decide.herder.connector_requests import ConnectorRequests
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.herder.leader_requests import InternalRequests
from barnabas.connect.decide.herder.offset_requests import OffsetRequests
from barnabas.connect.decide.herder.requested_restarts import Restarts
from barnabas.connect.decide.herder.state_requests import StateRequests
from barnabas.connect.decide.herder.status_updates import Statuses
from barnabas.connect.decide.offsets.offset_changes import PartitionEnds, sink_changes, source_changes
from barnabas.connect.decide.offsets.sink_rows import sink_offsets
from barnabas.connect.decide.registry.plugin import Plugin, PluginType
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.session_key import SessionView
from barnabas.connect.entities import (
    ActiveTopics,
    ConfigInfo,
    ConfigInfos,
    ConfigKeyInfo,
    ConfigValueInfo,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorOffsets,
    ConnectorState,
    ConnectorStatus,
    OffsetsPreview,
    PluginInfo,
    TaskInfo,
    TaskStatus,
)
from barnabas.connect.errors import AlreadyExists, BadRequest, ConnectError, NotFound, NotLeader, RebalanceNeeded
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState
from barnabas.connect.settings.plugin_config_def import ConfigDef, ConfigKey, Importance

__all__ = ["ScriptedCluster", "ScriptedHerder", "ScriptedPlugins"]

VERSION = "4.3.1"
_REQUIRED = {"FileStreamSource": ("topic",), "FileStreamSink": (), "MockSource": ()}
_INVALID = (
    "Connector configuration is invalid and contains the following {count} error(s):\n{errors}\n"
    "You can also find the above list of errors at the endpoint "
    "`/connector-plugins/{{connectorType}}/config/validate`"
)
_NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
    "specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
)


@dataclass
class _Connector:
    config: dict[str, str | None]
    state: TargetState = TargetState.STARTED
    tasks: int = 0
    offsets: list[ConnectorOffset] = field(default_factory=list)

    @property
    def type(self) -> ConnectorType:
        return ConnectorType.SINK if "Sink" in (self.config["connector.class"] or "") else ConnectorType.SOURCE


class ScriptedCluster:
    def __init__(self, leader_url: str = "http://127.0.0.1:29511/") -> None:
        self.leader_url: str | None = leader_url
        self.worker_urls: list[str] = [leader_url]
        self.connectors: dict[str, _Connector] = {}
        self.session = SessionView(is_verification_in_force=True, key=b"k" * 32)
        self.task_writes: list[tuple[str, list[dict[str, str | None]]]] = []
        self.fenced: list[str] = []
        self.level_followers: list[Callable[[str, str], list[str]]] = []


class ScriptedHerder(Herder):
    """While ``rebalancing`` is set, every request that needs a stable group fails."""

    def __init__(self, cluster: ScriptedCluster, url: str) -> None:
        self.cluster = cluster
        self.url = url
        self.rebalancing: asyncio.Event | None = None
        self.stage_text: str | None = None
        self.ready = True
        self.stuck = False
        self.calls: list[str] = []
        self.connectors = _Connectors(self)
        self.states = _States(self)
        self.statuses = _Statuses(self)
        self.restarts = _Restarts(self)
        self.offsets = _Offsets(self)
        self.internal = _Internal(self)

    def session(self) -> SessionView:
        return self.cluster.session

    def stage(self) -> str | None:
        return self.stage_text

    @property
    def is_ready(self) -> bool:
        return self.ready

    async def health(self) -> None:
        await self.turn()

    async def other_workers(self) -> list[str]:
        await self.led()
        return [url for url in self.cluster.worker_urls if url != self.url]

    async def rebalance_over(self) -> None:
        if self.rebalancing is not None:
            await self.rebalancing.wait()
            self.rebalancing = None

    # Shared by the parts.

    async def turn(self) -> None:
        """Requests that pass through the herder's queue."""
        if self.stuck:
            await asyncio.Event().wait()
        if self.rebalancing is not None:
            raise RebalanceNeeded("Request cannot be completed because a rebalance is expected")

    async def led(self) -> None:
        await self.turn()
        if self.cluster.leader_url != self.url:
            raise NotLeader("Only the leader can do this.", self.cluster.leader_url)

    def found(self, name: str) -> _Connector:
        connector = self.cluster.connectors.get(name)
        if connector is None:
            raise NotFound(f"Connector {name} not found")
        return connector

    def check(self, config: Mapping[str, str | None]) -> None:
        """Raise BadRequest for invalid input."""
        if config.get("connector.class") not in _REQUIRED:
            raise BadRequest(f"Failed to find any class that implements Connector: {config.get('connector.class')}")
        errors = _errors(config)
        if errors:
            raise BadRequest(_INVALID.format(count=len(errors), errors="\n".join(errors)))

    def status(self, name: str) -> ConnectorStatus:
        connector = self.cluster.connectors.get(name)
        if connector is None:
            raise NotFound(f"No status found for connector {name}")
        state = "RUNNING" if connector.state is TargetState.STARTED else connector.state.value
        tasks = [TaskStatus(number, state, "127.0.0.1:29511", VERSION) for number in range(connector.tasks)]
        return ConnectorStatus(name, ConnectorState(state, "127.0.0.1:29511", VERSION), tasks, connector.type)

    def details(self, name: str) -> ConnectorStatus:
        return self.status(name)

    async def validation(self, config: Mapping[str, str | None]) -> ConfigInfos:
        name = str(config["connector.class"])
        if name not in _REQUIRED:
            raise BadRequest(f"Failed to find any class that implements Connector and which name matches {name}")
        errors = _errors(config)
        values = [ConfigInfo(None, ConfigValueInfo(key, value, [], [], True)) for key, value in config.items()]
        values.append(ConfigInfo(_key("topic"), ConfigValueInfo("topic", None, [], errors, True)))
        return ConfigInfos(name, len(errors), ["Common", "Transforms", "Predicates", "Error Handling"], values)

    async def task_restarted(self, task: ConnectorTaskId) -> None:
        await self.led()
        if task.connector not in self.cluster.connectors:
            raise NotFound(f"Unknown connector: {task.connector}")
        if not 0 <= task.task < self.cluster.connectors[task.connector].tasks:
            raise NotFound(f"Unknown task: {task}")


class _Connectors(ConnectorRequests):
    def __init__(self, herder: ScriptedHerder) -> None:
        self._herder = herder

    def names(self) -> list[str]:
        return list(self._herder.cluster.connectors)

    async def info(self, name: str) -> ConnectorInfo:
        await self._herder.turn()
        return self.info_in_snapshot(name)

    async def config(self, name: str) -> Mapping[str, str | None]:
        await self._herder.turn()
        return self._herder.found(name).config

    def task_configs_in_snapshot(self, name: str) -> list[Mapping[str, str | None]]:
        return []

    def info_in_snapshot(self, name: str) -> ConnectorInfo:
        return _info(name, self._herder.found(name))

    async def create(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None
    ) -> ConnectorInfo:
        self._herder.check(config)
        await self._herder.led()
        connectors = self._herder.cluster.connectors
        if name in connectors:
            raise AlreadyExists(f"Connector {name} already exists")
        connector = connectors[name] = _Connector(dict(config), initial_state or TargetState.STARTED)
        info = _info(name, connector)
        connector.tasks = int(config.get("tasks.max") or 1) if connector.state is TargetState.STARTED else 0
        return info

    async def put(self, name: str, config: Mapping[str, str | None]) -> tuple[ConnectorInfo, bool]:
        self._herder.check(config)
        await self._herder.led()
        connectors = self._herder.cluster.connectors
        if name not in connectors:
            return await self.create(name, config, None), True
        connectors[name].config = dict(config)
        return _info(name, connectors[name]), False

    async def patch(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        merged = {**self._herder.found(name).config, **patch}
        config = {key: value for key, value in merged.items() if value is not None}
        return (await self.put(name, config))[0]

    async def delete(self, name: str) -> None:
        await self._herder.led()
        self._herder.found(name)
        del self._herder.cluster.connectors[name]

    async def tasks(self, name: str) -> list[TaskInfo]:
        await self._herder.turn()
        connector = self._herder.found(name)
        return [TaskInfo(ConnectorTaskId(name, number), connector.config) for number in range(connector.tasks)]

    async def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        return await self._herder.validation(config)


class _Statuses(Statuses):
    def __init__(self, herder: ScriptedHerder) -> None:
        self._herder = herder

    def connector_status(self, name: str) -> ConnectorStatus:
        return self._herder.status(name)

    def connector_details(self, name: str) -> ConnectorStatus:
        return self._herder.details(name)

    def task_details(self, task: ConnectorTaskId) -> TaskStatus:
        self.task_status(task)
        return self.connector_details(task.connector).tasks[task.task]

    def task_status(self, task: ConnectorTaskId) -> TaskStatus:
        connector = self._herder.cluster.connectors.get(task.connector)
        if connector is None or not 0 <= task.task < connector.tasks:
            raise NotFound(f"No status found for task {task}")
        return self.connector_status(task.connector).tasks[task.task]

    def active_topics(self, name: str) -> ActiveTopics:
        return ActiveTopics(name, ["t1"] if name in self._herder.cluster.connectors else [])

    async def reset_active_topics(self, name: str) -> None:
        await self._herder.turn()


class _Restarts(Restarts):
    def __init__(self, herder: ScriptedHerder) -> None:
        self._herder = herder

    async def restart_connector(self, name: str) -> None:
        await self._herder.led()
        if name not in self._herder.cluster.connectors:
            raise NotFound(f"Unknown connector: {name}")

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        await self.restart_connector(name)
        self._herder.calls.append(f"restart {name} {include_tasks} {only_failed}")
        return self._herder.status(name)

    async def restart_task(self, task: ConnectorTaskId) -> None:
        await self._herder.task_restarted(task)


class _States(StateRequests):
    def __init__(self, herder: ScriptedHerder) -> None:
        self._herder = herder

    async def pause(self, name: str) -> None:
        self._target(name, TargetState.PAUSED)

    async def resume(self, name: str) -> None:
        connector = self._target(name, TargetState.STARTED)
        connector.tasks = connector.tasks or int(connector.config.get("tasks.max") or 1)

    async def stop(self, name: str) -> None:
        await self._herder.led()
        self._target(name, TargetState.STOPPED).tasks = 0

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        for follow in self._herder.cluster.level_followers:
            follow(namespace, level)

    def _target(self, name: str, state: TargetState) -> _Connector:
        if name not in self._herder.cluster.connectors:
            raise NotFound(f"Unknown connector {name}")
        connector = self._herder.cluster.connectors[name]
        connector.state = state
        return connector


class _Offsets(OffsetRequests):
    def __init__(self, herder: ScriptedHerder) -> None:
        self._herder = herder

    async def read(self, name: str) -> ConnectorOffsets:
        await self._herder.turn()
        return ConnectorOffsets(self._herder.found(name).offsets)

    async def preview(self, name: str, offsets: Sequence[ConnectorOffset]) -> OffsetsPreview:
        """Each partition has the records 10 to 1499."""
        await self._herder.turn()
        connector = self._herder.found(name)
        if connector.type is ConnectorType.SINK:
            committed = {
                partition: offset for partition, offset in sink_offsets(connector.offsets).items() if offset is not None
            }
            changes = sink_changes(offsets, committed, dict.fromkeys(committed, PartitionEnds(10, 1500)), "earliest")
        else:
            changes = source_changes(offsets, connector.offsets)
        return OffsetsPreview(
            changes, connector.state is TargetState.STOPPED, any(change.problem for change in changes)
        )

    async def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        connector = await self._stopped(name)
        for offset in offsets:
            if offset.partition is None:
                raise ConnectError("Partition objects cannot be null")
        connector.offsets = [offset for offset in offsets if offset.offset is not None]
        return "The offsets for this connector have been altered successfully"

    async def reset(self, name: str) -> str:
        (await self._stopped(name)).offsets = []
        return "The offsets for this connector have been reset successfully"

    async def _stopped(self, name: str) -> _Connector:
        await self._herder.led()
        connector = self._herder.found(name)
        if connector.state is not TargetState.STOPPED:
            raise BadRequest(_NOT_STOPPED.format(name=name))
        return connector


class _Internal(InternalRequests):
    def __init__(self, herder: ScriptedHerder) -> None:
        self._herder = herder

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        await self._herder.led()
        self._herder.found(name)
        self._herder.cluster.task_writes.append((name, [dict(config) for config in configs]))

    async def fence_zombies(self, name: str) -> None:
        await self._herder.led()
        if self._herder.found(name).type is ConnectorType.SINK:
            raise BadRequest(f"Connector {name} is not a source connector")
        self._herder.cluster.fenced.append(name)


class ScriptedPlugins(PluginRegistry):
    def __init__(self) -> None:
        super().__init__(())

    def listing(self, *, connectors_only: bool = True) -> list[PluginInfo]:
        found = [PluginInfo("org.apache.kafka.connect.file.FileStreamSinkConnector", "sink", VERSION)]
        found.append(PluginInfo("org.apache.kafka.connect.file.FileStreamSourceConnector", "source", VERSION))
        return found if connectors_only else [*found, PluginInfo("org.apache.kafka.connect.transforms.Filter", "t")]

    def for_listing(self, name: str, version: str | None) -> Plugin:
        if not any(known in name for known in ("FileStream", "JsonConverter", "InsertField", "TopicNameMatches")):
            raise NotFound(f"Unknown plugin {name}.")
        if version not in (None, "1.0.0"):
            raise BadRequest(f"Plugin {name} not found that matches the version range [{version}]")
        return _PLUGIN


_PLUGIN = Plugin(PluginType.SOURCE, "Scripted", VERSION, ConfigDef([ConfigKey("topic", importance=Importance.HIGH)]))


def _info(name: str, connector: _Connector) -> ConnectorInfo:
    tasks = [ConnectorTaskId(name, number) for number in range(connector.tasks)]
    return ConnectorInfo(name, dict(connector.config), tasks, connector.type)


def _errors(config: Mapping[str, str | None]) -> list[str]:
    name, tasks = config.get("name"), config.get("tasks.max") or "1"
    errors = [
        f'Missing required configuration "{key}" which has no default value.'
        for key in _REQUIRED[str(config["connector.class"])]
        if not config.get(key)
    ]
    if None in config.values():
        errors.append("Null value can not be supplied as the configuration value.")
    if name == "":
        errors.append("Invalid value  for configuration name: String may not be empty")
    if name and not name.isprintable():
        errors.append(f"Invalid value {name} for configuration name: String may not contain control sequences")
    if not tasks.isdigit():
        errors.append(f"Invalid value {tasks} for configuration tasks.max: Not a number of type INT")
    return errors


def _key(name: str) -> ConfigKeyInfo:
    details: dict[str, Any] = {"group": None, "order_in_group": -1, "width": "NONE", "display_name": name}
    return ConfigKeyInfo(
        name=name,
        type="STRING",
        required=True,
        default_value=None,
        importance="HIGH",
        documentation="",
        dependents=[],
        **details,
    )
