"""Watch how much log the server keeps for the slot: in the task's metrics, and as warnings in the worker's log."""

from __future__ import annotations

import logging
import time

from barnabas.connect.plugins.api import TaskContext
from barnabas.connect_spark.connectors.postgresql.catalogue import Catalogue
from barnabas.connect_spark.connectors.postgresql.settings import ChangesSettings
from barnabas.connect_spark.connectors.postgresql.slot_setup import lost_slot

__all__ = ["SlotLag"]

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 5.0
_WARN_EVERY_S = 300.0


class SlotLag:
    def __init__(self, settings: ChangesSettings, catalogue: Catalogue, context: TaskContext) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._context = context
        self._looked_at_s = self._warned_at_s = -_WARN_EVERY_S

    def look(self) -> None:
        """Ask the server, if it is time. Raise psycopg.Error, and TerminalError if the slot is lost."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s < _LOOK_EVERY_S:
            return
        self._looked_at_s = now_s
        state = self._catalogue.slot(self._settings.slot)
        if state is None:
            raise lost_slot(self._settings, "was dropped", None)
        if state.wal_status == "lost":
            raise lost_slot(self._settings, "was invalidated: its log was removed (max_slot_wal_keep_size)", None)
        self._context.report("slot_lag_bytes", "Log that the database keeps for the slot, in bytes.", state.lag_bytes)
        self._context.report(
            "slot_unconfirmed_bytes",
            "Log that was written after the last position that is safe in Kafka, in bytes.",
            state.unconfirmed_bytes,
        )
        is_high = state.lag_bytes > self._settings.lag_warn_bytes or state.wal_status == "unreserved"
        if is_high and now_s - self._warned_at_s >= _WARN_EVERY_S:
            self._warned_at_s = now_s
            log.warning(
                "the replication slot %s of %s keeps %d bytes of log (slot.lag.warn.bytes=%d, wal_status=%s). They "
                "fill the disk of the database if task %s-%s can't catch up: look for transactions that stay open, "
                "and for a slow or paused task",
                self._settings.slot,
                self._settings.login.name,
                state.lag_bytes,
                self._settings.lag_warn_bytes,
                state.wal_status,
                self._context.connector,
                self._context.task,
            )
