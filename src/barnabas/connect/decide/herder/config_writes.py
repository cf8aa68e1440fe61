"""The leader's writes to the config topic, so that a former leader can't write any more (KIP-618).

With ``exactly.once.source.support`` ``preparing`` or ``enabled`` the leader writes with a transactional producer, which
fences the one of the leader before it. A new leader claims the topic when it receives its assignment, and reads the
topic to its end: what it decides afterwards is based on everything that an earlier leader could write.

After a failed write the topic is claimed again before the next one. The producer may have been fenced, also by a former
leader that was slow; the present leader takes the topic back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.decide.herder.herder_settings import ExactlyOnceSupport, HerderSettings
from barnabas.connect.decide.herder.outside import Outside
from barnabas.connect.decide.herder.turn import Turn
from barnabas.connect.errors import ConnectError, NotLeader

__all__ = ["ConfigWrites"]

_PAUSE_MS = 250

log = logging.getLogger(__name__)


class ConfigWrites:
    def __init__(self, outside: Outside, is_leader: Callable[[], bool], settings: HerderSettings) -> None:
        self._outside = outside
        self._is_leader = is_leader
        self._read_timeout_ms = settings.write_timeout_ms
        self._is_transactional = settings.exactly_once is not ExactlyOnceSupport.DISABLED
        self._turn = Turn(outside)
        self._assignments = 0
        self._claimed_at: int | None = None
        """The assignment for which the topic was claimed; None if it must be claimed again."""

    def assigned(self) -> None:
        """Note a new assignment: another worker may have led the group meanwhile."""
        self._assignments += 1
        if self._is_transactional and self._is_leader():
            self._outside.start(self._claim_soon())

    async def ensure_claimed(self) -> None:
        """Claim the topic if it is not claimed. Raise ConnectError or OSError."""
        if self._is_transactional:
            async with self._turn:
                await self._claim()

    async def write(self, records: Sequence[ConfigRecord]) -> None:
        """Write records as one batch. Raise ConnectError or OSError; then they may be in the topic nevertheless."""
        if not self._is_transactional:
            await self._outside.write_configs(records)
            return
        async with self._turn:
            await self._claim()
            try:
                await self._outside.write_configs_as_leader(records)
            except (ConnectError, OSError):
                self._claimed_at = None
                raise

    async def _claim(self) -> None:
        """The caller has the turn."""
        while self._claimed_at != self._assignments:
            if not self._is_leader():
                raise NotLeader("Only the leader may write to the config topic.", None)
            assignment = self._assignments
            await self._outside.claim_config_topic()
            await self._outside.read_configs_to_end(self._read_timeout_ms)
            self._claimed_at = assignment

    async def _claim_soon(self) -> None:
        while self._is_leader():
            try:
                await self.ensure_claimed()
                return
            except NotLeader:
                return
            except (ConnectError, OSError) as error:
                log.warning("the config topic could not be claimed as the leader: %s; trying again", error)
                await self._outside.sleep(_PAUSE_MS)
