"""The folder of a query's state: one folder for each run, which begins with an empty state.

A run's folder is Spark's checkpoint with the state in it, and what the state depends on (``plan_facts``). The run is
known among Connect's positions, so a folder that is not the run's own is never used. Folders of earlier runs are
removed when a later one has delivered its first batch; those that never finished one, when a later one begins.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.positions.checkpoints import Checkpoint, CheckpointState, fresh_checkpoint, read_state
from barnabas.connect_spark.sql.pipeline_batch import offsets_of
from barnabas.connect_spark.sql.pipeline_positions import InputOffsets, RunPosition, offsets_text, parse_offsets
from barnabas.connect_spark.sql.query_state import NEW_START, refuse_changes, refuse_unusable

__all__ = ["StateFolder", "StateRun"]

log = logging.getLogger(__name__)

_NONE = -1


@dataclass(frozen=True, slots=True)
class StateRun:
    """A run that continues, or begins."""

    position: RunPosition
    checkpoint: Checkpoint
    is_new: bool

    @property
    def delivered(self) -> int:
        """Spark's number of the last batch that was delivered, -1 for none."""
        return self.position.batch


class StateFolder:
    def __init__(self, location: Path, connector: str) -> None:
        """``location`` may have the states of several connectors."""
        safe = re.sub(r"[^A-Za-z0-9._-]", lambda found: f"%{ord(found[0]):02x}", connector)
        self._folder = location / (f"%2e{safe[1:]}" if safe.startswith(".") else safe)

    def begin(self, facts: Mapping[str, Any], starts: InputOffsets, *, now_ms: int) -> StateRun:
        """Begin a run with an empty state, at ``starts`` of the inputs."""
        runs = self._runs()
        run = max([now_ms, *(known + 1 for known in runs)])
        for earlier in runs:  # A task that fails in its first batch leaves one at each start.
            state = read_state(self._folder / str(earlier))
            if state is not None and state.finished is None:
                self._remove(earlier)
        checkpoint = fresh_checkpoint(self._folder / str(run), now_ms=run, start=offsets_text(starts), work=facts)
        return StateRun(RunPosition(run, _NONE), checkpoint, is_new=True)

    def resume(
        self, position: RunPosition, facts: Mapping[str, Any], offsets: InputOffsets, delivered_id: int | None
    ) -> StateRun:
        """Continue a run. ``delivered_id`` is that of the last batch which the output itself knows to be delivered.

        Raise TerminalError for a state that can't be used.
        """
        folder = self._folder / str(position.run)
        state = read_state(folder)
        if state is not None:
            refuse_changes(state.work, facts)
            _warn_of_filters(state.work, facts)
            _refuse_altered(state, position, offsets)
        if delivered_id is not None and delivered_id >= position.run:
            position = RunPosition(position.run, max(position.batch, delivered_id - position.run))
        refuse_unusable(state, position.batch, str(folder))
        return StateRun(position, Checkpoint(folder, position.run, is_resumed=True), is_new=False)

    def remove_earlier(self, run: int) -> None:
        """Remove the folders of earlier runs."""
        for earlier in self._runs():
            if earlier < run:
                self._remove(earlier)

    def _remove(self, run: int) -> None:
        shutil.rmtree(self._folder / str(run), ignore_errors=True)

    def _runs(self) -> list[int]:
        return [int(path.name) for path in self._folder.glob("*") if path.name.isdigit()]


def _warn_of_filters(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    if before.get("filters") != after.get("filters"):
        log.warning(
            "the conditions of the query have changed below what has state (%s became %s): the state keeps what it has "
            "of rows of the earlier ones",
            " and ".join(before.get("filters", ())) or "none",
            " and ".join(after.get("filters", ())) or "none",
        )


def _refuse_altered(state: CheckpointState, position: RunPosition, offsets: InputOffsets) -> None:
    """Refuse positions of the inputs that a user has set: the state has read up to others."""
    read, others = _ends(state, position.batch), _others(state, position.batch)
    for name, of_input in read.items():
        for partition, end in of_input.items():
            given = offsets.get(name, {}).get(partition)
            if given != end and given not in [found.get(name, {}).get(partition) for found in others]:
                raise TerminalError(
                    f"the offset of {partition} of the input {name} is {'deleted' if given is None else given}, and "
                    f"the state of the query has read up to {end}. Set it to {end} again, or {NEW_START}."
                )


def _others(state: CheckpointState, batch: int) -> list[InputOffsets]:
    """Return where the inputs may be instead of where ``batch`` ended.

    Positions are records of several partitions. Without a transaction a crash may leave only some of them, before
    Spark has noted the batch as finished: those of the inputs, or that of the state, are then one batch behind.
    """
    if state.planned is None or state.planned == state.finished:
        return []
    others = [_ends(state, number) for number in (state.planned - 1, state.planned) if number != batch]
    return [*others, {}] if state.planned == 0 else others  # Before the first batch they may be unwritten.


def _ends(state: CheckpointState, batch: int) -> InputOffsets:
    """Return where a batch ended; the run began there if it is that before the first one."""
    if batch == _NONE:  # Nothing is read yet unless the first batch is planned: the run begins where its inputs are.
        return {} if state.planned is None or state.start is None else parse_offsets(str(state.start))
    ends, work = state.ends.get(batch), dict[str, Any](state.work)
    return {} if ends is None else offsets_of(work["sources"], ends)
