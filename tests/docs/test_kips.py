"""Each claim of docs/kips names the test that fails when the claim becomes false, and that test exists."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.docs.tracked import PROJECT

KIPS = PROJECT / "docs" / "kips"
PAGES = sorted(path.name for path in KIPS.glob("*.md") if path.name != "README.md")
DESIGNS = {"kip-133.md", "kip-430.md", "kip-507.md", "kip-590.md", "kip-801.md"}
"""Their rows name functions, not only files."""

_CELLS = re.compile(r"(?<!\\)\|")
_HEADS = (["What", "State", "Where", "Test"], ["Part", "State", "Where", "Shown by"])
_TEST = re.compile(r"((?:tests/)?[\w/]*\btest_\w+\.py)(?:::(test_\w+))?")
_SHOWN_OTHERWISE = re.compile(r"`tests/[\w/.]+`|python -m bench")
_NEEDS_NO_TEST = re.compile(r"^(missing|as (in )?Kafka)|\bsee \[", re.IGNORECASE)


class Row(NamedTuple):
    page: str
    claim: str
    state: str
    tests: str

    @property
    def named(self) -> list[tuple[str, str]]:
        return _TEST.findall(self.tests)


def rows_of(page: str) -> Iterator[Row]:
    for line in (KIPS / page).read_text().splitlines():
        cells = [cell.strip() for cell in _CELLS.split(line)[1:-1]] if line.startswith("|") else []
        is_heading = cells[:1] == ["---"] or cells in _HEADS or (bool(cells) and not any(cells[1:]))
        if len(cells) == 4 and not is_heading:
            yield Row(page, cells[0], cells[1], cells[3])


ROWS = [row for page in PAGES for row in rows_of(page)]


def files_of(name: str) -> list[str]:
    """Return the source texts of the named tests; a page may omit the folder."""
    if name.startswith("tests/"):
        path = PROJECT / name
        return [path.read_text()] if path.exists() else []
    return [path.read_text() for path in (PROJECT / "tests").rglob(f"{name}")]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_rows(page: str) -> None:
    assert [row for row in ROWS if row.page == page]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.page}-{row.claim[:40]}")
def test_a_claim_names_tests_that_exist(row: Row) -> None:
    for name, function in row.named:
        texts = files_of(name)
        assert texts, f"{name} does not exist"
        assert not function or any(re.search(rf"def {function}\(", text) for text in texts), f"{name}::{function}"
    if not _NEEDS_NO_TEST.search(row.state):
        assert row.named or _SHOWN_OTHERWISE.search(row.tests), "a claim without a test"
    if row.page in DESIGNS and not _NEEDS_NO_TEST.search(row.state):
        assert all(function for _, function in row.named), "name the function, as in tests/a/test_b.py::test_c"


def lines_of(name: str) -> int:
    with gzip.open(PROJECT / "tests" / "vectors" / name) as file:
        return sum(1 for _ in file)


def acl_cases() -> int:
    table = json.loads((PROJECT / "tests" / "vectors" / "acl_matrix" / "answers.json").read_text())
    return sum(len(row["cases"]) for row in table.values())


def sasl_exchanges() -> int:
    return len(json.loads((PROJECT / "tests" / "vectors" / "sasl_exchanges.json").read_text()))


def test_figures_match_the_recordings() -> None:
    found = {
        ("kip-801.md", f"{acl_cases():,} requests"),
        ("kip-590.md", f"{lines_of('forwarding/envelope-answers-4.3.1.jsonl.gz')} envelopes"),
        ("kip-048.md", f"{lines_of('credentials/answers-4.3.1.jsonl.gz')} recorded answers"),
        ("kip-368.md", f"{sasl_exchanges()} exchanges"),
        ("kip-595-quorum.md", f"{lines_of('controller/quorum-answers-4.3.1.jsonl.gz')} requests"),
        ("replication.md", f"{lines_of('broker/leader-answers-4.3.1.jsonl.gz')} of them"),
        ("connect.md", f"all {lines_of('connect/topics.jsonl.gz')} records"),
        ("connect.md", f"{lines_of('connect/group_protocol.jsonl.gz')} recorded byte strings"),
        ("connect.md", f"all {lines_of('connect/group_rounds.jsonl.gz')} recorded rounds"),
        ("connect.md", f"{lines_of('connect/answers-4.3.1.jsonl.gz'):,} answers"),
    }
    wrong = [f"{page}: {figure}" for page, figure in sorted(found) if figure not in (KIPS / page).read_text()]
    assert wrong == []
