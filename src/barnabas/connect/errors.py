"""Errors of requests to a worker. ``http_status`` is the status and ``error_code`` of the REST answer."""

from __future__ import annotations

__all__ = [
    "AlreadyExists",
    "BadRequest",
    "ConnectError",
    "NotAssigned",
    "NotFound",
    "NotLeader",
    "RebalanceNeeded",
    "RequestFailed",
]


class ConnectError(Exception):
    """Any error without a more specific class: 500. The text is for the caller."""

    http_status: int = 500


class BadRequest(ConnectError):
    http_status = 400


class NotFound(ConnectError):
    http_status = 404


class AlreadyExists(ConnectError):
    http_status = 409


class RebalanceNeeded(ConnectError):
    """The worker can't answer now, because the group is about to change."""

    http_status = 409


class RequestFailed(ConnectError):
    """An error of another worker, returned with its status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.http_status = status


class _OtherWorker(ConnectError):
    """Another worker answers this. ``url`` is its advertised URL with a slash at the end, None if it is unknown."""

    http_status = 409

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url


class NotLeader(_OtherWorker):
    """Only the leader of the group answers this."""


class NotAssigned(_OtherWorker):
    """Only the worker that runs the connector or task answers this."""
