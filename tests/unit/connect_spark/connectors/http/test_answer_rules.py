"""What answers mean, and how long pauses are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from barnabas.connect_spark.connectors.http.answer_rules import Backoff, Meaning, StatusCodes, meaning_of, retry_after_s

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RETRIED, REFUSED = StatusCodes.of(["408", "429", "500-599"]), StatusCodes.of(["400", "413", "422"])


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (200, Meaning.ACCEPTED),
        (202, Meaning.ACCEPTED),
        (301, Meaning.FAILED),
        (400, Meaning.REFUSED),
        (401, Meaning.FAILED),
        (404, Meaning.FAILED),
        (408, Meaning.RETRY),
        (413, Meaning.TOO_LARGE),
        (422, Meaning.REFUSED),
        (429, Meaning.RETRY),
        (503, Meaning.RETRY),
        (599, Meaning.RETRY),
    ],
)
def test_each_status_has_a_meaning(status: int, meaning: Meaning) -> None:
    assert meaning_of(status, RETRIED, REFUSED) is meaning


@pytest.mark.parametrize("text", ["", "42", "1000", "500-", "599-500", "5xx"])
def test_a_wrong_status_code_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a status code such as 429, or a range such as 500-599"):
        StatusCodes.of([text])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None),
        ("soon", None),
        ("-5", None),
        ("0", 0),
        ("120", 120),
        ("99999999999999999999", 3600),
        ("Fri, 02 Jan 2026 03:04:35 GMT", 30),
        ("Fri, 02 Jan 2026 03:04:00 GMT", 0),
        ("Fri, 02 Jan 2036 03:04:00 GMT", 3600),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": text} if text else {}, NOW) == seconds


def test_pauses_double_up_to_their_limit_and_the_server_may_ask_for_more() -> None:
    backoff = Backoff(first_ms=1000, max_ms=5000)
    assert [backoff.pause_s(attempt, None, 0.999999) for attempt in (0, 1, 2, 3, 200)] == pytest.approx([1, 2, 4, 5, 5])
    assert backoff.pause_s(1, None, 0.0) == pytest.approx(1.6)
    assert backoff.pause_s(0, 30.0, 0.5) == 30.0
    assert backoff.pause_s(3, 2.0, 0.0) == pytest.approx(4.0)
