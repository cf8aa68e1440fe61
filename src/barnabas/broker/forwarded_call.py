"""Encodes a client's request as an Envelope and decodes the answer (KIP-590). It performs no I/O.

A client's request is forwarded unchanged, including its header, so that fields unknown to this broker survive. If the
broker changed the body, the client's header precedes it. A request that the broker builds in a client's name, to create
a topic, has the client's id and correlation id, in the highest version that the controller serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.common.host_address import host_address_bytes
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.envelope_tags import set_call_id
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from barnabas.protocol.messages.envelope import EnvelopeRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.protocol.schema import Message
    from barnabas.security.request_context import RequestContext

__all__ = ["ForwardedCall"]

REWRITTEN: Final = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
"""The broker answers a part of these itself and forwards the rest."""


class ForwardedCall:
    """One request in progress, as the transport needs it."""

    __slots__ = ("_call_id", "_context", "_principal", "_request", "_version")

    def __init__(self, request: Message, context: RequestContext, principal: bytes, call_id: bytes) -> None:
        """``principal`` is the client's, serialized for the controller's builder. ``call_id`` identifies this call."""
        self._call_id = call_id
        self._request = request
        self._context = context
        self._principal = principal
        self._version = context.api_version

    @property
    def timeout_ms(self) -> int | None:
        """The client's own time limit, if its request has one."""
        return getattr(self._request, "timeout_ms", None)

    def envelope(self, controller: Mapping[int, tuple[int, int]]) -> EnvelopeRequest:
        """Build the envelope. ``controller`` has the versions that the controller serves, by API key."""
        envelope = EnvelopeRequest(
            request_data=self._data(controller),
            request_principal=self._principal,
            client_host_address=host_address_bytes(self._context.client_host),
        )
        set_call_id(envelope, self._call_id)
        return envelope

    def _data(self, controller: Mapping[int, tuple[int, int]]) -> bytes:
        context, key = self._context, self._context.api_key
        frame = context.frame
        if frame is None:
            theirs = controller.get(key)
            if theirs is not None:
                self._version = min(API_TABLE[key].highest, theirs[1])
            header = RequestHeader(
                request_api_key=key,
                request_api_version=self._version,
                correlation_id=context.correlation_id,
                client_id=context.client_id,
            ).encode(request_header_version(key, self._version))
            return header + self._request.encode(self._version)
        if key not in REWRITTEN:
            return bytes(frame)
        _, end = RequestHeader.read(frame, 0, request_header_version(key, self._version))
        return bytes(memoryview(frame)[:end]) + self._request.encode(self._version)

    def answer(self, data: bytes | None, response_type: type[Message]) -> Message:
        """Return the controller's answer to the client. Raise DecodeError if it does not answer this request."""
        if data is None:
            raise DecodeError("the envelope has neither an error nor an answer")
        version = response_header_version(self._context.api_key, self._version)
        header, position = ResponseHeader.read(data, 0, version)
        if header.correlation_id != self._context.correlation_id:
            raise DecodeError(f"request {self._context.correlation_id} was answered as {header.correlation_id}")
        response, _ = response_type.read(data, position, self._version)
        return response
