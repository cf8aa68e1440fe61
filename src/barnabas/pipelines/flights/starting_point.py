"""Decide from what a former run left whether this one goes on or starts over. Pure: looks only at what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from barnabas.pipelines.errors import PipelineError

__all__ = ["RunRecord", "RunState", "StartingPoint", "starting_point"]


class RunState(StrEnum):
    STARTING = "starting"
    """What a former run left is being removed: nothing of it counts any more."""
    STREAMING = "streaming"
    """Topics, connectors and tables belong together, and whoever comes may go on with them."""
    FINISHED = "finished"
    """The tables were checked against the source, and the plot is drawn."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    bootstrap_server: str | None
    """Of the cluster that the caller named; None when the run has a node of its own."""
    topic: str
    flights: int
    partitions: int
    state: RunState = RunState.STARTING
    topic_id: str | None = None
    """Of the topic that we made, and may therefore delete."""


@dataclass(frozen=True, slots=True)
class StartingPoint:
    resumes: bool
    text: str
    """For the person who watches."""


def starting_point(
    former: RunRecord | None,
    wanted: RunRecord,
    *,
    topic_id: str | None,
    others: Sequence[str] = (),
    is_fresh_asked: bool,
) -> StartingPoint:
    """``topic_id`` is that of the topic which is there now, if any. ``others`` are topics with names that the run would
    give to its own: of the second half, of the worker.

    A topic on somebody else's cluster that we did not make is never touched: raises PipelineError. On a node of our
    own, whatever has the topic's name is ours.
    """
    if wanted.bootstrap_server is not None and topic_id is not None and not _is_ours(former, wanted, topic_id):
        raise PipelineError(
            f"topic {wanted.topic} exists already at {wanted.bootstrap_server}, and no run in this folder made it. "
            "It is left as it is. Choose another name with --topic, or delete it yourself."
        )
    if wanted.bootstrap_server is not None and others and not _was_here(former, wanted):
        raise PipelineError(
            f"{', '.join(others)} at {wanted.bootstrap_server}: topics of these names are there already, and no run "
            "in this folder made them. They are left as they are. Choose another name with --topic, or delete them."
        )
    if former is None:
        return StartingPoint(False, "this is the first run here")
    if is_fresh_asked:
        return StartingPoint(False, "starting over, as --fresh asks")
    if former.state is RunState.FINISHED:
        return StartingPoint(False, "the last run here was finished: starting over, its topic and results are replaced")
    if former.state is RunState.STARTING:
        return StartingPoint(False, "the last run here had not begun to stream: starting over")
    if _work(former) != _work(wanted):
        return StartingPoint(False, "the last run here was interrupted, but had other settings: starting over")
    if former.topic_id != topic_id:
        return StartingPoint(False, "the last run here was interrupted, but its topic is gone: starting over")
    return StartingPoint(True, "the last run here was interrupted: going on where it was")


def _is_ours(former: RunRecord | None, wanted: RunRecord, topic_id: str) -> bool:
    return former is not None and _was_here(former, wanted) and former.topic_id == topic_id


def _was_here(former: RunRecord | None, wanted: RunRecord) -> bool:
    """A run writes its record only when it has seen that none of its topics was somebody else's."""
    return former is not None and former.bootstrap_server == wanted.bootstrap_server and former.topic == wanted.topic


def _work(record: RunRecord) -> tuple[str | None, str, int, int]:
    return record.bootstrap_server, record.topic, record.flights, record.partitions
