"""One committed offset, as the coordinator holds it."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.uuid import Uuid

__all__ = ["INVALID_OFFSET", "NO_LEADER_EPOCH", "NO_METADATA", "OffsetAndMetadata"]

INVALID_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_METADATA = ""


class OffsetAndMetadata(NamedTuple):
    """``expire_timestamp_ms`` is -1 unless the client set a retention (OffsetCommit v2-4)."""

    committed_offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: Uuid = Uuid.ZERO
