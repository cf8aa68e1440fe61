"""The Spark side of ``barnabas sql``: names as Spark's parser finds them, rows, errors in plain English, Ctrl-C."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from barnabas.cli.connect.options import WorkerOptions
from barnabas.cli.sql.cluster_topics import ClusterTopics
from barnabas.cli.sql.pipelines import Pipelines
from barnabas.cli.sql.queries import Queries
from barnabas.cli.sql.results import Result, print_result
from barnabas.cli.sql.script import statement_of
from barnabas.cli.sql.shell import Shell
from barnabas.cli.sql.shell_settings import ShellSettings
from barnabas.cli.sql.statement_errors import StatementError
from barnabas.cli.sql.table_names import table_names
from barnabas.cli.sql.tokens import tokens_of, unescaped
from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.connect_spark.sql.declarations import parse_input
from barnabas.testing import Node
from tests.unit.cli.sql.queries_to_read import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect_spark.sql_shell.shell_spark import ShellSpark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

_RELATION = re.compile(r"UnresolvedRelation \[([^\]]*)\]")
_DEFINED = re.compile(r"CTE \[([^\]]*)\]")


@pytest.fixture
def shell(spark: SparkSession) -> Iterator[ShellSpark]:
    from barnabas.connect_spark.sql_shell.shell_spark import ShellSpark

    shell = ShellSpark(print)
    shell.use(spark)
    spark.sql("SELECT id, concat('n', id) AS name FROM range(3)").createOrReplaceTempView("things")
    yield shell
    for name in ("things", "pay.orders", "kept"):
        spark.catalog.dropTempView(name)


def parsed_names(spark: SparkSession, query: str) -> set[str]:
    """Return the names that Spark's parser finds, without those that the query defines."""
    plan = str(spark._jsparkSession.sessionState().sqlParser().parsePlan(query).toString())
    found = {name.replace(", ", ".") for name in _RELATION.findall(plan)}
    defined = {name.lower() for names in _DEFINED.findall(plan) for name in names.split(", ")}
    return {name for name in found if name.lower() not in defined}


def test_the_names_that_a_query_reads_are_those_of_sparks_parser(spark: SparkSession) -> None:
    different = []
    for query, names in QUERIES:
        if not query.startswith("EXPLAIN"):
            of_spark = parsed_names(spark, query)
            ours = {str(name) for name in table_names(statement_of(query).tokens)}
            if not ours == of_spark == set(names):
                different.append((query, ours, of_spark))
    assert different == []


@pytest.mark.parametrize("string", [r"'a\nb\t\\'", r"'\u0041\101'", r"'50\%'", r"r'a\n'"])
def test_a_string_has_the_value_that_spark_reads(spark: SparkSession, string: str) -> None:
    (token,) = tokens_of(string)
    assert unescaped(token.text) == spark.sql(f"SELECT {string}").first()[0]


def test_rows_have_times_with_their_zone(shell: ShellSpark) -> None:
    text = (
        "SELECT timestamp '2026-01-31T12:00:00Z' AS at, timestamp_ntz '2026-01-31T12:00:00' AS local, 1.50 AS price, "
        "array(struct(timestamp '2026-01-31T12:00:00Z' AS t)) AS nested, "
        "map('a', timestamp '2026-01-31T12:00:00Z') AS m"
    )
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for rows_max in (1, None):
        found = shell.run(text, rows_max)
        assert list(found.columns) == ["at", "local", "price", "nested", "m"]
        (row,) = found.rows
        expected = [moment, moment.replace(tzinfo=None), Decimal("1.50"), [{"t": moment}], {"a": moment}]
        assert list(row) == expected


def test_names_with_dots_and_tables_are_views(shell: ShellSpark, spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "t"))
    declaration = parse_input("kept", {"table": f"parquet:{tmp_path / 't'}"})
    for name in ("kept", "pay.orders"):
        shell.define(name, declaration, {}, None)
        assert list(shell.run(f"SELECT count(*) FROM `{name}`", 1).rows) == [(3,)]
        assert shell.drop_view(name)
        assert not shell.drop_view(name)


