"""The report of a failed test shows what nodes logged during that test."""

from __future__ import annotations

from pathlib import Path

from barnabas.testing import shown_logs
from barnabas.testing.node_log import NodeLog


def test_only_lines_of_this_test_are_shown(tmp_path: Path) -> None:
    log = NodeLog(tmp_path / "node.log", "node-1")
    log.path.write_text("of an earlier test\n")
    shown_logs.node_started(log)
    shown_logs.begin_test()
    assert ("node-1", "") not in shown_logs.shown_logs()
    with log.path.open("a") as file:
        file.write("of this test\n")
    assert ("node-1", "of this test") in shown_logs.shown_logs()
    shown_logs.node_started(log)  # A restart keeps what was logged before.
    assert ("node-1", "of this test") in shown_logs.shown_logs()
    shown_logs.node_ended(log)
    log.path.unlink()
    assert ("node-1", "of this test") in shown_logs.shown_logs()
    shown_logs.begin_test()
    assert [title for title, _ in shown_logs.shown_logs() if title == "node-1"] == []


def test_a_long_log_is_shown_from_its_end(tmp_path: Path) -> None:
    log = NodeLog(tmp_path / "node.log", "node-2")
    shown_logs.begin_test()
    shown_logs.node_started(log)
    log.path.write_text("".join(f"line {number}\n" for number in range(500)))
    (text,) = [text for title, text in shown_logs.shown_logs() if title == "node-2"]
    shown_logs.node_ended(log)
    shown_logs.begin_test()
    assert text.splitlines()[0] == "line 400"
    assert text.splitlines()[-1] == "line 499"


def test_an_error_message_has_the_end_of_the_log(tmp_path: Path) -> None:
    log = NodeLog(tmp_path / "node.log", "node-3")
    assert log.tail() == "its log is empty"
    log.path.write_text("one\ntwo\n")
    assert log.tail() == "the last lines of its log:\none\ntwo"
