"""Decide from the record of an earlier run whether this run resumes or starts over. Pure: it performs no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from barnabas.pipelines.errors import PipelineError

__all__ = ["RunRecord", "RunState", "StartingPoint", "starting_point"]


class RunState(StrEnum):
    STARTING = "starting"
    """The results of an earlier run are being removed, and none of them is valid."""
    STREAMING = "streaming"
    """Topics, connectors and tables belong together, and the next run may resume with them."""
    FINISHED = "finished"
    """The tables were checked against the source, and the plot was drawn."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    bootstrap_server: str | None
    """The cluster that the caller named; None when the run has a node of its own."""
    topic: str
    flights: int
    partitions: int
    state: RunState = RunState.STARTING
    topic_id: str | None = None
    """The id of the topic that a run created, and may therefore delete."""


@dataclass(frozen=True, slots=True)
class StartingPoint:
    resumes: bool
    text: str
    """A line for the person at the terminal."""


def starting_point(
    former: RunRecord | None,
    wanted: RunRecord,
    *,
    topic_id: str | None,
    others: Sequence[str] = (),
    is_restart: bool,
) -> StartingPoint:
    """Return where the run starts.

    ``topic_id`` is the id of the existing topic, if any. ``others`` are existing topics with names that the run needs
    for its own topics: that of the second half, and those of the worker.

    Raise PipelineError for a topic on an external cluster that no run in this folder created. On a node of our
    own, every topic of that name is ours.
    """
    if wanted.bootstrap_server is not None and topic_id is not None and not _is_ours(former, wanted, topic_id):
        raise PipelineError(
            f"topic {wanted.topic} exists already at {wanted.bootstrap_server}, and no run in this folder created it. "
            "It is left as it is. Choose another name with --topic, or delete it yourself."
        )
    if wanted.bootstrap_server is not None and others and not _was_here(former, wanted):
        raise PipelineError(
            f"{', '.join(others)} at {wanted.bootstrap_server}: topics of these names exist already, and no run "
            "in this folder created them. They are left as they are. Choose another name with --topic, or delete them."
        )
    if former is None:
        return StartingPoint(False, "this is the first run here")
    if is_restart:
        return StartingPoint(False, "starting over because of --fresh")
    if former.state is RunState.FINISHED:
        return StartingPoint(False, "the last run here was finished: starting over, its topic and results are replaced")
    if former.state is RunState.STARTING:
        return StartingPoint(False, "the last run here had not begun to stream: starting over")
    if _work(former) != _work(wanted):
        return StartingPoint(False, "the last run here was interrupted, but had other settings: starting over")
    if former.topic_id != topic_id:
        return StartingPoint(False, "the last run here was interrupted, but its topic was deleted: starting over")
    return StartingPoint(True, "the last run here was interrupted: resuming it")


def _is_ours(former: RunRecord | None, wanted: RunRecord, topic_id: str) -> bool:
    return former is not None and _was_here(former, wanted) and former.topic_id == topic_id


def _was_here(former: RunRecord | None, wanted: RunRecord) -> bool:
    """A run writes its record only after it has checked that none of its topics belongs to another owner."""
    return former is not None and former.bootstrap_server == wanted.bootstrap_server and former.topic == wanted.topic


def _work(record: RunRecord) -> tuple[str | None, str, int, int]:
    return record.bootstrap_server, record.topic, record.flights, record.partitions
