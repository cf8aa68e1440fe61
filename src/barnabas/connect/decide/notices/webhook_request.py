"""The request for a notice: a JSON body, and headers after the Standard Webhooks specification (version 1.0.0).

``webhook-id`` is the same for each attempt, so that a receiver can recognise a notice that arrives twice.
``webhook-timestamp`` and ``webhook-signature`` belong to one attempt. The signature is the HMAC-SHA256 of
``id.timestamp.body`` in base64, with the version ``v1`` before it: libraries of that specification verify it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime

from barnabas.connect.decide.notices.failure_notice import FailureNotice, NoticeKind
from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["WebhookMessage", "webhook_message"]

_TRACE_CHARACTERS_MAX = 10_000
_AFTER_RECOVERY = "A batch has succeeded since."


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """A notice as it is sent, once or repeatedly."""

    id: str
    body: bytes

    def headers(self, secret: bytes | None, now_ms: int) -> dict[str, str]:
        """Return the headers of one attempt. Without a secret it has no signature."""
        timestamp = str(now_ms // 1000)
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": self.id,
            "webhook-id": self.id,
            "webhook-timestamp": timestamp,
        }
        if secret is not None:
            signed = f"{self.id}.{timestamp}.".encode() + self.body
            digest = hmac.new(secret, signed, hashlib.sha256).digest()
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        return headers


def webhook_message(notice: FailureNotice, *, id_: str, group: str, worker: str) -> WebhookMessage:
    """Return the message. ``group`` is the group of workers, ``worker`` the ``host:port`` that noticed the event."""
    unit, failure = notice.unit, notice.failure
    is_task = isinstance(unit, ConnectorTaskId)
    is_over = notice.kind is NoticeKind.RECOVERED
    document = {
        "id": id_,
        "type": f"{'task' if is_task else 'connector'}.{notice.kind}",
        "timestamp": _iso(notice.now_ms),
        "data": {
            "group": group,
            "worker": worker,
            "connector": unit.connector if isinstance(unit, ConnectorTaskId) else unit,
            "connector_type": notice.connector_type.value,
            "task": unit.task if isinstance(unit, ConnectorTaskId) else None,
            "failed_at": _iso(failure.failed_ms),
            "reason": failure.reason,
            "trace": "" if is_over else failure.trace.rstrip()[:_TRACE_CHARACTERS_MAX],
            "restarts": failure.restarts,
            "restarts_max": failure.restarts_max,
            "next": _AFTER_RECOVERY if is_over else failure.next,
        },
    }
    return WebhookMessage(id_, json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())


def _iso(time_ms: int) -> str:
    text = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
