"""The prompt of a shell on a terminal: several lines until a semicolon, history, completion with Tab."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from barnabas.cli.sql.script import Statement, parse_script

__all__ = ["Prompt", "history_file"]

_FIRST, _MORE = "sql> ", "  -> "
_WITHOUT_SEMICOLON = ("exit", "quit", "help")
_HISTORY_MAX = 2000
KEYWORDS = (
    *(
        "ALTER PIPELINE",
        "AND",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "CAST",
        "COUNT",
        "CREATE PIPELINE",
        "CREATE TEMPORARY VIEW",
    ),
    *(
        "DESC",
        "DESCRIBE",
        "DISTINCT",
        "DROP PIPELINE",
        "DROP VIEW",
        "ELSE",
        "END",
        "EXIT",
        "EXPLAIN",
        "FROM",
        "GROUP BY",
    ),
    *("HAVING", "HELP", "IS", "JOIN", "LEFT JOIN", "LIKE", "LIMIT", "NOT", "NULL", "ON", "OPTIONS", "OR", "ORDER BY"),
    *("PAUSE", "PIPELINES", "REPLACE", "RESET", "RESTART", "RESUME", "SELECT", "SET", "SHOW PIPELINES", "SHOW TOPICS"),
    *("SHOW VIEWS", "STOP", "THEN", "TOPIC", "UNION", "USING TOPIC", "VIEW", "WHEN", "WHERE", "WITH"),
)


def history_file(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME", ".")) / ".local" / "state"
    return Path(base) / "barnabas" / "sql_history"


class Prompt:
    """Reads statements from a terminal. ``names`` are words that Tab completes, besides keywords."""

    def __init__(
        self,
        names: Callable[[], Iterable[str]],
        *,
        read_line: Callable[[str], str] = input,
        write: Callable[[str], object] = sys.stdout.write,
        history: Path | None = None,
    ) -> None:
        self._names = names
        self._read_line = read_line
        self._write = write
        self._history = history
        self._readline = _readline()
        self._completions: list[str] = []
        if self._readline is not None:
            self._prepare(self._readline)

    def statements(self) -> list[Statement] | None:
        """Read lines up to a semicolon, and return their statements; None at the end of the input.

        Ctrl-C discards the lines.
        """
        text = ""
        while True:
            try:
                line = self._read_line(_MORE if text else _FIRST)
            except EOFError:
                self._write("\n")
                return None
            except KeyboardInterrupt:
                self._write("\n")
                text = ""
                continue
            text += f"{line}\n"
            script = parse_script(text)
            if script.rest is not None and text.strip().lower() in _WITHOUT_SEMICOLON:
                return [script.rest]
            if script.is_complete:
                self._remember(text)
                return list(script.statements)

    def close(self) -> None:
        """Write the history, for this user only: statements may contain secrets."""
        if self._readline is None or self._history is None:
            return
        with suppress(OSError):
            self._history.parent.mkdir(parents=True, exist_ok=True)
            self._history.touch(mode=0o600)
            self._readline.write_history_file(str(self._history))

    def _prepare(self, readline: Any) -> None:
        readline.set_auto_history(False)  # A statement is one entry, whatever number of lines it has.
        readline.set_history_length(_HISTORY_MAX)
        readline.set_completer_delims(" \t\n,();=`")
        readline.set_completer(self.complete)
        readline.parse_and_bind("tab: complete")
        if self._history is not None:
            with suppress(OSError):
                readline.read_history_file(str(self._history))

    def _remember(self, text: str) -> None:
        if self._readline is not None and text.strip():
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            for entry in lines if "--" in text else [" ".join(lines)]:
                self._readline.add_history(entry)

    def complete(self, text: str, state: int) -> str | None:
        """Return the completion with this number."""
        if state == 0:
            names = [name for name in self._names() if name.startswith(text)]
            has_keywords = text and (text.isupper() or not names)
            keywords = [word for word in KEYWORDS if has_keywords and word.startswith(text.upper())]
            self._completions = sorted(dict.fromkeys([*names, *keywords]))
        return self._completions[state] if state < len(self._completions) else None


def _readline() -> Any:
    try:
        import readline
    except ImportError:  # Python can be built without it.
        return None
    return readline