@pytest.mark.parametrize(
    ("text", "message", "marked", "advice"),
    [
        ("SELECT nme FROM things", "no column is called nme", "nme", "the columns are like name, id"),
        ("SELECT id\nFROM nowhere", "nowhere is neither a topic nor a view", "nowhere", "SHOW TOPICS"),
        ("SELECT id FORM things WHERE", "syntax error at 'things'", "things"[:1], ""),
        ("SELECT upperr(name) FROM things", "no function is called upperr", "upperr(name)", "SHOW FUNCTIONS"),
        ("SELECT CAST('x' AS INT)", "The value 'x' of the type \"STRING\" cannot be cast", "CAST('x' AS INT)", ""),
        ("SELECT CAST(name AS INT) FROM things", "The value 'n", "CAST(name AS INT)", ""),
        ("SELECT id / 0 FROM things", "Division by zero", "id / 0", ""),
        ("SELECT raise_error('stop here')", "stop here", None, ""),
        ("SELECT id, count(*) FROM things", "does not include a GROUP BY clause", None, ""),
    ],
)
def test_an_error_is_plain_and_has_its_place(
    shell: ShellSpark, text: str, message: str, marked: str | None, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from barnabas.connect_spark.sql_shell.plain_errors import plain_error

    with pytest.raises(Exception) as raised:
        list(shell.run(text).rows)
    found = plain_error(raised.value, text)
    assert capsys.readouterr().err == ""
    assert message in found.text
    assert "\n" not in found.text
    assert not re.search(r"SQLSTATE|JVM|org\.apache|\[[A-Z_]{4,}", found.text)
    if marked is not None:
        assert text[found.start : found.start + found.length] == marked
    assert advice in found.advice


def test_a_running_statement_is_cancelled(shell: ShellSpark) -> None:
    outcome: list[Any] = []

    def read() -> None:
        try:
            outcome.append(list(shell.run("SELECT count(*) FROM range(100000000000) WHERE hash(id) = 7").rows))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    while thread.is_alive():  # The job may not have begun when it is cancelled first.
        shell.cancel()
        thread.join(0.2)
    assert "cancelled" in str(outcome[0])


# ---- topics of a node ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        with AdminClient.sync(started.bootstrap_servers) as admin:
            topics = [NewTopic(name, 2, 1, configs={"retention.ms": "-1"}) for name in ("orders", "pay.orders")]
            admin.create_topics(topics, wait=True).raise_for_errors()
        produce(started, "orders", [(partition, number) for number in range(3) for partition in (0, 1)])
        yield started


def produce(
    node: Node, topic: str, records: list[tuple[int, int]], *, transaction: str = "", aborts: bool = False
) -> None:
    """Write records with the times 1000, 2000, ... by their numbers."""
    settings = {"bootstrap.servers": node.bootstrap_servers} | (
        {"transactional.id": transaction} if transaction else {}
    )
    producer = Producer(settings)
    if transaction:
        producer.init_transactions()
        producer.begin_transaction()
    for partition, number in records:
        value = f'{{"id": {number}, "name": "n{number}"}}'
        producer.produce(topic, value, key=f"k{number}", partition=partition, timestamp=1000 * (number + 1))
    producer.flush()
    if transaction:
        producer.abort_transaction() if aborts else producer.commit_transaction()


@pytest.fixture
def run(node: Node, shell: ShellSpark, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[Any]]:
    """Run statements, and return the rows of the last result, as JSON."""
    from barnabas.clients.client_config import client_config

    properties = {"bootstrap.servers": node.bootstrap_servers}
    settings = ShellSettings()
    settings.set("output", "json")
    topics = ClusterTopics(client_config(properties))
    queries = Queries(topics, properties, settings, print, shell)
    shell_of_test = Shell(topics, Pipelines(WorkerOptions()), queries, settings, print)

    def run(*statements: str) -> list[Any]:
        out = io.StringIO()

        def give(result: Result) -> None:
            out.seek(0)
            out.truncate()
            print_result(result, "json", out, rows_max=9)

        for statement in statements:
            shell_of_test.run(statement_of(statement), give)
        return [json.loads(line) for line in out.getvalue().splitlines()]

    return run


ALL = "SELECT _partition AS p, _offset AS o FROM orders ORDER BY p, o"


@pytest.mark.parametrize(
    ("start", "end", "places"),
    [
        ("earliest", "latest", ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]),
        ("last 1", "latest", ["0-2", "1-2"]),
        ("offset 1", "offset 2", ["0-1", "1-1"]),
        ("1:2", "latest", ["1-2"]),
        ("1970-01-01T00:00:02", "1970-01-01T00:00:03", ["0-1", "1-1"]),
        ("latest", "latest", []),
    ],
)
def test_a_query_reads_between_offsets_and_times(
    run: Callable[..., list[Any]], start: str, end: str, places: list[str]
) -> None:
    rows = run(f"SET start = {start}", f"SET end = {end}", ALL)
    assert [f"{row['p']}-{row['o']}" for row in rows] == places


def test_a_topic_without_a_view_is_text_with_the_columns_of_its_records(run: Callable[..., list[Any]]) -> None:
    (row,) = run("SET end = 1:1", "SELECT * FROM orders LIMIT 1")
    assert row == {
        "value": '{"id": 0, "name": "n0"}',
        "_topic": "orders",
        "_partition": 1,
        "_offset": 0,
        "_timestamp": "1970-01-01T00:00:01.000Z",
        "_key": "k0",
        "_headers": None,
    }


def test_views_have_formats_and_join(run: Callable[..., list[Any]]) -> None:
    rows = run(
        "CREATE TEMPORARY VIEW o USING topic OPTIONS (topic 'orders', format 'json', schema 'id INT, name STRING')",
        "SELECT o.id, t.name, count(*) AS n FROM o JOIN things t USING (id) GROUP BY ALL ORDER BY id",
    )
    assert rows == [{"id": number, "name": f"n{number}", "n": 2} for number in range(3)]


def test_a_query_shows_new_records_and_none_of_an_aborted_transaction(
    run: Callable[..., list[Any]], node: Node
) -> None:
    count = "SELECT count(*) AS n FROM `pay.orders`"
    assert run(count) == [{"n": 0}]
    produce(node, "pay.orders", [(0, 1), (0, 2)], transaction="kept")
    produce(node, "pay.orders", [(0, 3)], transaction="dropped", aborts=True)
    assert run(count) == [{"n": 2}]
    assert run(
        "CREATE OR REPLACE TEMPORARY VIEW counted AS SELECT count(*) AS n FROM `pay.orders`", "SELECT * FROM counted"
    ) == [{"n": 2}]
    produce(node, "pay.orders", [(0, 4)])
    assert run("SELECT * FROM counted") == [{"n": 3}]


def test_a_mistake_is_shown_with_its_place(run: Callable[..., list[Any]]) -> None:
    with pytest.raises(StatementError) as raised:
        run("SELECT _kye FROM orders")
    assert raised.value.lines("SELECT _kye FROM orders")[:3] == [
        "no column is called _kye", "  SELECT _kye FROM orders", "         ^^^^",
    ]  # fmt: skip
