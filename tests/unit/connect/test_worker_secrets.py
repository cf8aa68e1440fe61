from __future__ import annotations

from barnabas.connect.worker_secrets import hide_secrets, trace_of


def test_what_a_reference_gave_is_not_shown_and_what_was_written_out_is() -> None:
    raw = {"password": "${env:PASSWORD}", "topic": "orders", "empty": "${env:NOTHING}"}
    resolved = {"password": "hunter2", "topic": "orders", "empty": ""}
    text = hide_secrets("login with hunter2 to read orders", raw, resolved)
    assert text == "login with [hidden] to read orders"


def test_a_trace_names_the_error_and_its_cause() -> None:
    try:
        try:
            raise ValueError("the cause")
        except ValueError as error:
            raise RuntimeError("the error") from error
    except RuntimeError as error:
        trace = trace_of(error)
    assert trace.index("the cause") < trace.index("the error")
