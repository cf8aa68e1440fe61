"""The base classes of errors, by the code that handles them.

``ApiException`` becomes an error field of a response. ``InvariantViolated`` means a bug in barnabas: parts that can
no longer be trusted must stop. ``Transient`` and ``Terminal`` guide retry loops.
Only ``ApiException.message`` ever reaches a client: the cause stays in our log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ApiError",
    "ApiException",
    "ErrorCode",
    "InvalidRecords",
    "InvariantViolated",
    "Terminal",
    "Transient",
    "invariant",
]


_MESSAGE_MAX = 8000
"""Messages are cut to this many characters, which always fit a string of the protocol: 32767 bytes."""


def _shortened(message: str) -> str:
    return f"{message[: _MESSAGE_MAX - 4]} ..."


class ApiException(Exception):
    """The caller receives a response with this error code and message."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message if message is None or len(message) <= _MESSAGE_MAX else _shortened(message)

    @property
    def retriable(self) -> bool:
        return self.code.retriable


class ApiError:
    """One item's outcome in a batch: a code and, for errors, a message."""

    __slots__ = ("code", "message")

    NONE: ClassVar[ApiError]

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = message if message is None or len(message) <= _MESSAGE_MAX else _shortened(message)

    @classmethod
    def of(cls, error: ApiException) -> ApiError:
        return cls(error.code, error.message)

    @property
    def is_error(self) -> bool:
        return self.code != ErrorCode.NONE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiError) and (self.code, self.message) == (other.code, other.message)

    def __hash__(self) -> int:
        return hash((self.code, self.message))

    def __repr__(self) -> str:
        return f"ApiError({self.code.name}, {self.message!r})"


ApiError.NONE = ApiError(ErrorCode.NONE)


class Transient:
    """Mix-in: the environment failed, and a retry may succeed."""


class Terminal:
    """Mix-in: the environment failed, and a retry will not succeed."""


class InvariantViolated(Exception):
    """A bug in barnabas. Never swallowed: the active controller resigns, a node stops serving what it can't trust."""


def invariant(condition: object, message: str) -> None:
    """Raise InvariantViolated unless the condition holds (a plain assert vanishes under -O)."""
    if not condition:
        raise InvariantViolated(message)


class InvalidRecords(ApiException):
    """Some records of a produced batch are refused: their indexes in the batch, and the reasons."""

    def __init__(
        self, message: str, record_errors: Sequence[tuple[int, str]], code: ErrorCode = ErrorCode.INVALID_RECORD
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors
