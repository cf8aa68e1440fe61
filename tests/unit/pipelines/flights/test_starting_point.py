from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.starting_point import RunRecord, RunState, StartingPoint, starting_point

WANTED = RunRecord(bootstrap_server=None, topic="flights", flights=100, partitions=4)
INTERRUPTED = replace(WANTED, state=RunState.STREAMING, topic_id="first")
FOREIGN = replace(WANTED, bootstrap_server="kafka:9092")


def start(former: RunRecord | None, wanted: RunRecord = WANTED, *, topic_id: str | None = "first") -> StartingPoint:
    return starting_point(former, wanted, topic_id=topic_id, is_restart=False)


def test_an_interrupted_run_resumes() -> None:
    assert start(INTERRUPTED).resumes


def test_an_interrupted_run_starts_over_on_request() -> None:
    assert not starting_point(INTERRUPTED, WANTED, topic_id="first", is_restart=True).resumes


@pytest.mark.parametrize(
    ("former", "topic_id", "text"),
    [
        (None, None, "first run"),
        (replace(INTERRUPTED, state=RunState.FINISHED), "first", "was finished"),
        (replace(INTERRUPTED, state=RunState.STARTING), "first", "had not begun"),
        (replace(INTERRUPTED, flights=99), "first", "other settings"),
        (replace(INTERRUPTED, partitions=1), "first", "other settings"),
        (INTERRUPTED, None, "topic was deleted"),
        (INTERRUPTED, "second", "topic was deleted"),
    ],
)
def test_any_other_run_starts_over_and_reports_why(former: RunRecord | None, topic_id: str | None, text: str) -> None:
    point = start(former, topic_id=topic_id)
    assert not point.resumes
    assert text in point.text


@pytest.mark.parametrize(
    "former",
    [
        None,
        INTERRUPTED,
        replace(FOREIGN, state=RunState.STREAMING, topic_id="another"),
        replace(FOREIGN, topic="other", state=RunState.FINISHED, topic_id="first"),
    ],
)
def test_a_topic_of_a_foreign_cluster_that_the_run_did_not_create_is_not_used(former: RunRecord | None) -> None:
    with pytest.raises(PipelineError, match=r"exists already at kafka:9092.*--topic"):
        start(former, FOREIGN)


def test_the_other_topics_of_the_run_are_not_replaced_on_a_foreign_cluster() -> None:
    with pytest.raises(PipelineError, match=r"flights-second-half at kafka:9092.*--topic"):
        starting_point(None, FOREIGN, topic_id=None, others=["flights-second-half"], is_restart=False)
    deleted_by_hand = replace(FOREIGN, state=RunState.FINISHED, topic_id="first")
    point = starting_point(deleted_by_hand, FOREIGN, topic_id=None, others=["flights-second-half"], is_restart=False)
    assert not point.resumes
    assert starting_point(None, WANTED, topic_id=None, others=["flights-connect-configs"], is_restart=False)


@pytest.mark.parametrize("state", RunState)
def test_a_topic_that_the_run_created_on_a_foreign_cluster_may_be_used_again(state: RunState) -> None:
    former = replace(FOREIGN, state=state, topic_id="first")
    assert start(former, FOREIGN).resumes is (state is RunState.STREAMING)
