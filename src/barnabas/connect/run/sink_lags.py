"""Samples the lag of the sinks whose connectors run on this worker, for metrics and for autoscaling.

All sinks together cost three requests to the cluster at an interval, however many there are. A sink of whose lag
nothing is known at the moment has no sample.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.lag.consumer_lag import GroupLag, LagSource, SinkGroup
from barnabas.connect.decide.lag.sink_groups import SinkGroups
from barnabas.connect.identifiers import TargetState

if TYPE_CHECKING:
    from barnabas.connect.decide.herder.herder import Herder

__all__ = ["SinkLags"]

log = logging.getLogger(__name__)

_INTERVAL_S = 30.0
_LOOK_S = 2.0
"""How often to check whether the interval has become shorter."""
_SAMPLES_IN_COOL_DOWN = 4
_LATEST = "latest"


class SinkLags:
    """``begin`` and ``close`` it on the event loop. ``offset_reset`` is the worker's ``auto.offset.reset``."""

    def __init__(self, herder: Herder, source: LagSource, offset_reset: str) -> None:
        self._herder = herder
        self._source = source
        self._groups = SinkGroups(herder, offset_reset)
        self._sampling: asyncio.Task[None] | None = None
        self._lags: dict[str, int] = {}

    @property
    def lags(self) -> Mapping[str, int]:
        """Return the lag of each sink in records, of the last sample."""
        return self._lags

    def begin(self) -> None:
        self._sampling = asyncio.create_task(self._sample_repeatedly(), name="lag of sinks")

    async def close(self) -> None:
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)

    async def sample(self) -> None:
        """Take one sample of each sink."""
        sinks = self._sinks()
        found = await self._source.lags(sinks)
        self._lags = {name: lag.lag for name, lag in found.items() if lag.lag is not None}
        for name, lag in found.items():
            if lag.problem:
                log.debug("the lag of connector %s is unknown: %s", name, lag.problem)
            else:
                self._observe(name, sinks[name], lag)

    async def _sample_repeatedly(self) -> None:
        clock, sampled_s = asyncio.get_running_loop().time, -math.inf
        while True:
            interval_s = self._interval_s()
            if clock() - sampled_s >= interval_s:
                sampled_s = clock()
                try:
                    await self.sample()
                except Exception:
                    log.exception("the lag of sinks could not be sampled")
            await asyncio.sleep(min(interval_s, _LOOK_S))

    def _interval_s(self) -> float:
        """Return the interval. It is shorter while a connector may have its next change soon."""
        settings = [self._herder.autoscaling.settings_of(name) for name in self._running()]
        cool_downs = [found.cool_down_ms / 1000 / _SAMPLES_IN_COOL_DOWN for found in settings if found is not None]
        return min([_INTERVAL_S, *cool_downs])

    def _sinks(self) -> dict[str, SinkGroup]:
        """Return the sinks that run here, with partitions."""
        groups = self._groups.of_all(self._running())
        return {name: group for name, group in groups.items() if group.partitions}

    def _running(self) -> list[str]:
        """Return the connectors that run here and are not paused."""
        target_state, units = self._herder.config.target_state, self._herder.work.running()
        return [unit for unit in units if isinstance(unit, str) and target_state(unit) is TargetState.STARTED]

    def _observe(self, name: str, sink: SinkGroup, lag: GroupLag) -> None:
        known = [row for row in lag.partitions if TopicPartition(row.topic, row.partition) in sink.partitions]
        if len(known) < len(sink.partitions):
            return  # A topic is being created or deleted.
        self._herder.autoscaling.observe(
            name,
            sink.partitions,
            position=sum(row.position for row in known),
            end=sum(row.end for row in known),
            may_skip=sink.reset == _LATEST and not all(row.is_committed for row in known),
        )
