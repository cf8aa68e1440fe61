"""What a notice says: a connector or task has failed, has failed for good, or has recovered.

Each failure is one notice: ``failed`` if an automatic restart follows, ``exhausted`` if none does. ``recovered``
follows when a batch has succeeded since, on whichever worker: the status topic keeps the failure until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from barnabas.connect.decide.backing_stores.status_records import Failure
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType

__all__ = ["FailureNotice", "NoticeKind"]


class NoticeKind(StrEnum):
    """The values are those of ``barnabas.connect.webhook.events``."""

    FAILED = "failed"
    EXHAUSTED = "exhausted"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class FailureNotice:
    kind: NoticeKind
    unit: str | ConnectorTaskId
    """A connector by its name, or a task."""
    connector_type: ConnectorType
    failure: Failure
    """The failure that the notice is about, without secrets."""
    now_ms: int
    """When the event happened, in milliseconds since 1970."""
