"""The connectors of the run over REST, against a simulated worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.connect.rest.connect_client import RequestRefused, WorkerUnreachable
from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights import flight_connectors as module
from barnabas.pipelines.flights.flight_connectors import FlightConnectors, connector_configs, failure_of
from barnabas.pipelines.flights.flight_topic import FlightTopics
from barnabas.pipelines.flights.run_directory import RunDirectory


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Worker:
    """Configs and states by connector; tasks stop after ``stopping`` status requests."""

    url = "http://worker"

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.states: dict[str, list[str]] = {}
        self.trace = ""
        self.requests: list[str] = []
        self.stopping = 2

    def connectors(self) -> dict[str, Any]:
        return {name: {} for name in self.configs}

    def config(self, name: str) -> dict[str, str]:
        if name not in self.configs:
            raise RequestRefused(404, "not found")
        return self.configs[name]

    def put_config(self, name: str, config: dict[str, str]) -> None:
        self.requests.append(f"put {name}")
        self.configs[name] = {"name": name, **config}

    def status(self, name: str) -> dict[str, Any]:
        if name not in self.states:
            raise RequestRefused(404, "no status")
        states = self.states[name]
        if "stop" in self.requests and states:
            self.stopping -= 1
            if not self.stopping:
                states.clear()
        tasks = [{"id": number, "state": task_state, "trace": self.trace} for number, task_state in enumerate(states)]
        return {"connector": {"state": "RUNNING"}, "tasks": tasks}

    def change_state(self, name: str, verb: str) -> None:
        self.requests.append(verb)

    def delete(self, name: str) -> None:
        assert not self.states.get(name)
        self.requests.append(f"delete {name}")
        del self.configs[name]


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(module, "time", time)
    return time


def recording_connectors(
    worker: Worker, *names: str, check: Callable[[], None] = lambda: None
) -> tuple[FlightConnectors, list[str]]:
    messages: list[str] = []
    configs = {name: {"connector.class": "Files"} for name in names}
    return FlightConnectors(worker, configs, check, messages.append), messages  # type: ignore[arg-type]


def test_connectors_that_match_the_wanted_configuration_are_unchanged() -> None:
    worker = Worker()
    worker.configs = {"a": {"name": "a", "connector.class": "Files"}, "b": {"name": "b", "connector.class": "Other"}}
    connectors, _ = recording_connectors(worker, "a", "b", "c")
    connectors.create()
    assert worker.requests == ["put b", "put c"]


def test_connectors_are_deleted_when_their_tasks_have_stopped(time: Time) -> None:
    worker = Worker()
    worker.configs, worker.states = {"a": {}, "foreign": {}}, {"a": ["RUNNING"]}
    connectors, _ = recording_connectors(worker, "a", "b")
    connectors.remove()
    assert worker.requests == ["stop", "delete a"]


def test_tasks_that_do_not_stop_are_reported(time: Time) -> None:
    worker = Worker()
    worker.stopping = 1_000_000
    worker.configs, worker.states = {"a": {}}, {"a": ["RUNNING"]}
    with pytest.raises(PipelineError, match="the tasks of a did not stop. See http://worker/connectors/a/status"):
        recording_connectors(worker, "a")[0].remove()


def test_a_failed_task_is_reported_once_and_ends_the_run_only_if_it_stays_failed(time: Time) -> None:
    worker = Worker()
    worker.states, worker.trace = {"a": ["FAILED"]}, "Boom: no space\n  at x"
    connectors, messages = recording_connectors(worker, "a")
    for _ in range(3):
        connectors.check_tasks()
        time.now += 10
    assert messages == ["connector a has failed, and its worker restarts it: Boom: no space"]
    worker.states["a"] = ["RUNNING"]
    connectors.check_tasks()
    worker.states["a"] = ["FAILED"]
    connectors.check_tasks()
    time.now += 59
    connectors.check_tasks()
    time.now += 2
    with pytest.raises(PipelineError, match="a stays failed: Boom: no space"):
        connectors.check_tasks()


def test_states_are_requested_at_most_once_per_interval(time: Time) -> None:
    worker = Worker()
    worker.states = {"a": ["FAILED"]}
    connectors, messages = recording_connectors(worker, "a")
    connectors.check_tasks(every=1.0)
    worker.states = {"a": ["RUNNING"]}
    time.now += 0.5
    connectors.check_tasks(every=1.0)
    assert connectors._failed_since
    time.now += 1.0
    connectors.check_tasks(every=1.0)
    assert not connectors._failed_since
    assert len(messages) == 1


def test_waiting_for_tasks_ends_when_all_run_or_after_five_minutes(time: Time) -> None:
    worker = Worker()
    connectors, _ = recording_connectors(worker, "a")
    with pytest.raises(PipelineError, match="a: no task was running after 300 s"):
        connectors.await_running()
    worker.states = {"a": ["RUNNING"]}
    connectors.await_running()


def test_the_reason_why_a_worker_ended_is_reported() -> None:
    worker = Worker()

    def down(name: str) -> dict[str, str]:
        raise WorkerUnreachable("refused")

    def check() -> None:
        raise PipelineError("the worker ended with status -9")

    worker.config = down  # type: ignore[method-assign]
    with pytest.raises(PipelineError, match="ended with status -9"):
        recording_connectors(worker, "a", check=check)[0].create()
    with pytest.raises(PipelineError, match="refused"):
        recording_connectors(worker, "a")[0].create()


def test_the_reason_of_a_failure_is_the_first_line_of_its_trace() -> None:
    assert failure_of(None) is None
    assert failure_of({"connector": {"state": "RUNNING"}, "tasks": [{"state": "RESTARTING"}]}) is None
    assert failure_of({"connector": {"state": "FAILED", "trace": "\n no\n at"}, "tasks": []}) == "no"
    assert failure_of({"connector": {"state": "RUNNING"}, "tasks": [{"state": "FAILED"}]}) == "for no known reason"


def test_all_connectors_read_both_topics_by_one_pattern(tmp_path: Path) -> None:
    topics = FlightTopics("127.0.0.1:1", "a.b", flights=7, partitions=1)
    configs = connector_configs(topics, RunDirectory(tmp_path), 5)
    assert {config["topics.regex"] for config in configs.values()} == {"a[.]b(-second-half)?"}
    assert sorted(configs) == ["a.b-delays", "a.b-to-database", "a.b-to-files"]
    assert [topics.of(row) for row in (0, 3, 4, 6)] == ["a.b", "a.b", "a.b-second-half", "a.b-second-half"]
