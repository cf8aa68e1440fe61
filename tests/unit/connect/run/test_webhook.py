from __future__ import annotations

import asyncio
import logging

import pytest

from barnabas.common.system_clock import SystemClock
from barnabas.connect.decide.backing_stores.status_records import Failure
from barnabas.connect.decide.notices.failure_notice import FailureNotice, NoticeKind
from barnabas.connect.decide.notices.webhook_attempts import AttemptBudget
from barnabas.connect.identifiers import ConnectorType
from barnabas.connect.run.webhook import Webhook, WebhookSettings


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/T0\x00", f"http://127.0.0.1:9/T0{'x' * 70_000}"])
def test_a_url_that_can_not_be_requested_refuses_each_notice(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A character that can't be printed, and a long URL: neither error is a TransportError of httpx."""
    failure = Failure("OSError: the disk is full", 1_000, 1, 10)
    notice = FailureNotice(NoticeKind.FAILED, "orders", ConnectorType.SINK, failure, 2_000)
    settings = WebhookSettings(url, None, frozenset({"failed"}), 5.0, AttemptBudget(3, 10, 20), 5)

    async def story() -> Webhook:
        webhook = Webhook(settings, group="shop", worker="here:8083", clock=SystemClock(), new_id=lambda: "msg")
        webhook.begin()
        for _ in range(2):
            webhook.notice(notice)
        await webhook.close()
        return webhook

    with caplog.at_level(logging.ERROR):
        webhook = asyncio.run(story())
    assert (webhook.dropped["refused"], webhook.dropped["stopped"]) == (2, 0)
    assert "T0" not in caplog.text
