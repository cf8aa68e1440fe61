"""A query on a Spark Connect server, followed by its worker: recorded positions, and features it can't follow."""

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
        progress = {
            "batchId": number,
            "batchDuration": 9,
            "sources": [{"endOffset": json.dumps({"t": {"0": end}}), "numInputRows": rows}],
        }
        self.recentProgress.append(SimpleNamespace(json=json.dumps(progress)))

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


def test_each_finished_batch_is_recorded_once_and_an_empty_one_is_skipped() -> None:
    scene = Scene()
    scene.query.finish(0, 5)
    scene.query.finish(1, 5, rows=0)
    scene.followed._look()
    scene.query.finish(1, 7, rows=2)
    scene.followed._look()
    scene.followed._look()
    assert (scene.noted, scene.rows) == ([5, 7], [5, 2])


def test_finished_batches_of_a_stopping_query_are_recorded() -> None:
    scene = Scene()
    scene.followed.begin()
    scene.query.finish(0, 5)
    scene.followed.stop()
    assert (scene.noted, scene.query.isActive, scene.followed.isActive) == ([5], False, False)


def test_a_fenced_task_records_nothing() -> None:
    scene = Scene()
    scene.query.finish(0, 5)
    scene.gate.fence()
    with pytest.raises(QueryEnds):
        scene.followed._look()
    assert scene.noted == []


def test_a_query_that_ended_unexpectedly_reports_the_reason() -> None:
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
    ("kind", "config", "advice"),
    [
        (SourceTask, _PLAIN, "override offsets_of"),
        (TellingTask, _TOPICS, "topic.creation.*"),
        (TellingTask, _LOGGED, "errors.log.enable=false"),
    ],
)
def test_features_that_need_every_batch_in_the_worker_are_refused_with_the_plugins_name(
    kind: type[SourceTask], config: dict[str, str], advice: str
) -> None:
    task = kind(SimpleNamespace())
    rules = TopicRules.of(config, is_enabled=True)
    with pytest.raises(TerminalError, match=rf"{kind.__name__} reads a streaming DataFrame.*{re.escape(advice)}"):
        refuse_unfollowable(task, rules, ErrorPolicy.of(config))


def test_a_task_that_defines_offsets_of_can_be_followed() -> None:
    refuse_unfollowable(TellingTask(SimpleNamespace()), None, ErrorPolicy.of({}))
