"""Invariants that hold at any moment, and the state that the group must reach after a period without faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.connect.decide.backing_stores.config_records import SESSION_KEY, parse_session_key
from barnabas.connect.decide.backing_stores.config_state import ClusterConfig, ConfigState
from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.session_key import SessionKey
from barnabas.connect.identifiers import ConnectorTaskId, TargetState, TaskState

if TYPE_CHECKING:
    from tests.simulation.connect.cluster import SimulatedCluster
    from tests.simulation.connect.worker import SimulatedWorker

__all__ = ["Checks", "Violation"]

Unit = str | ConnectorTaskId


class Violation(AssertionError):
    """An invariant was violated."""


@dataclass(eq=False)
class Claim:
    config: Mapping[str, str | None]
    last_event: object = None


class Checks:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._claims: dict[Unit, dict[str, Claim]] = {}

    # -- at any moment: one owner

    def claimed(self, unit: Unit, worker: str, config: Mapping[str, str | None]) -> None:
        claims = self._claims.setdefault(unit, {})
        if claims:
            raise Violation(f"{unit} is started by {worker} while it runs on {', '.join(claims)}")
        claims[worker] = Claim(config)

    def claim(self, unit: Unit, worker: str) -> Claim | None:
        return self._claims.get(unit, {}).get(worker)

    def released(self, unit: Unit, worker: str) -> None:
        self._claims.get(unit, {}).pop(worker, None)

    def released_all(self, worker: str) -> None:
        for claims in self._claims.values():
            claims.pop(worker, None)

    # -- at any moment: the session key

    def look_at(self, worker: SimulatedWorker) -> None:
        if not worker.is_started:
            return
        key = worker.herder.keys.key
        expected = self._last_key_read(worker)
        group = worker.herder.context.group
        if key is not None and (expected is None or key.key != expected.key):
            raise Violation(f"{worker.name} uses another session key than the last one that it has read")
        if group.is_settled and expected is not None and key is None:
            raise Violation(f"{worker.name} is settled but does not use the session key that it has read")

    def accepted(self, receiver: SimulatedWorker, key: SessionKey) -> None:
        """Check the key of a signature that the receiver has accepted."""
        expected = self._last_key_read(receiver)
        if expected is None or expected.key != key.key:
            raise Violation(f"{receiver.name} accepts a signature with a key other than the current one")

    def _last_key_read(self, worker: SimulatedWorker) -> SessionKey | None:
        found = None
        for offset, key in self._cluster.session_keys():
            if offset < worker.configs.position:
                found = key
        return found

    # -- after all faults

    def check_quiet(self) -> None:
        config = self._replayed()
        self._check_snapshots(config)
        self._check_acknowledged(config)
        self._check_work(config)
        self._check_key(config)
        self._check_statuses(config)

    def _replayed(self) -> ClusterConfig:
        state = ConfigState()
        for offset, (key, value) in enumerate(self._cluster.config_topic.records):
            state.replay(key, value, offset)
        return state.snapshot()

    def _check_snapshots(self, config: ClusterConfig) -> None:
        for worker in self._cluster.alive():
            found = worker.herder.config
            for what in ("offset", "session_key", "connector_configs", "target_states", "task_configs", "task_counts"):
                if getattr(found, what) != getattr(config, what):
                    raise Violation(f"{worker.name} has another {what} than the topic")

    def _check_acknowledged(self, config: ClusterConfig) -> None:
        for connector, expected in self._cluster.expected.items():
            properties = config.connector_config(connector)
            stamp = None if properties is None else properties["stamp"]
            if stamp not in expected.stamps:
                raise Violation(f"{connector} has the config {stamp} instead of one of {expected.stamps}")
            if stamp is not None and config.target_state(connector) not in expected.states:
                raise Violation(f"{connector} is {config.target_state(connector)} instead of one of {expected.states}")

    def _check_work(self, config: ClusterConfig) -> None:
        wanted: set[Unit] = set(config.connectors())
        for connector in config.connectors():
            state = config.target_state(connector)
            properties = config.connector_config(connector) or {}
            if state is TargetState.STARTED and config.task_count(connector) != int(properties["tasks.max"] or 0):
                raise Violation(f"{connector} has {config.task_count(connector)} tasks, not {properties['tasks.max']}")
            if state is not TargetState.STOPPED:
                wanted |= set(config.tasks(connector))
            if state is TargetState.STARTED and any(
                (config.task_config(task) or {}).get("stamp") != properties["stamp"] for task in config.tasks(connector)
            ):
                raise Violation(f"the tasks of {connector} have an older config")
        running = {unit for unit, claims in self._claims.items() if claims}
        if running != wanted:
            raise Violation(f"not running: {wanted - running}; running unexpectedly: {running - wanted}")
        for unit in wanted:
            (claim,) = self._claims[unit].values()
            described = config.task_config(unit) if isinstance(unit, ConnectorTaskId) else config.connector_config(unit)
            if claim.config != described:
                raise Violation(f"{unit} runs with {claim.config} instead of {described}")

    def _check_key(self, config: ClusterConfig) -> None:
        key = config.session_key
        if self._cluster.protocol is not ProtocolVersion.SESSIONED:
            return
        if key is None:
            raise Violation("the config topic has no session key")
        for worker in self._cluster.alive():
            if worker.herder.keys.key is None or worker.herder.keys.key.key != key.key:
                raise Violation(f"{worker.name} has another session key than the topic")

    def _check_statuses(self, config: ClusterConfig) -> None:
        for worker in self._cluster.alive():
            statuses = worker.herder.context.statuses
            known: set[Unit] = {*statuses.connectors(), *statuses.all_tasks()}
            for unit, claims in self._claims.items():
                for owner in claims:
                    connector = unit if isinstance(unit, str) else unit.connector
                    status = statuses.connector(unit) if isinstance(unit, str) else statuses.task(unit)
                    state = {
                        TargetState.STARTED: TaskState.RUNNING,
                        TargetState.PAUSED: TaskState.PAUSED,
                        TargetState.STOPPED: TaskState.STOPPED,
                        None: None,
                    }[config.target_state(connector)]
                    if status is None or status.state is not state or status.worker_id != f"{owner}:8083":
                        raise Violation(f"{unit} is {state} on {owner}; {worker.name} shows {status}")
            stale = {unit for unit in known if not config.contains(unit if isinstance(unit, str) else unit.connector)}
            if stale:
                raise Violation(f"{worker.name} shows statuses of {stale}, which are not configured")


def session_key_of(key: bytes, value: bytes | None) -> SessionKey | None:
    if key.decode() != SESSION_KEY or value is None:
        return None
    return parse_session_key(json.loads(value))
