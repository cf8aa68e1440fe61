"""Reports at the end of a run the number of lines of each corpus, and the skipped lines with the reasons."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.oracles import corpus


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.section(f"oracle corpora in {corpus.root()}")
    for name in corpus.CORPORA:
        terminalreporter.write_line(f"{name}: {len(corpus.checked_lines(name))} lines checked")
    by_reason: dict[tuple[str, str], Counter[str]] = {}
    for (name, reason, subject), count in corpus.skipped_counts().items():
        by_reason.setdefault((name, reason), Counter())[subject] += count
    for (name, reason), subjects in sorted(by_reason.items()):
        listed = ", ".join(f"{subject} {count}" for subject, count in sorted(subjects.items()))
        terminalreporter.write_line(f"{name}: {subjects.total()} lines skipped (not built: {reason}): {listed}")
