from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest

from barnabas.connect.decide.backing_stores.status_records import Failure
from barnabas.connect.decide.notices.failure_notice import FailureNotice, NoticeKind
from barnabas.connect.decide.notices.webhook_attempts import AttemptBudget, Outcome, outcome_of
from barnabas.connect.decide.notices.webhook_request import webhook_message
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType
from barnabas.connect.settings.webhook_rules import UnusableSecret, webhook_secret

NOW_MS = 1_764_213_437_123
FAILURE = Failure("\nOSError: the disk is full\n  at write\n", NOW_MS - 5_000, 3, 10, "Restart 3 of 10 follows in 4 s.")
NOTICE = FailureNotice(NoticeKind.FAILED, ConnectorTaskId("orders", 2), ConnectorType.SINK, FAILURE, NOW_MS)


def test_the_body_says_what_failed_where_and_what_follows() -> None:
    message = webhook_message(NOTICE, id_="msg_1", group="shop", worker="10.0.0.1:8083")
    assert json.loads(message.body) == {
        "id": "msg_1",
        "type": "task.failed",
        "timestamp": "2025-11-27T03:17:17.123Z",
        "data": {
            "group": "shop",
            "worker": "10.0.0.1:8083",
            "connector": "orders",
            "connector_type": "sink",
            "task": 2,
            "failed_at": "2025-11-27T03:17:12.123Z",
            "reason": "OSError: the disk is full",
            "trace": "\nOSError: the disk is full\n  at write",
            "restarts": 3,
            "restarts_max": 10,
            "next": "Restart 3 of 10 follows in 4 s.",
        },
    }


def test_a_recovery_names_the_failure_that_is_over() -> None:
    recovered = FailureNotice(NoticeKind.RECOVERED, "orders", ConnectorType.SINK, FAILURE, NOW_MS)
    document = json.loads(webhook_message(recovered, id_="msg_2", group="shop", worker="w:1").body)
    assert document["type"] == "connector.recovered"
    data = document["data"]
    assert (data["task"], data["trace"], data["next"]) == (None, "", "A batch has succeeded since.")
    assert data["reason"] == "OSError: the disk is full"


def test_a_long_trace_is_cut() -> None:
    failure = Failure("x" * 50_000, NOW_MS, 0, 10)
    notice = FailureNotice(NoticeKind.EXHAUSTED, "orders", ConnectorType.SINK, failure, NOW_MS)
    data = json.loads(webhook_message(notice, id_="msg_3", group="g", worker="w:1").body)["data"]
    assert len(data["trace"]) == 10_000


def test_the_id_is_the_same_for_each_attempt_and_the_signature_is_not() -> None:
    message = webhook_message(NOTICE, id_="msg_1", group="shop", worker="w:1")
    secret = b"0123456789abcdef"
    first, second = message.headers(secret, NOW_MS), message.headers(secret, NOW_MS + 60_000)
    assert first["webhook-id"] == second["webhook-id"] == first["Idempotency-Key"] == "msg_1"
    assert first["webhook-signature"] != second["webhook-signature"]
    signed = b"msg_1." + first["webhook-timestamp"].encode() + b"." + message.body
    expected = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert first["webhook-signature"] == f"v1,{expected}"


def test_without_a_secret_nothing_is_signed() -> None:
    message = webhook_message(NOTICE, id_="msg_1", group="shop", worker="w:1")
    assert "webhook-signature" not in message.headers(None, NOW_MS)


def test_a_secret_is_text_or_base64_with_a_prefix() -> None:
    assert webhook_secret("a sentence of words") == b"a sentence of words"
    assert webhook_secret("whsec_" + base64.b64encode(b"0123456789abcdef").decode()) == b"0123456789abcdef"


@pytest.mark.parametrize("text", ["short", "whsec_c2hvcnQ=", "whsec_no base64 at all !"])
def test_a_short_or_damaged_secret_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(UnusableSecret) as caught:
        webhook_secret(text)
    assert text not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.ACCEPTED),
        (204, Outcome.ACCEPTED),
        (302, Outcome.REFUSED),
        (401, Outcome.REFUSED),
        (404, Outcome.REFUSED),
        (408, Outcome.RETRY),
        (429, Outcome.RETRY),
        (500, Outcome.RETRY),
        (503, Outcome.RETRY),
    ],
)
def test_only_passing_refusals_are_retried(status: int, outcome: Outcome) -> None:
    assert outcome_of(status) is outcome


def test_pauses_double_up_to_the_longest_and_end() -> None:
    budget = AttemptBudget(retries_max=4, backoff_ms=1_000, backoff_max_ms=3_000)
    assert [budget.pause_ms(retry) for retry in range(1, 6)] == [1_000, 2_000, 3_000, 3_000, None]
    assert budget.pause_ms(1, asked_s=2) == 2_000
    assert budget.pause_ms(1, asked_s=0) == 1_000
    assert budget.pause_ms(1, asked_s=86_400) == 3_000
