from __future__ import annotations

from barnabas.connect_spark.queries.failure_trace import failure_trace, reason_of


class FromSpark(Exception):
    """Imitates PySpark's errors: a text, a Java stack, and the nested error."""

    def __init__(self, text: str, stack: str = "", cause: BaseException | None = None) -> None:
        super().__init__(text)
        self._desc = text
        self._stackTrace = stack
        self._cause = cause


def test_the_reason_precedes_the_stack_traces() -> None:
    trace = failure_trace(FromSpark("[USER_RAISED_EXCEPTION] record t-0, offset 4 SQLSTATE: P0001", "at a.B"), {})
    assert trace.splitlines()[0] == "record t-0, offset 4"
    assert trace.index("Traceback") < trace.index("JVM stack:\nat a.B") if "Traceback" in trace else "at a.B" in trace


def test_the_innermost_error_with_a_text_is_the_reason() -> None:
    inner = FromSpark("Table ORDERS not found")
    outer = FromSpark("Job aborted.\n=== Streaming Query ===\nIdentifier: x", "", inner)
    assert reason_of(outer) == "Table ORDERS not found"
    assert reason_of(FromSpark("Job aborted.", "x\nCaused by: java.io.IOException: disk full\n\tat y")) == (
        "java.io.IOException: disk full"
    )
    try:
        raise RuntimeError("outside") from ValueError("inside")
    except RuntimeError as error:
        assert reason_of(error) == "inside"
    assert reason_of(KeyError()) == "KeyError"


def test_the_reason_of_a_py4j_error_is_its_java_cause() -> None:
    called = "An error occurred while calling o16.save.\n: org.apache.spark.SparkException: "
    stack = "Job aborted due to stage failure: Lost task 0.0\n\tat a.B\n\tSuppressed: c\n\t\tCaused by: d\n"
    cause = "Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized: [orders]\n\tat e"
    assert reason_of(RuntimeError(called + stack + cause)) == (
        "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized: [orders]"
    )
    assert reason_of(RuntimeError(called + "no such option\n\tat a.B")) == (
        "org.apache.spark.SparkException: no such option"
    )


def test_traces_contain_no_secrets_of_the_settings() -> None:
    config = {"connection.password": "hunter22", "consumer.override.sasl.jaas.config": "x required password=p;"}
    trace = failure_trace(ValueError("can't log in with hunter22 by x required password=p;"), config)
    assert "hunter22" not in trace
    assert "required" not in trace
    assert "[hidden]" in trace


def test_a_trace_is_cut_to_fit_a_status() -> None:
    assert len(failure_trace(ValueError("x" * 100_000), {})) <= 30_000


def test_an_error_whose_text_was_lost_with_the_jvm_still_has_a_trace() -> None:
    class GoneError(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    assert failure_trace(GoneError(), {}).startswith("GoneError, whose text was lost with Spark's JVM")
