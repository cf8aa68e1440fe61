"""The access audit of a node: from the decisions on the request path to the log and the topic ``__access_audit``.

The event loop only passes lists of events on. A thread writes the lines, encodes the JSON and builds the batches;
the loop receives the batches and appends them. Every queue is bounded. Events that do not fit are counted
and reported in the log, in the topic and as a metric.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from time import perf_counter, time_ns
from typing import TYPE_CHECKING

from barnabas.security.authorizer.audit import AccessAudit, AuditLimits
from barnabas.server.audit.event_format import decision_fields, log_line
from barnabas.server.audit.topic import AccessAuditTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.common.clock import Clock
    from barnabas.security.authorizer.audit import AccessEvent
    from barnabas.server.broker_part import BrokerPart
    from barnabas.server.node_core import NodeCore
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["AUDIT_LOGGER", "AccessAuditService", "audit_of"]

AUDIT_LOGGER = "kafka.authorizer.logger"
"""Kafka's name: denied at INFO, allowed at DEBUG."""

_LEVELS = {"OFF": logging.CRITICAL + 1, "INFO": logging.INFO, "DEBUG": logging.DEBUG}
_LINGER_S = 0.1
_HANDED_OVER_MAX = 8
"""Lists of events that may wait for the thread: one per linger."""
_STOP_TIMEOUT_S = 5.0

log = logging.getLogger(__name__)


class AccessAuditService:
    """``audit`` is the value for an authorizer's ``audit``. Everything but the thread's work runs on the loop."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        clock: Clock,
        topic: AccessAuditTopic | None = None,
        now_ns: Callable[[], int] = time_ns,
    ) -> None:
        """Without ``topic`` the service writes events only to the log."""
        self._node_id = config.node_id
        self._clock = clock
        self._topic = topic
        self._logger = logging.getLogger(AUDIT_LOGGER)
        self._logger.setLevel(_LEVELS[config.barnabas_audit_log_level.upper()])
        self.audit = AccessAudit(
            AuditLimits(
                window_ms=config.barnabas_audit_window_ms,
                denials_per_window=config.barnabas_audit_denials_per_window,
                kinds_max=config.barnabas_audit_kinds_max,
                queue_max=config.barnabas_audit_queue_max,
                denials_of_caller_max=config.barnabas_audit_denials_per_caller,
            ),
            now_ns=now_ns,
            timer=perf_counter,
            on_event=self._on_event,
            wants_allowed=topic is not None or self._logger.isEnabledFor(logging.DEBUG),
        )
        self.lines_written = 0
        self._reported_dropped = 0
        self._flush_timer: asyncio.TimerHandle | None = None
        self._window_timer: asyncio.TimerHandle | None = None
        self._handed_over: queue.Queue[Sequence[AccessEvent] | None] = queue.Queue(_HANDED_OVER_MAX)
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """The number of decisions that are missing from the log or the topic."""
        return self.audit.dropped

    @property
    def records_written(self) -> int:
        return 0 if self._topic is None else self._topic.records_written

    def start(self) -> None:
        """Create the topic and append to it from now on; the node must be a member of the cluster."""
        if self._topic is not None:
            self._topic.start()

    async def flush(self) -> None:
        """Write all waiting events while the topic still accepts appends."""
        self._take(is_last=True)
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._end, thread)
        if self._topic is not None:
            await self._topic.flush()

    async def stop(self) -> None:
        for timer in (self._flush_timer, self._window_timer):
            if timer is not None:
                timer.cancel()
        await self.flush()
        if self._topic is not None:
            self._topic.stop()

    # --- on the loop

    def _on_event(self) -> None:
        if self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(_LINGER_S, self._flush_due)

    def _flush_due(self) -> None:
        self._flush_timer = None
        self._take()
        end_ms = self.audit.window_end_ms
        if end_ms is not None and self._window_timer is None:
            wait_s = max(end_ms - self._clock.now_ms(), 0) / 1000
            self._window_timer = asyncio.get_running_loop().call_later(wait_s, self._window_due)

    def _window_due(self) -> None:
        self._window_timer = None
        self._flush_due()

    def _take(self, *, is_last: bool = False) -> None:
        now_ms = self._clock.now_ms()
        events = self.audit.take(now_ms, is_last=is_last)
        if events:
            self._hand_over(events)
        if self._topic is not None:
            self.audit.dropped += self._topic.take_dropped()
        if self.audit.dropped != self._reported_dropped:
            self._report_dropped(now_ms)

    def _report_dropped(self, now_ms: int) -> None:
        dropped, self._reported_dropped = self.audit.dropped - self._reported_dropped, self.audit.dropped
        log.warning(
            "%d decisions are missing from the access audit, %d since the start: more occurred than it can hold "
            "(barnabas.audit.kinds.max, barnabas.audit.queue.max) or write",
            dropped,
            self.audit.dropped,
        )
        if self._topic is not None:
            self._topic.record_dropped(now_ms, dropped, self.audit.dropped)

    def _hand_over(self, events: Sequence[AccessEvent]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="access-audit", daemon=True)
            self._thread.start()
            if self._topic is not None:
                self._topic.loop = asyncio.get_running_loop()
        try:
            self._handed_over.put_nowait(events)
        except queue.Full:
            self.audit.dropped += sum(event.decisions for event in events)

    def _end(self, thread: threading.Thread) -> None:
        try:
            self._handed_over.put(None, timeout=_STOP_TIMEOUT_S)
            thread.join(_STOP_TIMEOUT_S)
        except queue.Full:
            log.warning("the last events of the access audit were not written in time")

    # --- on the thread

    def _write_all(self) -> None:
        while (events := self._handed_over.get()) is not None:
            try:
                self._write(events)
            except Exception:
                log.exception("%d events of the access audit could not be written", len(events))

    def _write(self, events: Sequence[AccessEvent]) -> None:
        for event in events:
            level = logging.DEBUG if event.allowed else logging.INFO
            if self._logger.isEnabledFor(level):
                fields = {"access": decision_fields(event, self._node_id)}
                self._logger.log(level, "%s", log_line(event), extra=fields)
                self.lines_written += 1
        if self._topic is not None:
            self._topic.write(events)


def audit_of(core: NodeCore, broker: BrokerPart | None) -> AccessAuditService:
    """Create the node's audit and set it on its authorizer. Only a broker appends to a topic."""
    config = core.config
    topic = None
    if broker is not None and config.barnabas_audit_topic_enable:
        topic = AccessAuditTopic(config, metadata=core.metadata, replicas=broker.replicas, controller=broker.channel)
    service = AccessAuditService(config, clock=core.clock, topic=topic)
    core.authorizer.audit = service.audit
    return service
