"""Tables and progress: terminal output appears only on terminals."""

from __future__ import annotations

import io
import sys

import pytest

from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.progress import in_steps
from barnabas.cli.output.table import Sheet, show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_sheet() -> Sheet:
    sheet = Sheet("a title", ("name", "state"))
    sheet.add("a very long name " * 10, "down", style="bold red")
    sheet.add("\x1b[31m[red]b", "")
    return sheet


def test_piped_text_has_no_colours_and_is_not_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    show(a_sheet())
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "a title"
    assert "a very long name " * 9 in out
    assert "\x1b" not in out
    assert "\\x1b[31m[red]b" in out


def test_a_terminal_shows_colours_and_control_characters_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("LINES", "50")
    show(a_sheet())
    out = terminal.getvalue()
    assert "\x1b[1;31m" in out
    assert "\\x1b[31m[red]b" in out


def test_a_machine_readable_answer_contains_its_errors(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer({"things": []}, problems=[Problem("it broke", "x", "SOME_CODE", "fix it")])
    assert answer.give("barnabas test", "yaml") == 1
    captured = capsys.readouterr()
    assert captured.out == (
        "things: []\nerrors:\n- item: x\n  code: SOME_CODE\n  message: it broke\n  advice: fix it\n"
    )
    assert captured.err == "barnabas test: x: it broke (SOME_CODE)\n  next: fix it\n"


def test_large_work_is_split_into_steps_with_a_progress_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(in_steps(range(5), 2, "counting")) == [range(2), range(2, 4), range(4, 5)]
    assert capsys.readouterr().err == ""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert [len(part) for part in in_steps(range(5), 2, "counting")] == [2, 2, 1]
    assert "counting" in terminal.getvalue()
