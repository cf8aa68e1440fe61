"""The herder of a worker: it passes requests, records and events to its parts.

The REST API calls its methods and those of its parts. They await the ports of ``outside``; cancelling a call abandons
the request and releases its lock. Other input: notices of the membership (``notice``), records of the config and status
topics, and events of connectors and tasks. The parts:

==================  =================================================================================
``connectors``      creating, changing, deleting and showing connectors
``states``          pausing, resuming, stopping; log levels
``offsets``         showing and changing the positions of connectors
``restarts``        restarts that users request
``internal``        requests of other workers to the leader
``statuses``        writing and showing statuses
``rebalance``       stopping before, starting after, and requesting a rebalance of the group
``work``            work that runs here, one unit at a time, stop before start
``assigned_work``   work that should run here
``fencing``         earlier tasks of exactly-once sources are fenced before a task starts
``reconfiguration`` new task configs, sent to the leader or written by the leader
``autoscaling``     the number of tasks of sinks that follow their lag
``keys``            the key that signs internal requests
``healing``         restarts after failures
==================  =================================================================================

Every request may raise a ConnectError, whose ``http_status`` and text become the response of the REST API:

- ``NotLeader`` and ``NotAssigned`` have the URL of the worker to contact; REST forwards there (or returns 409).
- ``RebalanceNeeded``: nothing was done; REST waits for ``rebalance_over`` for a while and calls once more, then 409.
- ``NotFound`` 404, ``AlreadyExists`` 409, ``BadRequest`` 400, anything else 500. Texts are Kafka's where it has one.

A request that waits for another worker does not delay other requests. REST parses, checks roles and signatures
(KIP-507) and limits each call (90 s, ``health`` 10 s) by cancelling it; ``stage`` then reports the worker's activity.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from barnabas.connect.decide.backing_stores.config_state import (
    ClusterConfig,
    ConfigEvent,
    ConnectorConfigChanged,
    ConnectorRemoved,
    LoggerLevelChanged,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TaskConfigsCommitted,
)
from barnabas.connect.decide.backing_stores.status_records import Failure
from barnabas.connect.decide.backing_stores.status_state import ConnectorStatusChanged, TaskStatusChanged
from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.group.membership_events import (
    Assigned,
    Joining,
    Lost,
    MembershipEvent,
    MembershipFailed,
    MembershipProblem,
    ProtocolChanged,
    ReadConfigs,
    StopWork,
)
from barnabas.connect.decide.herder.assigned_work import AssignedWork
from barnabas.connect.decide.herder.automatic_restarts import AutomaticRestarts
from barnabas.connect.decide.herder.autoscaling import Autoscaling
from barnabas.connect.decide.herder.connector_requests import ConnectorRequests
from barnabas.connect.decide.herder.group_log import GroupLog
from barnabas.connect.decide.herder.herder_context import HerderContext, PluginCatalog
from barnabas.connect.decide.herder.herder_counters import RebalanceTimes, StartUps
from barnabas.connect.decide.herder.herder_settings import HerderSettings
from barnabas.connect.decide.herder.leader_requests import InternalRequests
from barnabas.connect.decide.herder.local_work import LocalWork, Unit, named
from barnabas.connect.decide.herder.offset_requests import OffsetRequests
from barnabas.connect.decide.herder.outside import ErrorListener, Outside, TaskToStart
from barnabas.connect.decide.herder.rebalance_listener import RebalanceListener
from barnabas.connect.decide.herder.requested_restarts import Restarts
from barnabas.connect.decide.herder.session_key_rotation import SessionKeys
from barnabas.connect.decide.herder.state_requests import StateRequests
from barnabas.connect.decide.herder.status_updates import Statuses, state_of
from barnabas.connect.decide.herder.task_reconfiguration import TaskReconfiguration
from barnabas.connect.decide.herder.zombie_fencing import ZombieFencing
from barnabas.connect.decide.notices.failure_notice import FailureNotice, NoticeKind
from barnabas.connect.decide.session_key import KeyRotation, SessionView
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS, parse_partitions
from barnabas.connect.decide.tasks.task_runtime import (
    BatchSucceeded,
    RecordsSkipped,
    TaskEvent,
    TaskFailed,
    TaskPaused,
    TaskRunning,
    TopicsUsed,
)
from barnabas.connect.identifiers import ConnectorTaskId, TargetState, TaskState
from barnabas.connect.worker_names import naming_worker

__all__ = ["Herder"]

log = logging.getLogger(__name__)


class Herder:
    def __init__(
        self,
        settings: HerderSettings,
        plugins: PluginCatalog,
        rotation: KeyRotation,
        outside: Outside,
        listeners: Sequence[ErrorListener] = (),
    ) -> None:
        self._outside = outside
        self._listeners = listeners
        self.context = HerderContext(settings, outside, plugins)
        self.keys = SessionKeys(self.context, rotation)
        self.statuses = Statuses(self.context)
        self.work = LocalWork(outside, self, self._admit)
        self.assigned_work = AssignedWork(self.work, self.context.configs.snapshot)
        self.rebalance = RebalanceListener(self.context, self.work, self.assigned_work, self._taken_up)
        self.automatic_restarts = AutomaticRestarts(settings.restart_budget, outside, self._heal, self._lasted)
        self.autoscaling = Autoscaling(self.context, self.statuses, self.reconfiguration_requested)
        self.reconfiguration = TaskReconfiguration(
            self.context,
            runs_here=self.work.is_running,
            fail=self._fail_for_good,
            tasks_for=self.autoscaling.tasks_for,
        )
        self.connectors = ConnectorRequests(self.context)
        self.states = StateRequests(self.context)
        self.internal = InternalRequests(self.context, self.reconfiguration)
        self.offsets = OffsetRequests(self.context, self.internal)
        self.fencing = ZombieFencing(self.context, self.internal, self.assigned_work.is_assigned)
        self.restarts = Restarts(
            self.context, self.work, self.assigned_work, self.statuses, on_restart=self._restart_requested
        )
        self.failure: str | None = None
        """Why this worker can't become a member of its group; permanent."""
        self.rebalance_times = RebalanceTimes()
        self.connector_starts = StartUps()
        self.task_starts = StartUps()
        self._group_log = GroupLog(self.context)
        self._has_been_assigned = False
        self._is_stopping = False
        self._is_lost = False

    # -- the worker itself

    @property
    def config(self) -> ClusterConfig:
        return self.context.config

    @property
    def is_ready(self) -> bool:
        """Whether the topics were read and the group has been joined."""
        return self._has_been_assigned

    def stage(self) -> str | None:
        """The current activity of the worker as a sentence like Kafka's, None if nothing takes time:
        ``The worker is currently reading to the end of the config topic, which began at 2026-11-21T11:47:11.125Z.``"""
        return self.context.stages.current()

    def session(self) -> SessionView:
        """Return the data to sign and to verify an internal request at this moment (KIP-507). Never blocks."""
        group, key = self.context.group, self.keys.key
        return SessionView(
            is_verification_in_force=group.protocol_version >= ProtocolVersion.SESSIONED,
            key=None if key is None else key.key,
            do_all_members_send_freshness=group.are_all_members_ours,
        )

    def topics_read(self) -> None:
        """Note that both topics were read to their ends. Later records are changes. Called before membership."""
        self.context.configs.start()
        self.keys.start()

    async def health(self) -> None:
        """Wait behind the requests that change something, and do nothing else (KIP-1017)."""
        async with self.context.leader_turn:
            pass

    async def other_workers(self) -> list[str]:
        """Return the URLs of the other workers of the group. Raise NotLeader, and RebalanceNeeded."""
        await self.context.settled()
        self.context.require_leader("Only the leader knows the workers of its group.")
        own = self.context.settings.url
        return sorted(url for url in self.context.group.member_urls if url != own)

    async def rebalance_over(self) -> None:
        """Return when the group is stable and this worker has caught up, immediately if that is so already."""
        await self._outside.until(lambda: self.context.group.is_up_to_date)

    async def shut_down(self) -> None:
        """Stop all work and write its statuses. The caller leaves the group afterwards.

        A worker that is already out of its group does not wait for its statuses: others own its work, or Kafka is
        unreachable.
        """
        with self.context.stages.during("stopping its connectors and tasks"):
            self._is_stopping = True
            self.assigned_work.revoke(self.assigned_work.assigned)
            await self._outside.until(
                lambda: not self.work.running() and (self._is_lost or self.statuses.is_all_written())
            )

    # -- the group

    def notice(
        self,
        notice: MembershipEvent,
        owners: Mapping[Unit, str],
        member_urls: Iterable[str],
        *,
        are_all_members_ours: bool = False,
    ) -> None:
        """Handle a notice of the membership. The other arguments belong to Assigned and are empty for a follower."""
        self._group_log.noticed(notice)
        match notice:
            case Joining():
                self.rebalance_times.began(self._outside.monotonic_ms())
                self.rebalance.joining()
            case Assigned() if not self._is_stopping:
                self._is_lost = False
                self.rebalance.assigned(notice, owners, member_urls, are_all_members_ours=are_all_members_ours)
                if notice.is_leader:
                    self._group_log.leads()
            case StopWork():
                self.rebalance.stop_work(notice)
            case Lost(reason):
                log.warning("this worker is out of its group: %s", reason)
                self._is_lost = True
                self.rebalance.lost()
            case ReadConfigs():
                self.rebalance.read_configs(notice)
            case ProtocolChanged(_, _, message):
                if message:
                    log.log(logging.WARNING if notice.is_warning else logging.INFO, "%s", message)
            case MembershipProblem(message):
                log.warning("%s", message)
            case MembershipFailed(message):
                self.failure = message
            case _:
                pass  # An assignment that is no longer applied.
        self._outside.state_changed()

    def _taken_up(self) -> None:
        self._has_been_assigned = True
        self.rebalance_times.ended(self._outside.monotonic_ms())
        assigned = self.assigned_work.assigned
        self.automatic_restarts.forget_all_but(assigned)
        self.autoscaling.forget_all_but(frozenset(unit for unit in assigned if isinstance(unit, str)))
        self.statuses.assigned(assigned)
        self.context.config_writes.assigned()

    # -- the topics

    def replay_config(self, key: str | bytes | None, value: bytes | None, offset: int) -> None:
        before = self.config
        for event in self.context.configs.replay(key, value, offset):
            self._config_changed(event, before, offset + 1)
        self._outside.state_changed()

    def replay_status(self, key: str | bytes | None, value: bytes | None) -> None:
        for event in self.context.statuses.replay(key, value):
            if isinstance(event, ConnectorStatusChanged):
                self.statuses.replayed(event.connector, event.status)
            elif isinstance(event, TaskStatusChanged):
                self.statuses.replayed(event.task, event.status)
        self._outside.state_changed()

    def _config_changed(self, event: ConfigEvent, before: ClusterConfig, offset: int) -> None:
        match event:
            case ConnectorConfigChanged(connector):
                self._connector_changed(connector, is_new=not before.contains(connector), offset=offset)
            case ConnectorRemoved(connector):
                log.info("connector %s was deleted", connector)
                self.assigned_work.refresh()
                self.rebalance.needed(offset, f"connector {connector} was removed")
            case TaskConfigsCommitted(connector, _):
                self.assigned_work.hold_tasks(connector)
                self.rebalance.needed(offset, f"the tasks of connector {connector} were configured")
            case TargetStateChanged():
                self.assigned_work.refresh()
            case SessionKeyChanged(key):
                self.keys.changed(key)
            case RestartRequested():
                self.restarts.requested(event)
            case LoggerLevelChanged(namespace, level):
                self._outside.start(self._outside.set_logger_level(namespace, level))

    def _connector_changed(self, connector: str, *, is_new: bool, offset: int) -> None:
        log.info("connector %s was %s", connector, "created" if is_new else "given a new configuration")
        if self.assigned_work.is_assigned(connector):
            self._restart_requested(connector)
            self.assigned_work.restart((connector,))
        if is_new:
            self.rebalance.needed(offset, f"connector {connector} is new")

    # -- running work

    async def _admit(self, start: TaskToStart, *, task_generation: int, is_wanted: Callable[[], bool]) -> TaskToStart:
        return await self.fencing.admit(start, task_generation=task_generation, is_wanted=is_wanted)

    def task_event(self, event: TaskEvent) -> None:
        task = event.task
        match event:
            case TaskRunning() if self.work.is_running(task):
                self.task_starts.succeeded += 1
                self.automatic_restarts.running(task)
                log.info("task %s is running", task)
                self.statuses.set(task, TaskState.RUNNING)
                self.statuses.uses_topics(task, self._sink_topics(task))
            case TaskPaused() if self.work.is_running(task):
                log.info("task %s is paused", task)
                self.statuses.set(task, TaskState.PAUSED)
            case BatchSucceeded() if self.work.is_running(task):
                self._recovered(task)
            case RecordsSkipped(_, records, dead_letters) if self.work.is_running(task):
                self.statuses.skipped(task, records, dead_letters)
                for listener in self._listeners:
                    listener.skipped(task, records, dead_letters, self._outside.now_ms())
            case TopicsUsed(_, topics) if self.work.is_running(task):
                self.statuses.uses_topics(task, sorted(topics))
            case TaskFailed(_, trace, retriable) if self.work.ended(task):
                self.task_starts.failed += not self.statuses.is_said_to_run(task)
                self._failed(task, trace, retriable=retriable)
            case _:
                pass  # It was released meanwhile.
        self._outside.state_changed()

    def reconfiguration_requested(self, connector: str) -> None:
        """A connector requests new configs for its tasks."""
        self.reconfiguration.request(connector)

    def topics_missing(self, connector: str, topics: tuple[str, ...]) -> None:
        """Note which topics of a sink that runs here do not exist, maybe none."""
        self.statuses.waits_for(connector, topics)

    def connector_error(self, connector: str, trace: str, *, retriable: bool) -> None:
        """Note that a connector has reported that it can't continue."""
        if self.work.give_up(connector):
            self._failed(connector, trace, retriable=retriable)
        self._outside.state_changed()

    def connector_started(self, connector: str, state: TargetState) -> None:
        self.connector_starts.succeeded += 1
        self.automatic_restarts.running(connector)
        self.connector_state_set(connector, state)
        if not self.automatic_restarts.restart_count(connector):
            self._lasted(connector)

    def connector_state_set(self, connector: str, state: TargetState) -> None:
        log.info("connector %s is %s", connector, state_of(state).value.lower())
        self.statuses.set(connector, state_of(state))
        if state is TargetState.STARTED:
            self.reconfiguration.request(connector)

    def connector_failed(self, connector: str, trace: str, *, retriable: bool) -> None:
        self.connector_starts.failed += 1
        self._failed(connector, trace, retriable=retriable)

    def unit_starting(self, unit: Unit) -> None:
        log.info("starting %s", named(unit))
        failure = self.statuses.last_failure(unit)
        if failure is not None:
            self.automatic_restarts.continue_with(unit, failure.restarts)
        self.statuses.take(unit)

    def unit_stopped(self, unit: Unit) -> None:
        log.info("%s has stopped", named(unit))
        self.statuses.let_go(unit)

    def _fail_for_good(self, connector: str, trace: str) -> None:
        self.connector_error(connector, trace, retriable=False)

    def _failed(self, unit: Unit, trace: str, *, retriable: bool) -> None:
        trace = trace.encode(errors="backslashreplace").decode()  # Half of a surrogate pair can't be written as JSON.
        trace = naming_worker(trace, self.context.settings.worker_id)  # Any worker may show the status.
        what_next = self.automatic_restarts.failed(unit, retriable=retriable)
        log.error("%s has failed: %s\n%s", named(unit), trace.rstrip(), what_next)
        restarts, restarts_max = self.automatic_restarts.restart_count(unit), self.automatic_restarts.restarts_max
        failure = Failure(trace.rstrip(), self._outside.now_ms(), restarts, restarts_max, what_next)
        self.statuses.failed(unit, failure)
        is_planned = self.automatic_restarts.is_planned(unit)
        self._notice(NoticeKind.FAILED if is_planned else NoticeKind.EXHAUSTED, unit, failure)

    def _recovered(self, unit: Unit) -> None:
        failure = self.statuses.recovered(unit)
        if failure is not None:
            self._notice(NoticeKind.RECOVERED, unit, failure)

    def _notice(self, kind: NoticeKind, unit: Unit, failure: Failure) -> None:
        connector = unit.connector if isinstance(unit, ConnectorTaskId) else unit
        type_ = self.context.connector_type(connector)
        notice = FailureNotice(kind, unit, type_, failure, self._outside.now_ms())
        for listener in self._listeners:
            listener.notice(notice)

    def _heal(self, unit: Unit) -> None:
        if self.assigned_work.is_assigned(unit) and not self.work.is_running(unit):
            count = self.automatic_restarts.restart_count(unit)
            log.info("restarting %s automatically, attempt %d", named(unit), count)
            self.statuses.set(unit, TaskState.RESTARTING, has_version=False)
            self.assigned_work.restart((unit,))

    def _restart_requested(self, unit: Unit) -> None:
        self.automatic_restarts.forget(unit)
        self.statuses.restart_requested(unit)

    def _lasted(self, unit: Unit) -> None:
        """A connector has no batches: it has recovered when it has run for long enough, or at its first start after a
        user's restart."""
        if isinstance(unit, str):
            self._recovered(unit)

    def _sink_topics(self, task: ConnectorTaskId) -> list[str]:
        partitions = (self.config.task_config(task) or {}).get(TASK_PARTITIONS)
        try:
            return sorted({partition.topic for partition in parse_partitions(partitions or "{}")})
        except ValueError:
            return []
