"""Errors of the raft node for its callers."""

from __future__ import annotations

from barnabas.common.errors import ApiException, ErrorCode

__all__ = ["NotLeaderException", "QuorumNotUpgradable", "RecordBatchTooLargeException"]


class NotLeaderException(ApiException):
    """An append was requested from a replica that is not, or no longer, the leader."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)


class RecordBatchTooLargeException(ApiException):
    """Records that must stay together do not fit into one batch."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.RECORD_LIST_TOO_LARGE, message)


class QuorumNotUpgradable(Exception):
    """kraft.version can't be raised yet; the message names the missing condition."""
