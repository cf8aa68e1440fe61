"""A query on a Spark Connect server as its worker follows it: what is noted, when, and what can't be followed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.connect.plugins.api import SourceOffset, SourceTask, TerminalError
from barnabas.connect_spark.queries.batch_gate import BatchGate, QueryEnds
from barnabas.connect_spark.queries.connector_topics import TopicRules
from barnabas.connect_spark.queries.error_policy import ErrorPolicy
from barnabas.connect_spark.queries.followed_query import FollowedQuery, refuse_unfollowable


class Query:
    name = "q-0"

    def __init__(self) -> None:
        self.recentProgress: list[Any] = []
        self.isActive = True
        self.status = {"isTriggerActive": False}
        self.error: Exception | None = None

    def finish(self, number: int, end: int, *, rows: int = 5) -> None:
        told = {
            "batchId": number,
            "batchDuration": 9,
            "sources": [{"endOffset": json.dumps({"t": {"0": end}}), "numInputRows": rows}],
        }
        self.recentProgress.append(SimpleNamespace(json=json.dumps(told)))

    @property
    def lastProgress(self) -> Any:
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


class Scene:
    def __init__(self) -> None:
        self.query = Query()
        self.gate = BatchGate()
        self.noted: list[int] = []
        self.rows: list[int] = []
        self.followed = FollowedQuery(
            self.query,
            self.gate,
            lambda ends: self.noted.append(ends[0]["t"]["0"]),
            lambda rows, _: self.rows.append(rows),
        )


def test_each_finished_batch_is_noted_once_and_one_without_records_is_passed_over() -> None:
    scene = Scene()
    scene.query.finish(0, 5)
    scene.query.finish(1, 5, rows=0)
    scene.followed._look()
    scene.query.finish(1, 7, rows=2)
    scene.followed._look()
    scene.followed._look()
    assert (scene.noted, scene.rows) == ([5, 7], [5, 2])


def test_what_a_query_that_stops_has_finished_is_noted() -> None:
    scene = Scene()
    scene.followed.begin()
    scene.query.finish(0, 5)
    scene.followed.stop()
    assert (scene.noted, scene.query.isActive, scene.followed.isActive) == ([5], False, False)


def test_a_fenced_task_notes_nothing() -> None:
    scene = Scene()
    scene.query.finish(0, 5)
    scene.gate.fence()
    with pytest.raises(QueryEnds):
        scene.followed._look()
    assert scene.noted == []


def test_a_query_that_ended_by_itself_tells_why() -> None:
    scene = Scene()
    scene.query.isActive, scene.query.error = False, RuntimeError("bad record")
    scene.followed.begin()
    scene.followed._thread.join()
    assert not scene.followed.isActive
    assert str(scene.followed.exception()) == "bad record"


class TellingTask(SourceTask):
    def offsets_of(self, ends: Sequence[Any]) -> Sequence[SourceOffset]:
        return []


_PLAIN: dict[str, str] = {}
_TOPICS = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
_LOGGED = {"errors.tolerance": "all", "errors.log.enable": "true"}


@pytest.mark.parametrize(
    ("kind", "config", "told"),
    [
        (SourceTask, _PLAIN, "override offsets_of"),
        (TellingTask, _TOPICS, "topic.creation.*"),
        (TellingTask, _LOGGED, "errors.log.enable=false"),
    ],
)
def test_what_needs_each_batch_here_is_refused_by_the_name_of_the_plugin(
    kind: type[SourceTask], config: dict[str, str], told: str
) -> None:
    task = kind(SimpleNamespace())
    rules = TopicRules.of(config, is_enabled=True)
    with pytest.raises(TerminalError, match=rf"{kind.__name__} reads a streaming DataFrame.*{re.escape(told)}"):
        refuse_unfollowable(task, rules, ErrorPolicy.of(config))


def test_a_task_that_tells_its_positions_can_be_followed() -> None:
    refuse_unfollowable(TellingTask(SimpleNamespace()), None, ErrorPolicy.of({}))
