"""``barnabas connect``: the requests to a worker, and the reports of its answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from barnabas.cli.connect.command import main
from tests.unit.cli.conftest import FakeWorker, Reply

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(worker: FakeWorker, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def state(name: str, connector: str, *tasks: str, trace: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "connector": {"state": connector, "worker_id": "10.0.0.1:8083"},
        "tasks": [
            {"id": number, "state": task, "worker_id": "10.0.0.2:8083", **({"trace": trace} if trace else {})}
            for number, task in enumerate(tasks)
        ],
        "type": "sink",
    }


def validation(**errors: list[str]) -> dict[str, Any]:
    values = {"connector.class": [], "topics": [], **errors}
    more = {"value": "x", "recommended_values": [], "visible": True}
    configs = [
        {"definition": None, "value": {"name": key, "errors": messages, **more}} for key, messages in values.items()
    ]
    return {"name": "Files", "error_count": sum(map(len, errors.values())), "groups": [], "configs": configs}


EXPANDED = "GET /connectors?expand=status&expand=info"
VALIDATE = "PUT /connector-plugins/Files/config/validate"
FILES = ["--config", "connector.class=Files", "--config", "topics=orders"]


def test_connectors_are_listed_with_the_states_of_their_tasks(worker: FakeWorker, run: Run) -> None:
    info = {"config": {"connector.class": "Files"}}
    orders = {"status": state("orders", "RUNNING", "RUNNING", "FAILED", "RUNNING"), "info": info}
    worker.replies_to(EXPANDED, (200, {"payments": {"status": state("payments", "PAUSED")}, "orders": orders}))
    status, out, _ = run("list")
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [
        ["connector", "type", "state", "tasks", "class"],
        ["orders", "sink", "RUNNING", "2", "RUNNING,", "1", "FAILED", "Files"],
        ["payments", "sink", "PAUSED"],
    ]
    status, out, _ = run("list", "--state", "failed", "-o", "json")
    assert [row["connector"] for row in json.loads(out)["connectors"]] == ["orders"]


def test_a_status_names_workers_and_the_reasons_of_failures(worker: FakeWorker, run: Run) -> None:
    trace = "ConnectException: no\n\tat a.B\nCaused by: IOException: disk full\n"
    worker.replies_to("GET /connectors/a%2Fb/status", (200, state("a/b", "RUNNING", "FAILED", trace=trace)))
    status, out, err = run("status", "a/b", "none")
    assert status == 1
    assert out.splitlines()[2].split() == ["a/b", "0", "FAILED", "10.0.0.2:8083"]
    assert "note: a/b task 0: ConnectException: no Caused by: IOException: disk full" in err
    assert "none: nothing at" in err
    assert "'barnabas connect list' lists" in err


def test_a_status_shows_what_needs_attention_while_everything_runs(worker: FakeWorker, run: Run) -> None:
    next_ = "It runs again after restart 7 of 10, but no batch has succeeded since."
    failure = {"time": 1, "reason": "no disk", "restarts": 7, "restarts_max": 10, "next": next_}
    found = state("orders", "RUNNING", "RUNNING", "RUNNING")
    found["connector"] |= {"dead_letter_topic": "bad", "waits_for": ["more"], "trace": "It waits for topics: more."}
    found["tasks"][0] |= {"trace": "no disk\n  at x", "last_failure": failure}
    found["tasks"][1] |= {"skipped_records": 5, "dead_letters": 4}
    worker.replies_to("GET /connectors/orders/status", (200, found))
    status, out, err = run("status", "orders")
    assert status == 0
    assert [line.split("  ")[-1].strip() for line in out.splitlines()] == [
        "attention",
        "waits for topics",
        "failing, restart 7 of 10",
        "5 records skipped, 4 dead letters",
    ]
    assert "note: orders: It waits for topics: more." in err
    assert f"note: orders task 0: no disk {next_}" in err
    assert "'barnabas connect dead-letters orders' shows them" in err
    worker.replies_to(EXPANDED, (200, {"orders": {"status": found, "info": {}}}))
    status, out, _ = run("list")
    assert "1 of 2 tasks failing; waits for topics; 5 records skipped, 4 dead letters" in out


def test_dead_letters_are_shown_with_their_reasons(worker: FakeWorker, run: Run) -> None:
    error = {"topic": "orders", "partition": "3", "offset": "7", "stage": "VALUE_CONVERTER", "exception.message": "no"}
    letter = {"partition": 0, "offset": 1, "time": 0, "key": None, "value": "{", "error": error, "headers": {}}
    line = "GET /connectors/orders/dead-letters?count=5"
    body = {"topic": "bad", "exists": True, "total": 9, "examined": 9, "letters": [letter, {**letter, "error": {}}]}
    worker.replies_to(line, (200, body))
    status, out, err = run("dead-letters", "orders", "--count", "5")
    assert status == 0
    assert "orders-3 7" in out
    assert "VALUE_CONVERTER: no" in out
    assert "topic bad has 9 records" in err
    assert "context.headers.enable=true" in err
    assert json.loads(run("dead-letters", "orders", "--count", "5", "-o", "json")[1])["letters"][0]["value"] == "{"
    worker.replies_to(line, (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
    status, _, err = run("dead-letters", "orders", "--count", "5")
    assert status == 1
    assert "the worker does not show dead letters" in err


def test_a_connector_is_validated_and_created(worker: FakeWorker, run: Run) -> None:
    worker.replies_to(EXPANDED, (200, {}))
    worker.replies_to(VALIDATE, (200, validation()))
    worker.replies_to("POST /connectors", (201, {"name": "orders"}))
    status, out, _ = run("create", "orders", *FILES, "--initial-state", "paused")
    assert (status, out) == (0, "connector orders  created (Files)\n")
    assert worker.bodies[VALIDATE] == {"connector.class": "Files", "topics": "orders", "name": "orders"}
    assert worker.bodies["POST /connectors"] == {
        "name": "orders",
        "config": {"connector.class": "Files", "topics": "orders"},
        "initial_state": "PAUSED",
    }


def test_a_dry_run_validates_and_creates_nothing(worker: FakeWorker, run: Run) -> None:
    worker.replies_to(EXPANDED, (200, {}))
    worker.replies_to(VALIDATE, (200, validation()))
    status, out, err = run("create", "orders", *FILES, "--dry-run")
    assert (status, out) == (0, "connector orders  would be created (Files)\n")
    assert "nothing was changed" in err
    assert worker.changes == []


def test_every_invalid_setting_is_named_and_nothing_is_created(worker: FakeWorker, run: Run) -> None:
    worker.replies_to(EXPANDED, (200, {}))
    errors = {
        "directory": ["Missing required configuration"],
        "format": ["x: the valid format is parquet.", "x: the valid format is parquet."],
    }
    worker.replies_to(VALIDATE, (200, validation(**errors)))
    status, out, err = run("create", "orders", *FILES, "-o", "json")
    assert status == 1
    assert [(error["item"], error["message"]) for error in json.loads(out)["errors"]] == [
        ("directory", "Missing required configuration"),
        ("format", "x: the valid format is parquet."),
    ]
    assert "next: 'barnabas connect plugin-config Files' lists" in err
    assert worker.changes == []


def test_an_existing_connector_is_not_replaced(worker: FakeWorker, run: Run) -> None:
    worker.replies_to(EXPANDED, (200, {"orders": {}}))
    status, _, err = run("create", "orders", *FILES)
    assert status == 1
    assert "orders: the connector exists already" in err
    assert run("create", "orders", *FILES, "--if-not-exists")[0] == 0
    assert worker.changes == []


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "orders", "config": {"connector.class": "Files", "tasks.max": 2, "flush": true}}',
        '{"connector.class": "Files", "tasks.max": "2", "flush": "true", "name": "orders"}',
        "name=orders\nconnector.class=Files\ntasks.max=2\nflush : true\n",
    ],
)
def test_a_file_may_contain_a_request_settings_or_properties(
    worker: FakeWorker, run: Run, tmp_path: Path, text: str
) -> None:
    (tmp_path / "orders").write_text(text)
    worker.replies_to(EXPANDED, (200, {}))
    worker.replies_to(VALIDATE, (200, validation()))
    worker.replies_to("POST /connectors", (201, {}))
    assert run("create", "--file", str(tmp_path / "orders"), "--config", "tasks.max=3")[0] == 0
    body = worker.bodies["POST /connectors"]
    assert body == {"name": "orders", "config": {"connector.class": "Files", "tasks.max": "3", "flush": "true"}}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["create", "orders"], "no settings given: use --file, or --config"),
        (["create", *FILES], "no connector given"),
        (["create", "a", "--file", "FILE"], "a and orders: a connector has only one name"),
        (["create", "orders", "--config", "topics=a"], "connector.class is missing: 'barnabas connect plugins'"),
        (["create", "orders", "--file", "/no/such"], "can't read /no/such"),
        (["pause"], "no connector given"),
        (["restart", "a", "b", "--task", "0"], "--task needs exactly one connector"),
        (["alter-offsets", "a"], "no offsets given"),
        (["alter-offsets", "a", "--offset", "orders=1"], "write topic-partition=offset"),
        (["patch", "a"], "nothing to change"),
        (["list", "--worker", "localhost:8083"], "is not the address of a worker"),
        (["list", "--worker", "http://me:secret@host:8083"], "must not contain a password"),
        (["list", "--timeout", "0"], "the timeout is too short"),
        (["list", "--key-file", "k"], "--key-file needs --cert-file"),
        (["list", "--ca-file", "/no/such"], "/no/such: No such file"),
    ],
)
def test_invalid_arguments_are_reported_before_any_request(
    worker: FakeWorker, run: Run, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    (tmp_path / "file").write_text('{"name": "orders", "config": {"connector.class": "Files"}}')
    worker.replies_to(EXPANDED, (200, {}))
    status, _, err = run(*[str(tmp_path / "file") if argument == "FILE" else argument for argument in arguments])
    assert status == 2
    assert expected in err
    assert worker.changes == []


def test_waiting_ends_when_all_tasks_run(worker: FakeWorker, run: Run) -> None:
    worker.replies_to("PUT /connectors/orders/resume", (202, None))
    worker.replies_to(
        "GET /connectors/orders/status",
        (404, {"message": "No status found"}),
        (200, state("orders", "RUNNING")),
        (200, state("orders", "RUNNING", "FAILED", "RUNNING", trace="an earlier failure")),
        (200, state("orders", "RUNNING", "RUNNING", "RUNNING")),
    )
    assert run("resume", "orders", "--wait")[0] == 0
    assert len(worker.request_lines) == 5


def test_waiting_ends_with_the_reason_when_a_task_fails(worker: FakeWorker, run: Run) -> None:
    worker.replies_to("POST /connectors/orders/restart?includeTasks=true&onlyFailed=true", (202, {}))
    worker.replies_to(
        "GET /connectors/orders/status", (200, state("orders", "RUNNING", "FAILED", trace="Boom: no\n at"))
    )
    status, out, err = run("restart", "orders", "--include-tasks", "--only-failed", "--wait")
    assert status == 1
    assert "orders: task 0 has failed: Boom: no\n  next: 'barnabas connect status orders" in err
    assert out == "connector orders  restarted\n"
    assert worker.now < 10


def test_a_wait_that_times_out_reports_the_current_states(worker: FakeWorker, run: Run) -> None:
    worker.replies_to("PUT /connectors/orders/stop", (204, None))
    worker.replies_to("GET /connectors/orders/status", (200, state("orders", "STOPPED", "RUNNING")))
    status, _, err = run("stop", "orders", "--wait", "--timeout", "7")
    assert status == 1
    assert "not STOPPED within 7 s: the connector is STOPPED, its tasks are 1 RUNNING" in err


def test_a_task_is_restarted_alone(worker: FakeWorker, run: Run) -> None:
    worker.replies_to("POST /connectors/orders/tasks/2/restart", (204, None))
    assert run("restart", "orders", "--task", "2")[0] == 0
    assert worker.changes == ["POST /connectors/orders/tasks/2/restart"]


def test_a_dry_run_of_pause_shows_the_current_state(worker: FakeWorker, run: Run) -> None:
    worker.replies_to("GET /connectors/orders/status", (200, state("orders", "RUNNING", "RUNNING")))
    status, out, _ = run("pause", "orders", "--dry-run")
    assert (status, out) == (0, "connector orders  would be paused (now RUNNING, tasks: 1 RUNNING)\n")
    assert worker.changes == []


def test_a_command_waits_for_a_rebalance_and_not_for_a_conflict(worker: FakeWorker, run: Run) -> None:
    busy = {"error_code": 409, "message": "Cannot complete request momentarily due to a rebalance"}
    worker.replies_to("DELETE /connectors/orders", (409, busy), (409, busy), (204, None))
    assert run("delete", "orders")[0] == 0
    assert worker.now == 1.0
    worker.replies_to("DELETE /connectors/orders", (409, {"message": "something else"}))
    assert run("delete", "orders")[0] == 1
    assert worker.now == 1.0
    worker.replies_to("DELETE /connectors/orders", (409, busy))
    assert run("delete", "orders", "--timeout", "3")[0] == 1
    assert worker.now <= 4.0


def test_delete_skips_missing_connectors_with_if_exists(worker: FakeWorker, run: Run) -> None:
    worker.replies_to("DELETE /connectors/orders", (204, None))
    status, out, err = run("delete", "orders", "gone", "--if-exists")
    assert (status, out) == (0, "connector orders  deleted\n")
    assert "note: gone does not exist" in err
    assert run("delete", "gone")[0] == 1


def test_an_update_names_the_changed_settings_without_their_values(worker: FakeWorker, run: Run) -> None:
    before = {"connector.class": "Files", "name": "orders", "password": "secret", "topics": "orders"}
    worker.replies_to("GET /connectors/orders/config", (200, before))
    worker.replies_to(VALIDATE, (200, validation()))
    worker.replies_to("PUT /connectors/orders/config", (200, {}))
    status, out, _ = run("update", "orders", *FILES, "--config", "tasks.max=2")
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [
        ["setting", "password", "of", "orders", "removed"],
        ["setting", "tasks.max", "of", "orders", "set"],
    ]
    assert "secret" not in out


def test_a_patch_is_validated_merged_and_sent_unmerged(worker: FakeWorker, run: Run) -> None:
    worker.replies_to("GET /connectors/orders/config", (200, {"connector.class": "Files", "a": "1", "b": "2"}))
    worker.replies_to(VALIDATE, (200, validation()))
    worker.replies_to("PATCH /connectors/orders/config", (200, {}))
    assert run("patch", "orders", "--config", "a=3", "--delete-config", "b")[0] == 0
    assert worker.bodies[VALIDATE] == {"connector.class": "Files", "a": "3", "name": "orders"}
    assert worker.bodies["PATCH /connectors/orders/config"] == {"a": "3", "b": None}


def test_offsets_are_shown_by_topic_partition_and_their_json_can_be_written_back(
    worker: FakeWorker, run: Run, tmp_path: Path
) -> None:
    sink = {"partition": {"kafka_topic": "orders", "kafka_partition": 10}, "offset": {"kafka_offset": 7}}
    second = {"partition": {"kafka_topic": "orders", "kafka_partition": 9}, "offset": {"kafka_offset": 5}}
    worker.replies_to("GET /connectors/orders/offsets", (200, {"offsets": [sink, second]}))
    _, out, _ = run("offsets", "orders")
    assert [line.split() for line in out.splitlines()[1:]] == [["orders-9", "5"], ["orders-10", "7"]]
    _, out, _ = run("offsets", "orders", "-o", "json")
    (tmp_path / "offsets.json").write_text(out)
    worker.replies_to("GET /connectors/orders/status", (200, state("orders", "STOPPED")))
    worker.replies_to("PATCH /connectors/orders/offsets", (200, {"message": "They were altered."}))
    status, out, err = run("alter-offsets", "orders", "--file", str(tmp_path / "offsets.json"))
    assert status == 0
    assert "note: They were altered." in err
    assert worker.bodies["PATCH /connectors/orders/offsets"] == {"offsets": [sink, second]}
    run("alter-offsets", "orders", "--offset", "a-b.c-3=9", "--offset", "orders-0=none")
    assert worker.bodies["PATCH /connectors/orders/offsets"]["offsets"] == [
        {"partition": {"kafka_topic": "a-b.c", "kafka_partition": 3}, "offset": {"kafka_offset": 9}},
        {"partition": {"kafka_topic": "orders", "kafka_partition": 0}, "offset": None},
    ]


def test_offsets_of_a_running_connector_are_not_changed(worker: FakeWorker, run: Run) -> None:
    position = {"partition": {"filename": "a"}, "offset": {"position": 3}}
    worker.replies_to("GET /connectors/files/offsets", (200, {"offsets": [position]}))
    worker.replies_to("GET /connectors/files/status", (200, state("files", "RUNNING", "RUNNING")))
    status, _, err = run("reset-offsets", "files")
    assert status == 1
    assert (
        "files: the connector is RUNNING, not STOPPED\n  next: stop the connector first: 'barnabas connect stop files"
        in err
    )
    worker.replies_to("GET /connectors/files/status", (200, state("files", "STOPPED")))
    status, out, _ = run("reset-offsets", "files", "--dry-run")
    assert (status, out) == (0, 'offset of {"filename": "a"}  would be forgotten\n')
    assert worker.changes == []


def test_plugins_loggers_topics_and_tasks_are_tables(worker: FakeWorker, run: Run) -> None:
    worker.replies_to("GET /connector-plugins?connectorsOnly=false", (200, [{"class": "Files", "type": "sink"}]))
    assert run("plugins", "--all")[1].split() == ["class", "type", "version", "Files", "sink"]
    key = {"name": "topics", "type": "LIST", "required": True, "default_value": None, "documentation": "Which."}
    worker.replies_to("GET /connector-plugins/Files/config", (200, [key]))
    assert run("plugin-config", "Files")[1].splitlines()[1].split() == ["topics", "LIST", "(required)", "Which."]
    worker.replies_to("GET /admin/loggers", (200, {"root": {"level": "INFO", "last_modified": None}}))
    assert run("loggers")[1].splitlines()[1].split() == ["root", "INFO"]
    worker.replies_to("PUT /admin/loggers/a.b?scope=cluster", (204, None))
    assert run("set-logger", "a.b", "--level", "debug", "--scope", "cluster")[1] == "logger a.b  set to DEBUG\n"
    worker.replies_to("GET /connectors/orders/topics", (200, {"orders": {"topics": ["b", "a"]}}))
    assert run("topics", "orders")[1].split() == ["connector", "topic", "orders", "a", "orders", "b"]
    task = {"id": {"connector": "orders", "task": 0}, "config": {"x": "y"}}
    worker.replies_to("GET /connectors/orders/tasks", (200, [task]))
    assert run("tasks", "orders")[1].splitlines()[1].split() == ["0", "x", "y"]
    worker.replies_to("GET /connectors/orders/config", (200, {"x": "y"}))
    assert json.loads(run("config", "orders", "-o", "json")[1])["config"] == {"x": "y"}


def test_health_sets_the_exit_status(worker: FakeWorker, run: Run) -> None:
    worker.replies_to("GET /health", (200, {"status": "healthy", "message": "all well"}))
    assert run("health")[0] == 0
    worker.replies_to("GET /health", (503, {"status": "starting", "message": "soon"}))
    status, out, err = run("health")
    assert status == 1
    assert "soon" in out
    assert "the worker is starting" in err
    worker.replies_to("GET /health", (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
    worker.replies_to("GET /", (200, {"version": "3.7.0"}))
    assert run("health")[0] == 0


def test_credentials_are_sent_with_the_request(
    worker: FakeWorker, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.replies_to(EXPANDED, (200, {}))
    (tmp_path / "password").write_text("pass\n")
    assert run("list", "--user", "alice", "--password-file", str(tmp_path / "password"))[0] == 0
    assert worker.requests[-1].headers["Authorization"] == "Basic YWxpY2U6cGFzcw=="
    monkeypatch.setenv("BARNABAS_CONNECT_TOKEN", "abc")
    monkeypatch.setenv("BARNABAS_CONNECT_URL", "https://connect:8443/")
    assert run("list")[0] == 0
    assert worker.requests[-1].headers["Authorization"] == "Bearer abc"
    assert worker.requests[-1].url.host == "connect"
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    status, _, err = run("list", "--user", "alice")
    assert status == 2
    assert "the password is missing" in err


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ((401, {"error_code": 401, "message": "Unauthorized"}), "authenticate with"),
        ((403, {"error_code": 403, "message": "no"}), "another role"),
        ((502, b"<html>"), "Bad Gateway"),
        ((200, b"<html>"), "is not a Connect worker"),
    ],
)
def test_a_refusal_of_the_worker_is_reported_with_advice(
    worker: FakeWorker, run: Run, reply: Reply, expected: str
) -> None:
    worker.replies_to(EXPANDED, reply)
    status, _, err = run("list")
    assert status == 1
    assert expected in err


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ReadTimeout("late")])
def test_a_worker_that_does_not_answer_is_named(worker: FakeWorker, run: Run, error: Exception) -> None:
    worker.down = error
    status, _, err = run("list", "--worker", "http://connect:1")
    assert status == 1
    assert "http://connect:1" in err
    assert "--worker or BARNABAS_CONNECT_URL sets it" in err


def test_an_unknown_setting_is_reported_and_accepted(worker: FakeWorker, run: Run) -> None:
    worker.replies_to(EXPANDED, (200, {}))
    worker.replies_to(VALIDATE, (200, validation()))
    worker.replies_to("POST /connectors", (201, {}))
    odd = ["--config", "topcs=x", "--config", "zzz=1", "--config", "consumer.override.fetch.min.bytes=1"]
    status, _, err = run("create", "orders", *FILES, *odd)
    assert (status, worker.changes) == (0, ["POST /connectors"])
    assert "topcs is not a setting of the connector; did you mean topics?" in err
    assert "zzz is not a setting of the connector\n" in err
    assert "fetch.min.bytes" not in err


def test_an_unknown_class_is_reported_as_an_error_in_connector_class(worker: FakeWorker, run: Run) -> None:
    worker.replies_to(EXPANDED, (200, {}))
    message = "Failed to find any class that implements Connector and which name matches Files"
    worker.replies_to(VALIDATE, (500, {"error_code": 500, "message": message}))
    for command in ("create", "validate"):
        status, _, err = run(command, "orders", *FILES)
        assert status == 1
        assert "connector.class: Failed to find any class" in err
        assert "'barnabas connect plugins' lists the classes" in err


def test_an_invalid_number_is_reported_once(worker: FakeWorker, run: Run) -> None:
    invalid = "Invalid value x for configuration topics: Not a number of type INT"
    null = "Invalid value null for configuration topics: Value must be non-null"
    worker.replies_to(VALIDATE, (200, validation(topics=[invalid, null])))
    _, _, err = run("validate", "orders", *FILES)
    assert invalid in err
    assert null not in err


def test_the_log_of_a_worker_is_shown_with_stack_traces(worker: FakeWorker, run: Run) -> None:
    line = {"time": 1_795_386_000_123, "level": "ERROR", "logger": "a.b", "message": "it failed\nTraceback\n  here"}
    worker.replies_to("GET /admin/logs?lines=5&level=warn&connector=orders", (200, [line]))
    status, out, _ = run("logs", "orders", "--lines", "5", "--level", "warn")
    assert status == 0
    first, trace, place = out.splitlines()[1:]
    assert first.split() == ["2026-11-22", "22:20:00.123Z", "ERROR", "it", "failed", "(a.b)"]
    assert (trace.strip(), place.strip()) == ("Traceback", "here")
    worker.replies_to("GET /admin/logs?lines=100", (200, []))
    assert "contains no matching lines" in run("logs")[2]
    worker.replies_to("GET /admin/logs?lines=100", (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
    status, _, err = run("logs")
    assert status == 1
    assert "Kafka's workers don't serve their log" in err


def test_a_file_name_given_as_a_connector_name_is_reported(run: Run) -> None:
    status, _, err = run("create", "orders.json")
    assert status == 2
    assert "If orders.json is a file, write --file orders.json" in err
