"""Requests to the active controller: how each is encoded, and how its answer is decoded.

A client's request travels in a numbered envelope. A request of the broker's own is sent without one.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from barnabas.broker.forwarding_queue import Call
from barnabas.common.errors import ErrorCode, InvariantViolated
from barnabas.network.response_errors import ResponseErrors
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.envelope_tags import committed_offset_of
from barnabas.protocol.messages.envelope import EnvelopeResponse
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.forwarded_call import ForwardedCall
    from barnabas.protocol.schema import Request

__all__ = ["EnvelopedCall", "OwnCall", "WaitingCall"]

R_co = TypeVar("R_co", bound=Message, covariant=True)

_NOT_CONTROLLER: Final = int(ErrorCode.NOT_CONTROLLER)
_CREATES_ON_EACH_ATTEMPT: Final = frozenset({ApiKey.CREATE_DELEGATION_TOKEN})


class WaitingCall(Call, Generic[R_co]):
    """A call and the future of its answer."""

    __slots__ = ("_answer", "committed_offset", "future")

    def __init__(self) -> None:
        super().__init__()
        self.committed_offset: int | None = None
        """The committed offset of the metadata log when a barnabas controller answered."""
        self.future: asyncio.Future[R_co] = asyncio.get_running_loop().create_future()
        self._answer: R_co | None = None

    def message(self, controller: Mapping[int, tuple[int, int]]) -> Request[Message]:
        raise NotImplementedError

    def is_repeatable(self, *, is_numbered: bool) -> bool:
        """Return whether the call may safely be sent again after its answer was lost.

        ``is_numbered``: the controller that may have received it recognizes a repeated call.
        """
        return True

    def is_recognised(self, *, is_numbered: bool) -> bool:
        """Return whether a controller that has the call recognizes a repetition: then sending it early is safe."""
        return True

    def read(self, response: Message) -> ErrorCode:
        """Return the error of the attempt, or keep the answer for ``deliver``. Raise DecodeError if it is invalid."""
        raise NotImplementedError

    def deliver(self) -> None:
        """Pass the answer to the sender, unless it already has a result or has stopped waiting."""
        if self._answer is not None and not self.future.done():
            self.future.set_result(self._answer)

    def fail(self, error: Exception) -> None:
        """Raise the error at the sender, unless it already has a result or has stopped waiting."""
        if not self.future.done():
            self.future.set_exception(error)


class EnvelopedCall(WaitingCall[Message]):
    """A client's request.

    A Kafka controller ignores the number of the call. It may then apply a repeated call again, as with Kafka's own
    brokers: most changes end in the same state, and a second attempt to create or to delete is refused. A delegation
    token is the exception: each attempt would create another one.
    """

    __slots__ = ("_api_key", "_forwarded", "_response_type")

    def __init__(self, forwarded: ForwardedCall, api_key: ApiKey) -> None:
        super().__init__()
        self._api_key = api_key
        self._forwarded = forwarded
        self._response_type = _response_type(api_key)

    def is_repeatable(self, *, is_numbered: bool) -> bool:
        return is_numbered or self._api_key not in _CREATES_ON_EACH_ATTEMPT

    def is_recognised(self, *, is_numbered: bool) -> bool:
        return is_numbered

    def message(self, controller: Mapping[int, tuple[int, int]]) -> Request[Message]:
        return self._forwarded.envelope(controller)

    def read(self, response: Message) -> ErrorCode:
        if not isinstance(response, EnvelopeResponse):
            raise InvariantViolated(f"an envelope was answered by {type(response).__name__}")
        if response.error_code:
            return _error_code(response.error_code)
        self.committed_offset = committed_offset_of(response)
        self._answer = self._forwarded.answer(response.response_data, self._response_type)
        return ErrorCode.NONE


class OwnCall(WaitingCall[R_co]):
    __slots__ = ("_errors", "_request", "_response_type")

    def __init__(self, request: Request[R_co]) -> None:
        super().__init__()
        self._request = request
        self._response_type = request.response_type()
        self._errors = ResponseErrors(self._response_type)

    def message(self, controller: Mapping[int, tuple[int, int]]) -> Request[Message]:
        return self._request

    def read(self, response: Message) -> ErrorCode:
        if not isinstance(response, self._response_type):
            raise InvariantViolated(f"{type(self._request).__name__} was answered by {type(response).__name__}")
        if _NOT_CONTROLLER in self._errors.of(response):
            return ErrorCode.NOT_CONTROLLER
        self._answer = response
        return ErrorCode.NONE


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _response_type(api_key: ApiKey) -> type[Message]:
    module = import_module(f"barnabas.protocol.messages.{api_key.name.lower()}")
    found: type[Message] = getattr(module, f"{API_TABLE[api_key].name}Response")
    return found
