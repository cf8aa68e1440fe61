"""Reports at the end of a run the number of lines of each corpus."""

from __future__ import annotations

from typing import Any

from tests.oracles import corpus


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.section(f"oracle corpora in {corpus.root()}")
    for name in corpus.CORPORA:
        terminalreporter.write_line(f"{name}: {len(corpus.checked_lines(name))} lines checked")
