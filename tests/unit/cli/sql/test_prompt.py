"""The prompt: statements over several lines, history, completion, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.sql import prompt as prompt_module
from barnabas.cli.sql.interruption import interruptible
from barnabas.cli.sql.prompt import Prompt, history_file


class Lines:
    """Types lines. An exception is raised in place of a line."""

    def __init__(self, *lines: str | BaseException | type[BaseException]) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []

    def __call__(self, shown: str) -> str:
        self.prompts.append(shown)
        line = self._lines.pop(0) if self._lines else EOFError
        if isinstance(line, str):
            return line
        raise line


class FakeReadline:
    def __init__(self) -> None:
        self.history: list[str] = []

    def add_history(self, entry: str) -> None:
        self.history.append(entry)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: None


@pytest.fixture
def readline(monkeypatch: pytest.MonkeyPatch) -> FakeReadline:
    fake = FakeReadline()
    monkeypatch.setattr(prompt_module, "_readline", lambda: fake)
    return fake


def typed(*lines: Any) -> tuple[Prompt, Lines]:
    reader = Lines(*lines)
    return Prompt(lambda: ["orders", "payments"], read_line=reader, write=lambda text: None), reader


def test_a_statement_has_lines_up_to_its_semicolon(readline: FakeReadline) -> None:
    prompt, reader = typed("SELECT ';',", "  1 -- ;", "; SHOW TOPICS;")
    found = prompt.statements()
    assert [statement.text for statement in found] == ["SELECT ';',\n  1 -- ;", "SHOW TOPICS"]
    assert reader.prompts == ["sql> ", "  -> ", "  -> "]
    assert prompt.statements() is None


def test_the_history_has_whole_statements(readline: FakeReadline) -> None:
    prompt, _ = typed("SELECT", "  1;", "SHOW -- x", "TOPICS;")
    prompt.statements()
    prompt.statements()
    assert readline.history == ["SELECT 1;", "SHOW -- x", "TOPICS;"]


def test_ctrl_c_discards_the_lines(readline: FakeReadline) -> None:
    prompt, _ = typed("SELECT", KeyboardInterrupt, "SHOW VIEWS;")
    assert [statement.text for statement in prompt.statements()] == ["SHOW VIEWS"]


@pytest.mark.parametrize("word", ["exit", "QUIT", "help"])
def test_some_words_need_no_semicolon(readline: FakeReadline, word: str) -> None:
    prompt, _ = typed(word)
    assert [statement.text for statement in prompt.statements()] == [word]


def test_tab_completes_names_and_keywords(readline: FakeReadline) -> None:
    prompt, _ = typed()
    assert [prompt.complete("or", state) for state in range(2)] == ["orders", None]
    assert [prompt.complete("OR", state) for state in range(3)] == ["OR", "ORDER BY", None]
    assert prompt.complete("sel", 0) == "SELECT"
    assert prompt.complete("pay", 0) == "payments"
    assert [prompt.complete("", state) for state in range(3)] == ["orders", "payments", None]


def test_the_history_is_only_for_its_user(tmp_path: Path) -> None:
    file = history_file({"XDG_STATE_HOME": str(tmp_path)})
    assert file == tmp_path / "barnabas" / "sql_history"
    assert history_file({"HOME": "/h/a"}) == Path("/h/a/.local/state/barnabas/sql_history")
    Prompt(list, history=file).close()
    assert file.stat().st_mode & 0o777 == 0o600


# ---- Ctrl-C while a statement runs -------------------------------------------------------------------------------


def test_work_returns_its_result_or_its_error() -> None:
    assert interruptible(lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, lambda: None)


def test_ctrl_c_cancels_the_work_and_waits_for_its_end() -> None:
    cancelled, ended = threading.Event(), threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        cancelled.wait()
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        interruptible(work, cancelled.set)
    assert ended.is_set()
