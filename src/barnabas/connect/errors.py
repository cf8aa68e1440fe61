"""What a request to a worker may end with. ``http_status`` is the status and ``error_code`` of the REST answer."""

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
    """Anything that is not told apart further: 500. The text is for the one who asked."""

    http_status: int = 500


class BadRequest(ConnectError):
    http_status = 400


class NotFound(ConnectError):
    http_status = 404


class AlreadyExists(ConnectError):
    http_status = 409


class RebalanceNeeded(ConnectError):
    """The worker can't say now, because the group is about to be another one."""

    http_status = 409


class RequestFailed(ConnectError):
    """An answer of another worker, handed on with its status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.http_status = status


class _SomebodyElse(ConnectError):
    """Another worker answers this. ``url`` is its advertised URL with a slash at the end, None if nobody is known."""

    http_status = 409

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url


class NotLeader(_SomebodyElse):
    """Only the leader of the group answers this."""


class NotAssigned(_SomebodyElse):
    """Only the worker that runs the connector or task answers this."""
