from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any

import pytest

from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sessions.worker_session import EmbeddedSessions, embedded_conf, session_conf
from barnabas.spark.errors import SparkUnavailable

SETTINGS = SparkSettings.of({"barnabas.connect.spark.directory": "/work"}, worker_id="h:8083")


class Spark:
    """Starts sessions that are only numbers, with a JVM that the test can end."""

    def __init__(self) -> None:
        self.started = 0
        self.ended: list[int] = []
        self.status: int | None = None
        self.error: Exception | None = None

    def start(self, stack: ExitStack, settings: SparkSettings) -> Any:
        if self.error is not None:
            raise self.error
        self.started += 1
        self.status = None
        stack.callback(self.ended.append, self.started)
        return self.started, lambda: self.status


@pytest.fixture
def spark() -> Spark:
    return Spark()


def test_all_tasks_share_one_session_that_starts_when_it_is_needed(spark: Spark) -> None:
    sessions = EmbeddedSessions(SETTINGS, start=spark.start)
    assert spark.started == 0
    assert sessions.session() == sessions.session() == 1
    assert sessions.failure() is None


def test_the_log_says_that_spark_starts_and_how_long_it_took(spark: Spark, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    sessions = EmbeddedSessions(SETTINGS, start=spark.start)
    sessions.session()
    sessions.session()
    starting, ready = caplog.messages
    assert starting == "starting Spark on local[*] for the first task"
    assert re.fullmatch(r"Spark is ready after \d+\.\d s", ready)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (-9, "Spark's JVM was killed by signal 9; its log is in /work"),
        (1, "Spark's JVM ended with status 1; its log is in /work"),
    ],
)
def test_a_jvm_that_died_is_reported_and_replaced(spark: Spark, status: int, reason: str) -> None:
    sessions = EmbeddedSessions(SETTINGS, start=spark.start)
    sessions.session()
    spark.status = status
    assert sessions.failure() == reason
    assert sessions.session() == 2
    assert spark.ended == [1]
    assert sessions.failure() is None


def test_an_abandoned_session_is_the_reason_until_another_starts(spark: Spark) -> None:
    sessions = EmbeddedSessions(SETTINGS, start=spark.start)
    sessions.session()
    sessions.abandon("a query hangs")
    assert spark.ended == [1]
    assert sessions.failure() == "a query hangs"
    assert sessions.session() == 2
    assert sessions.failure() is None


def test_a_failed_start_is_retried_by_the_next_task(spark: Spark) -> None:
    sessions = EmbeddedSessions(SETTINGS, start=spark.start)
    spark.error = SparkUnavailable("no Java")
    with pytest.raises(SparkUnavailable, match="no Java"):
        sessions.session()
    spark.error = None
    assert sessions.session() == 1


def test_a_stopping_worker_starts_no_new_session(spark: Spark) -> None:
    sessions = EmbeddedSessions(SETTINGS, start=spark.start)
    sessions.session()
    sessions.close()
    sessions.close()
    assert spark.ended == [1]
    with pytest.raises(SparkUnavailable, match="the worker is stopping"):
        sessions.session()


def test_settings_of_the_user_win_over_ours() -> None:
    settings = SparkSettings.of({"barnabas.connect.spark.conf.spark.ui.enabled": "true"}, worker_id="h:8083")
    assert session_conf(settings)["spark.ui.enabled"] == "true"
    assert session_conf(settings)["spark.scheduler.mode"] == "FAIR"
    assert session_conf(settings)["spark.sql.caseSensitive"] == "true"


def test_jvm_options_of_the_user_follow_ours() -> None:
    name = "spark.driver.extraJavaOptions"
    ours = embedded_conf(SETTINGS)[name]
    assert "-XX:Tier4InvocationThreshold=" in ours
    assert name not in session_conf(SETTINGS)
    given = {
        f"barnabas.connect.spark.conf.{name}": "-Dx=1",
        "barnabas.connect.spark.conf.spark.hadoop.fs.file.impl": "x.Y",
    }
    conf = embedded_conf(SparkSettings.of(given, worker_id="h:8083"))
    assert conf[name] == f"{ours} -Dx=1"
    assert conf["spark.hadoop.fs.file.impl"] == "x.Y"


def test_a_starting_session_does_not_keep_a_worker_from_stopping(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.connect_spark.sessions.worker_session._CLOSE_WAIT_S", 0)

    def start(stack: ExitStack, settings: SparkSettings) -> Any:
        sessions.close()  # Runs on another thread, and returns before the start completes.
        return spark.start(stack, settings)

    sessions = EmbeddedSessions(SETTINGS, start=start)
    with pytest.raises(SparkUnavailable, match="the worker is stopping"):
        sessions.session()
    assert spark.ended == [1]


def test_delta_adds_its_catalog_and_keeps_other_extensions() -> None:
    delta = {"barnabas.connect.spark.delta": "true"}
    conf = session_conf(SparkSettings.of(delta, worker_id="h:8083"))
    assert conf["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert conf["spark.sql.catalog.spark_catalog"] == "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    given = {"spark.sql.extensions": "x.Y", "spark.sql.catalog.spark_catalog": "my.Catalog"}
    more = {f"barnabas.connect.spark.conf.{name}": value for name, value in given.items()}
    conf = session_conf(SparkSettings.of(delta | more, worker_id="h:8083"))
    assert conf["spark.sql.extensions"] == "x.Y,io.delta.sql.DeltaSparkSessionExtension"
    assert conf["spark.sql.catalog.spark_catalog"] == "my.Catalog"
    assert "spark.sql.extensions" not in session_conf(SETTINGS)


def test_object_stores_take_credentials_from_the_machine_unless_the_settings_name_another_provider() -> None:
    name = "spark.hadoop.fs.s3a.aws.credentials.provider"
    s3 = {"barnabas.connect.spark.s3": "true"}
    conf = session_conf(SparkSettings.of(s3, worker_id="h:8083"))
    assert conf[name].endswith(".DefaultCredentialsProvider")
    profile = {**s3, "barnabas.connect.spark.s3.credentials": "profile"}
    assert session_conf(SparkSettings.of(profile, worker_id="h:8083"))[name].endswith(".ProfileCredentialsProvider")
    given = {**s3, f"barnabas.connect.spark.conf.{name}": "x.Y"}
    assert session_conf(SparkSettings.of(given, worker_id="h:8083"))[name] == "x.Y"
    assert name not in session_conf(SETTINGS)
