"""``barnabas sql``: its statements on a simulated cluster, worker and Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.sql.command import main
from barnabas.cli.sql.shell_settings import ShellSettings
from barnabas.clients.admin import OffsetSpec, Results
from barnabas.clients.admin.errors import admin_error
from barnabas.clients.admin.partitions import ListedOffset
from barnabas.clients.admin.topic_description import TopicDescription, TopicPartitionInfo
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.spark.errors import SparkUnavailable
from tests.unit.cli.conftest import FakeAdmin, FakeWorker

CONNECTORS = "GET /connectors?expand=status&expand=info"
VALIDATE = "PUT /connector-plugins/SqlPipeline/config/validate"
Run = Callable[..., tuple[int, str, str]]


class FakeSpark:
    """Records what a shell asks of Spark. ``rows`` are the answer to each statement."""

    running: list[FakeSpark] = []
    columns: Sequence[str] = ("id",)
    rows: Sequence[Sequence[Any]] = ((1,), (2,))
    error: Exception | None = None

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.conf: dict[str, str] = {}
        self.packages: tuple[str, ...] | None = None
        self.defined: dict[str, tuple[Any, Mapping[str, str], Any]] = {}
        self.texts: list[str] = []
        self.limits: list[int | None] = []
        self.is_closed = False
        self.is_running = True
        FakeSpark.running.append(self)

    def start(self, conf: Mapping[str, str], packages: Sequence[str]) -> None:
        if FakeSpark.error is not None:
            raise FakeSpark.error
        if self.packages is None:
            self.conf, self.packages = dict(conf), tuple(packages)

    def set(self, name: str, value: str | None) -> None:
        if value == "refused":
            raise RuntimeError("Cannot modify the value of a static config")
        self.conf[name] = str(value)

    def define(self, name: str, declaration: Any, client: Mapping[str, str], topic_range: Any) -> None:
        self.defined[name] = (declaration, client, topic_range)

    def drop_view(self, name: str) -> bool:
        return self.defined.pop(name, None) is not None

    def run(self, text: str, rows_max: int | None = None) -> Any:
        self.texts.append(text)
        self.limits.append(rows_max)
        if text == "SELECT killed":
            self.is_running = False
            raise ConnectionRefusedError("Connection refused")
        return type("Rows", (), {"columns": self.columns, "rows": iter(self.rows)})

    def cancel(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeSpark]]:
    monkeypatch.setattr("barnabas.connect_spark.sql_shell.shell_spark.ShellSpark", FakeSpark)
    FakeSpark.running = []
    for name, value in (("columns", ("id",)), ("rows", ((1,), (2,))), ("error", None)):
        monkeypatch.setattr(FakeSpark, name, value)
    yield FakeSpark
    assert all(one_spark.is_closed for one_spark in FakeSpark.running)


@pytest.fixture
def cluster(admin: FakeAdmin) -> FakeAdmin:
    """Topics of two partitions. Partition p begins at p, and ends at 10 + p; from each time on there are 3 records."""

    async def describe_topics(names: Sequence[str]) -> Results[str, TopicDescription]:
        found = {name: _topic(name) for name in names if name in admin.topics}
        return Results(
            found,
            {
                name: admin_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, name)
                for name in names
                if name not in found
            },
        )

    async def list_offsets(partitions: Mapping[TopicPartition, OffsetSpec], **_: Any) -> Results[Any, ListedOffset]:
        offsets = {-2: 0, -1: 10}
        return Results(
            {
                partition: ListedOffset(offsets.get(spec.timestamp, 7) + partition.partition, 0, None)
                for partition, spec in partitions.items()
            },
            {},
        )

    admin.mock.describe_topics.side_effect = describe_topics
    admin.mock.list_offsets.side_effect = list_offsets
    admin.topics = ["orders", "payments", "pay.orders", "__consumer_offsets"]
    return admin


def _topic(name: str) -> TopicDescription:
    partitions = tuple(TopicPartitionInfo(number, 1, (1,), (1,)) for number in range(2))
    return TopicDescription(name, Uuid.from_int(1 << 80), False, partitions)


@pytest.fixture
def run(cluster: FakeAdmin, worker: FakeWorker, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*statements: str, options: Sequence[str] = ()) -> tuple[int, str, str]:
        arguments = [word for statement in statements for word in ("-e", statement)]
        status = main([*arguments, *options])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def pipeline(name: str, **config: str) -> dict[str, Any]:
    status = {
        "name": name,
        "type": "source",
        "connector": {"state": "RUNNING", "worker_id": "w:8083"},
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "w:8083"}],
    }
    settings = {"name": name, "connector.class": "SqlPipeline", "inputs": "orders", "query": "SELECT 1", **config}
    return {"status": status, "info": {"config": settings}}


def accepted(**errors: list[str]) -> tuple[int, Any]:
    names = {name.replace("__", "."): texts for name, texts in {"query": [], "inputs": [], **errors}.items()}
    more = {"value": "x", "recommended_values": [], "visible": True}
    configs = [{"definition": None, "value": {"name": name, "errors": texts, **more}} for name, texts in names.items()]
    return 200, {"name": "SqlPipeline", "error_count": 0, "groups": [], "configs": configs}


# ---- without Spark -------------------------------------------------------------------------------------------------


def test_topics_are_listed_without_spark(run: Run, spark: type[FakeSpark]) -> None:
    status, out, err = run("SHOW TOPICS LIKE '*ORDERS'")
    assert (status, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["topic", "partitions", "replicas"],
        ["orders", "2", "3"],
        ["pay.orders", "3", "3"],
    ]
    assert spark.running == []


def test_a_topic_is_described_by_its_offsets(run: Run, spark: type[FakeSpark]) -> None:
    status, out, _ = run("DESCRIBE pay.orders", options=["-o", "csv"])
    assert status == 0
    assert out.splitlines() == ["partition,first offset,end offset,offsets", "0,0,10,10", "1,1,11,10"]
    assert spark.running == []


def test_views_are_declared_listed_described_and_dropped(run: Run) -> None:
    status, out, err = run(
        "CREATE TEMPORARY VIEW o USING topic OPTIONS (topic 'orders', format 'json', schema 'id BIGINT', start '-1h')",
        "SHOW VIEWS; DESCRIBE o; DROP VIEW o; DROP VIEW IF EXISTS o; SHOW VIEWS",
        options=["-o", "json"],
    )
    assert status == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0] == {"view": "o", "of": "topic", "source": "orders", "format": "json"}
    assert {row["setting"]: row["value"] for row in rows[1:]} == {
        "topic": "orders", "format": "json", "schema": "id BIGINT", "start": "-1h",
    }  # fmt: skip
    assert err.splitlines() == ["view o created", "view o dropped", "view o does not exist"]


def test_a_view_of_a_missing_topic_warns_and_a_wrong_one_is_refused(run: Run) -> None:
    status, _, err = run("CREATE TEMPORARY VIEW order USING topic")
    assert status == 0
    assert "note: the topic order does not exist; did you mean orders?" in err
    status, _, err = run("CREATE TEMPORARY VIEW o USING topic OPTIONS (topic 'orders', format 'xml')")
    assert status == 1
    assert "xml is not a format" in err
    status, _, err = run("CREATE TEMPORARY VIEW o USING topic OPTIONS (topic 'orders', start 'soon')")
    assert status == 1
    assert "start soon: write earliest" in err


def test_names_that_do_not_exist_are_named_with_near_ones(run: Run, worker: FakeWorker) -> None:
    worker.replies_to(CONNECTORS, (200, {"large": pipeline("large")}))
    assert "no topic, view or pipeline is called ordres\n  next: did you mean orders?" in run("DESCRIBE ordres")[2]
    assert "no view is called v" in run("DROP VIEW v")[2]
    assert "no pipeline is called lrge\n  next: did you mean large?" in run("DROP PIPELINE lrge")[2]
    assert "no pipeline is called lrge\n  next: did you mean large?" in run("DESCRIBE PIPELINE lrge")[2]


def test_settings_are_set_listed_and_refused(run: Run) -> None:
    status, out, _ = run("SET start = -1h; SET start; RESET start; SET start", options=["-o", "csv"])
    assert status == 0
    assert out.splitlines() == ["setting,value", "start,-1h", "setting,value", "start,earliest"]
    status, _, err = run("SET strat = 1")
    assert status == 1
    assert "strat is not a setting: did you mean start?" in err


def test_help_and_exit_end_a_script(run: Run) -> None:
    status, out, _ = run("HELP; EXIT; SHOW NONSENSE")
    assert status == 0
    assert "CREATE [OR REPLACE] PIPELINE" in out
    assert run("HELP", options=["-o", "json"])[1] == out


# ---- queries ---------------------------------------------------------------------------------------------------------


def test_a_query_reads_the_records_that_a_topic_has_now(run: Run, spark: type[FakeSpark]) -> None:
    status, out, err = run("SELECT id FROM orders LIMIT 2", options=["-o", "json"])
    assert status == 0, err
    assert out == '{"id":1}\n{"id":2}\n'
    (running,) = spark.running
    assert running.texts == ["SELECT id FROM orders LIMIT 2"]
    declaration, client, topic_range = running.defined["orders"]
    assert (declaration.topic, declaration.value.class_name) == ("orders", "StringConverter")
    assert client["bootstrap.servers"] == "localhost:9092"
    assert client["isolation.level"] == "read_committed"
    assert topic_range.starts == {("orders", 0): 0, ("orders", 1): 1}
    assert topic_range.ends == {("orders", 0): 10, ("orders", 1): 11}


def test_settings_and_views_say_where_a_query_begins_and_ends(run: Run, spark: type[FakeSpark]) -> None:
    status, _, err = run(
        "CREATE TEMPORARY VIEW p USING topic OPTIONS (topic 'payments', start '0:4, 1:5')",
        "SET end = -1m",
        "SELECT * FROM orders JOIN p USING (id)",
        options=["--set", "start=last 3"],
    )
    assert status == 0, err
    ranges = {name: topic_range for name, (_, _, topic_range) in spark.running[0].defined.items()}
    assert ranges["orders"].starts == {("orders", 0): 7, ("orders", 1): 8}
    assert ranges["p"].starts == {("payments", 0): 4, ("payments", 1): 5}
    assert ranges["p"].ends == {("payments", 0): 7, ("payments", 1): 8}


def test_a_view_of_a_query_shows_the_latest_records_of_its_topics(run: Run, spark: type[FakeSpark]) -> None:
    status, _, err = run("CREATE TEMPORARY VIEW v AS SELECT * FROM orders", "SELECT * FROM v")
    assert status == 0, err
    assert list(spark.running[0].defined) == ["orders"]


def test_a_table_shows_a_limited_number_of_rows(run: Run, spark: type[FakeSpark]) -> None:
    spark.rows = [(number,) for number in range(4)]
    status, out, err = run("SELECT id FROM orders", options=["--set", "rows=3"])
    assert status == 0
    assert out.split() == ["id", "0", "1", "2"]
    assert "only the first 3 rows are shown" in err
    assert spark.running[0].limits == [4]


def test_spark_starts_with_the_settings_and_packages_that_are_needed(run: Run, spark: type[FakeSpark]) -> None:
    status, _, err = run(
        "SET spark.sql.shuffle.partitions = 4; SET packages = s3",
        "CREATE TEMPORARY VIEW c USING table OPTIONS (table 'delta:/c'); SELECT * FROM c; SET spark.x = 1",
    )
    assert status == 0, err
    (running,) = spark.running
    assert running.packages == ("delta", "s3")
    assert running.conf == {"spark.sql.shuffle.partitions": "4", "spark.x": "1"}
    status, _, err = run("SELECT 1; CREATE TEMPORARY VIEW c USING table OPTIONS (table 'delta:/c')")
    assert status == 1
    assert "c needs Spark's package delta, and Spark runs without it\n  next: start a new shell" in err


def test_a_topic_with_dots_needs_backticks(run: Run, spark: type[FakeSpark]) -> None:
    status, _, err = run("SELECT * FROM pay.orders")
    assert status == 1
    assert err.splitlines() == [
        "barnabas sql: pay.orders is a topic, and its name has dots",
        "  SELECT * FROM pay.orders",
        "                ^^^^^^^^^^",
        "  next: write it in backticks: `pay.orders`",
    ]
    assert run("SELECT * FROM `pay.orders`")[0] == 0
    assert list(spark.running[-1].defined) == ["pay.orders"]


def test_why_spark_does_not_start_is_said(run: Run, spark: type[FakeSpark], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "error", SparkUnavailable("Spark needs Java, and none was found."))
    status, _, err = run("SELECT 1")
    assert (status, err) == (1, "barnabas sql: Spark needs Java, and none was found.\n")


def test_a_java_that_was_killed_is_an_error_of_its_statement(run: Run) -> None:
    status, _, err = run("SELECT killed")
    assert status == 1
    assert err.startswith("barnabas sql: Spark has ended unexpectedly: its Java process was killed or failed\n  next: ")


def test_a_value_that_spark_refuses_is_not_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ShellSettings()
    monkeypatch.setattr("barnabas.cli.sql.command.ShellSettings", lambda: settings)
    status, _, err = run("SELECT 1; SET spark.x = refused")
    assert status == 1
    assert "Cannot modify the value of a static config" in err
    assert settings.of_spark == {}


def test_timeouts_and_warnings_are_those_of_the_properties(run: Run, cluster: FakeAdmin, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("default.api.timeout.ms=7000\nno.such.setting=1\n")
    status, _, err = run("SHOW TOPICS", options=["--command-config", str(file)])
    assert status == 0
    assert "no.such.setting" in err
    assert cluster.config.values["default.api.timeout.ms"] == 7000
    run("SHOW TOPICS", options=["--command-config", str(file), "--timeout", "9"])
    assert cluster.config.values["default.api.timeout.ms"] == 9000


def test_a_script_stops_at_its_first_error(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SHOW VIEWS;\nSHOW TOPICS orders;\nSHOW TOPICS;\n")
    status, out, err = run(options=["-f", str(script)])
    assert status == 1
    assert "orders" not in out
    assert "the end of the statement is expected" in err
    script.write_text("SHOW TOPICS;\nSELECT 'x;\n")
    status, out, err = run(options=["-f", str(script)])
    assert (status, out) == (1, "")
    assert err.splitlines() == ["barnabas sql: the string has no end", "  line 2: SELECT 'x;", "                 ^"]


# ---- pipelines -------------------------------------------------------------------------------------------------------


def test_a_pipeline_is_created_with_the_inputs_of_its_query(
    run: Run, worker: FakeWorker, spark: type[FakeSpark]
) -> None:
    worker.replies_to(CONNECTORS, (200, {}))
    worker.replies_to(VALIDATE, accepted())
    worker.replies_to("POST /connectors", (201, {}))
    status, out, err = run(
        "CREATE TEMP VIEW o USING topic OPTIONS (topic 'orders', format 'json', schema 'id BIGINT', start 'latest')",
        "CREATE PIPELINE large WITH (output.topic = 'large', tasks.max 1) AS SELECT id FROM o JOIN payments USING (id)",
    )
    assert status == 0, err
    assert "pipeline large created" in out
    assert "note: payments has no view, so its values are text in the column value" in err
    assert worker.bodies["POST /connectors"] == {
        "name": "large",
        "config": {
            "connector.class": "SqlPipeline",
            "tasks.max": "1",
            "query": "SELECT id FROM o JOIN payments USING (id)",
            "inputs": "o,payments",
            "inputs.o.topic": "orders",
            "inputs.o.format": "json",
            "inputs.o.schema": "id BIGINT",
            "inputs.o.start": "latest",
            "inputs.payments.topic": "payments",
            "inputs.payments.format": "string",
            "output.topic": "large",
        },
    }
    assert spark.running == []


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("1769860800000", "2026-01-31T12:00:00.000Z"),
        ("1960-01-01", "1970-01-01T00:00:00.000Z"),
        ("999999999999999999", "999999999999999999"),  # The worker refuses it by name.
    ],
)
def test_a_pipeline_begins_at_the_time_of_its_view(run: Run, worker: FakeWorker, start: str, expected: str) -> None:
    worker.replies_to(CONNECTORS, (200, {}))
    worker.replies_to(VALIDATE, accepted())
    worker.replies_to("POST /connectors", (201, {}))
    view = f"CREATE TEMPORARY VIEW o USING topic OPTIONS (topic 'orders', start '{start}')"
    status, _, err = run(view, "CREATE PIPELINE p AS SELECT * FROM o")
    assert status == 0, err
    assert worker.bodies["POST /connectors"]["config"]["inputs.o.start"] == expected


def test_inputs_of_the_statement_need_no_view(run: Run, worker: FakeWorker) -> None:
    worker.replies_to(CONNECTORS, (200, {}))
    worker.replies_to(VALIDATE, accepted())
    worker.replies_to("POST /connectors", (201, {}))
    status, _, err = run(
        "CREATE PIPELINE p WITH (inputs = 'o', inputs.o.topic = 'orders', inputs.o.format = 'string', "
        "output.topic = 'x') AS SELECT value FROM o"
    )
    assert status == 0, err
    config = worker.bodies["POST /connectors"]["config"]
    assert (config["inputs"], config["inputs.o.topic"]) == ("o", "orders")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE PIPELINE p AS SELECT * FROM ordres",
            "ordres is neither a view nor a topic\n  next: did you mean orders?",
        ),
        ("CREATE PIPELINE p AS SELECT * FROM `pay.orders`", "pay.orders can't be the name of a pipeline's input"),
        ("CREATE PIPELINE p AS INSERT INTO x SELECT 1", "INSERT is not a statement of the shell"),
        (
            "CREATE TEMPORARY VIEW o USING topic OPTIONS (topic 'orders', start 'last 5'); "
            "CREATE PIPELINE p AS SELECT * FROM o",
            "the view o begins at offsets, and a pipeline at earliest, latest or a time",
        ),
    ],
)
def test_a_pipeline_that_can_not_be_is_refused_before_the_worker_is_asked(
    run: Run, worker: FakeWorker, statement: str, message: str
) -> None:
    status, _, err = run(statement)
    assert status == 1
    assert message in err
    assert worker.changes == []


def test_what_the_worker_refuses_is_reported(run: Run, worker: FakeWorker) -> None:
    worker.replies_to(CONNECTORS, (200, {}))
    worker.replies_to(VALIDATE, accepted(query=["no column is called x"], output__topic=["Set it."]))
    status, _, err = run("CREATE PIPELINE p AS SELECT x FROM orders")
    assert status == 1
    assert "the worker refuses these settings:\n  query: no column is called x\n  output.topic: Set it." in err
    assert worker.changes == []


def test_an_existing_pipeline_is_replaced_only_on_request(run: Run, worker: FakeWorker) -> None:
    worker.replies_to(CONNECTORS, (200, {"p": pipeline("p"), "files": {"info": {"config": {"connector.class": "F"}}}}))
    worker.replies_to(VALIDATE, accepted())
    worker.replies_to("PUT /connectors/p/config", (200, {}))
    status, _, err = run("CREATE PIPELINE p AS SELECT 1")
    assert status == 1
    assert "exists already" in err
    assert run("CREATE PIPELINE IF NOT EXISTS p AS SELECT 1")[1] == "pipeline p unchanged\n"
    assert worker.changes == []
    assert run("CREATE OR REPLACE PIPELINE p AS SELECT 2")[1] == "pipeline p replaced\n"
    assert worker.bodies["PUT /connectors/p/config"]["query"] == "SELECT 2"
    assert "files is a connector of another kind" in run("CREATE OR REPLACE PIPELINE files AS SELECT 1")[2]


def test_pipelines_are_listed_described_altered_and_dropped(run: Run, worker: FakeWorker) -> None:
    found = pipeline("p", **{"output.topic": "large", "inputs.orders.topic": "orders"})
    worker.replies_to(CONNECTORS, (200, {"p": found, "files": {"info": {"config": {"connector.class": "Files"}}}}))
    worker.replies_to("GET /connectors/p/config", (200, found["info"]["config"]))
    worker.replies_to("GET /connectors/p/status", (200, found["status"]))
    worker.replies_to(VALIDATE, accepted())
    for line in ("PUT /connectors/p/config", "PUT /connectors/p/pause", "DELETE /connectors/p"):
        worker.replies_to(line, (204, None) if line != "PUT /connectors/p/config" else (200, {}))
    worker.replies_to("POST /connectors/p/restart?includeTasks=true&onlyFailed=false", (204, None))
    status, out, _ = run("SHOW PIPELINES; DESCRIBE PIPELINE p", options=["-o", "json"])
    assert status == 0
    rows = [json.loads(line) for line in out.splitlines()]
    row = {"pipeline": "p", "state": "RUNNING", "tasks": "1 RUNNING", "inputs": "orders", "output": "large"}
    assert rows[0] == row | {"attention": ""}
    assert {"property": "task 0", "value": "RUNNING on w:8083"} in rows
    assert {"property": "query", "value": "SELECT 1"} in rows
    status, out, err = run(
        "ALTER PIPELINE p SET (output.topic = 'larger'); ALTER PIPELINE p PAUSE",
        "ALTER PIPELINE p RESTART; DROP PIPELINE p",
    )
    assert status == 0, err
    assert out.splitlines() == [
        "pipeline p altered", "pipeline p: pause requested", "pipeline p: restart requested", "pipeline p dropped",
    ]  # fmt: skip
    assert worker.bodies["PUT /connectors/p/config"]["output.topic"] == "larger"
    assert worker.changes == [
        "PUT /connectors/p/config", "PUT /connectors/p/pause",
        "POST /connectors/p/restart?includeTasks=true&onlyFailed=false", "DELETE /connectors/p",
    ]  # fmt: skip


def test_another_query_of_a_pipeline_keeps_its_settings(run: Run, worker: FakeWorker) -> None:
    config = pipeline("p", **{"output.topic": "x", "inputs.orders.topic": "orders", "tasks.max": "1"})["info"]["config"]
    worker.replies_to("GET /connectors/p/config", (200, config))
    worker.replies_to(VALIDATE, accepted())
    worker.replies_to("PUT /connectors/p/config", (200, {}))
    status, _, err = run("ALTER PIPELINE p AS SELECT * FROM orders JOIN payments USING (id)")
    assert status == 0, err
    changed = worker.bodies["PUT /connectors/p/config"]
    assert changed["query"] == "SELECT * FROM orders JOIN payments USING (id)"
    assert changed["inputs"] == "orders,payments"
    assert changed["inputs.payments.topic"] == "payments"
    assert changed["output.topic"] == "x"
    assert run("ALTER PIPELINE p AS SELECT * FROM payments")[0] == 0
    changed = worker.bodies["PUT /connectors/p/config"]
    assert changed["inputs"] == "payments"
    assert "inputs.orders.topic" not in changed


def test_a_pipeline_in_python_has_no_query_to_change(run: Run, worker: FakeWorker) -> None:
    config = {"name": "p", "connector.class": "PythonPipeline", "pipeline": "large_orders", "inputs": "orders"}
    worker.replies_to("GET /connectors/p/config", (200, config))
    status, _, err = run("ALTER PIPELINE p AS SELECT 1")
    assert status == 1
    assert "the query of this pipeline is a function in Python, and not SQL" in err


def test_a_worker_that_can_not_be_reached_is_named_with_its_option(run: Run) -> None:
    status, _, err = run("SHOW PIPELINES", options=["--worker", "nowhere"])
    assert status == 2
    assert "--worker: nowhere is not the address of a worker" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-e", "SHOW TOPICS", "-f", "x.sql"], "--execute and --file can't be used together"),
        (["-f", "/nowhere/x.sql"], "can't read /nowhere/x.sql"),
        (["--set", "start", "-e", "HELP"], "write a setting as name=value"),
        (["--output", "xml"], "--output xml: choose one of table, json, csv"),
    ],
)
def test_a_wrong_command_line_has_its_status(run: Run, options: list[str], message: str) -> None:
    status, _, err = run(options=options)
    assert status == 2
    assert message in err
