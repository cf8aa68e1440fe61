"""Requests on their way to the active controller: what is sent, and how an answer is read.

A client's request travels in a numbered envelope, a request of the broker's own as it is.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.forwarding_queue import Call
from barnabas.common.errors import ErrorCode
from barnabas.network.response_errors import ResponseErrors
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.envelope_tags import committed_offset_of
from barnabas.protocol.messages.envelope import EnvelopeResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.forwarded_call import ForwardedCall
    from barnabas.protocol.schema import Message

__all__ = ["EnvelopedCall", "OwnCall", "WaitingCall"]

_NOT_CONTROLLER: Final = int(ErrorCode.NOT_CONTROLLER)
_CREATES_ANEW: Final = frozenset({ApiKey.CREATE_DELEGATION_TOKEN})


class WaitingCall(Call):
    """A call, and the future of its answer."""

    __slots__ = ("committed_offset", "future")

    def __init__(self) -> None:
        super().__init__()
        self.committed_offset: int | None = None
        """How far the metadata log was committed when a controller of ours answered."""
        self.future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def message(self, controller: Mapping[int, tuple[int, int]]) -> Message:
        raise NotImplementedError

    def is_repeatable(self, *, is_numbered: bool) -> bool:
        """Whether it does no harm to send it again when its answer was lost.

        ``is_numbered``: the controller that may have it is known to recognise a call that comes again.
        """
        return True

    def is_recognised(self, *, is_numbered: bool) -> bool:
        """Whether a controller that has it already notices when it comes again, so that sending it early is safe."""
        return True

    def settle(self, outcome: Message | Exception | None) -> None:
        """Hand the outcome to the sender, unless it has one already or has gone."""
        if self.future.done():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        elif outcome is not None:
            self.future.set_result(outcome)

    def read(self, response: Any) -> tuple[ErrorCode, Message | None]:
        """The error of the attempt, and the answer if there is none. Raises DecodeError."""
        raise NotImplementedError


class EnvelopedCall(WaitingCall):
    """A client's request.

    A controller of Kafka's does not know its number. Then a call that is sent again may be applied again, as with
    Kafka's own brokers: most changes end in the same state, and a second attempt to create or to delete is refused. A
    delegation token is the exception: each attempt would create another one.
    """

    __slots__ = ("_api_key", "_forwarded", "_response_type")

    def __init__(self, forwarded: ForwardedCall, api_key: ApiKey) -> None:
        super().__init__()
        self._api_key = api_key
        self._forwarded = forwarded
        self._response_type = _response_type(api_key)

    def is_repeatable(self, *, is_numbered: bool) -> bool:
        return is_numbered or self._api_key not in _CREATES_ANEW

    def is_recognised(self, *, is_numbered: bool) -> bool:
        return is_numbered

    def message(self, controller: Mapping[int, tuple[int, int]]) -> Message:
        return self._forwarded.envelope(controller)

    def read(self, response: EnvelopeResponse) -> tuple[ErrorCode, Message | None]:
        if response.error_code:
            return _error_code(response.error_code), None
        self.committed_offset = committed_offset_of(response)
        return ErrorCode.NONE, self._forwarded.answer(response.response_data, self._response_type)


class OwnCall(WaitingCall):
    __slots__ = ("_errors", "_request")

    def __init__(self, request: Message) -> None:
        super().__init__()
        self._request = request
        self._errors = ResponseErrors(_response_type(ApiKey(request.API_KEY)))

    def message(self, controller: Mapping[int, tuple[int, int]]) -> Message:
        return self._request

    def read(self, response: Message) -> tuple[ErrorCode, Message | None]:
        if _NOT_CONTROLLER in self._errors.of(response):
            return ErrorCode.NOT_CONTROLLER, None
        return ErrorCode.NONE, response


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _response_type(api_key: ApiKey) -> type[Message]:
    module = import_module(f"barnabas.protocol.messages.{api_key.name.lower()}")
    found: type[Message] = getattr(module, f"{API_TABLE[api_key].name}Response")
    return found
