from __future__ import annotations

import logging

import pytest

from barnabas.connect.errors import BadRequest
from barnabas.connect.rest.query_parameters import number_to
from barnabas.connect.rest.recent_log import LINES_MAX, RecentLog
from tests.peers.rest_workers import RestWorkers


@pytest.fixture
def kept() -> RecentLog:
    kept = RecentLog(lines_max=4)
    texts = ("too old", "task a.b-0 began", "connector a.b is odd", "task a.b-c-1 began", "a.bc")
    for number, text in enumerate(texts):
        record = logging.LogRecord("x.y", logging.WARNING if "odd" in text else logging.INFO, "", 0, text, (), None)
        record.created = number
        kept.handle(record)
    return kept


def test_the_last_lines_are_kept_oldest_first(kept: RecentLog) -> None:
    assert [line.message for line in kept.lines(2)] == ["task a.b-c-1 began", "a.bc"]
    [line] = kept.lines(9, level="warn")
    assert (line.time, line.level, line.logger, line.message) == (2000, "WARN", "x.y", "connector a.b is odd")
    assert len(kept.lines(9)) == 4


def test_lines_of_a_connector_name_it_or_one_of_its_tasks(kept: RecentLog) -> None:
    assert [line.message for line in kept.lines(9, connector="a.b")] == ["task a.b-0 began", "connector a.b is odd"]
    assert kept.lines(9, connector="(") == []


def test_a_trace_is_part_of_the_line_and_limited_in_length(kept: RecentLog) -> None:
    try:
        raise ValueError("x" * 9000)
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    kept.handle(logging.LogRecord("x", logging.CRITICAL, "", 0, "it failed", (), info))
    [line] = kept.lines(1)
    assert line.level == "FATAL"
    assert line.message.startswith("it failed\nTraceback")
    assert len(line.message) == 8000


@pytest.mark.parametrize(
    "text", ["0", "-1", "1001", "x", "", "9" * 5000, "000000001000000", "000000001" + "0" * 5000, "\u0663"]
)
def test_an_invalid_number_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="1 to 1000"):
        number_to(LINES_MAX, "lines", text, 100)


@pytest.mark.anyio
async def test_the_log_has_its_own_path() -> None:
    workers = RestWorkers()
    log = logging.LogRecord("x", logging.ERROR, "", 0, "task a-0 has failed", (), None)
    workers.services["A"].recent_log.handle(log)
    [line] = (await workers.send("A", "GET", "/admin/logs?connector=a&level=warn&lines=5")).json()
    assert (line["level"], line["message"]) == ("ERROR", "task a-0 has failed")
    assert (await workers.send("A", "GET", "/admin/logs?connector=b")).json() == []
    assert (await workers.send("A", "GET", "/admin/logs?level=loud")).status_code == 400
    assert (await workers.send("A", "GET", "/admin/logs?lines=all")).json()[
        "message"
    ] == "'lines' is 'all'; it must be 1 to 1000"
