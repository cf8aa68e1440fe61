"""A controller's listener with answers set by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from struct import Struct
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import RequestHeader, request_header_version
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.schema import Message
from barnabas.raft.voter_set import Endpoint

__all__ = ["Answer", "FakeController", "created"]

_SIZE = Struct(">i")
Answer = Callable[[EnvelopeRequest], Awaitable[EnvelopeResponse | None]]
"""None: close the connection without an answer."""

ALL = {
    int(key): (0, 9)
    for key in (ApiKey.API_VERSIONS, ApiKey.ENVELOPE, ApiKey.CREATE_TOPICS, ApiKey.ALLOCATE_PRODUCER_IDS)
}


async def created(envelope: EnvelopeRequest, *, correlation_shift: int = 0) -> EnvelopeResponse:
    """The answer of a controller to a valid CreateTopics."""
    header, position = RequestHeader.read(envelope.request_data, 0, 2)
    version = header.request_api_version
    request = CreateTopicsRequest.decode(envelope.request_data, version, position)
    results = [CreatableTopicResult(name=topic.name, error_message=None) for topic in request.topics]
    body = CreateTopicsResponse(topics=results).encode(version)
    return EnvelopeResponse(response_data=_SIZE.pack(header.correlation_id + correlation_shift) + b"\0" + body)


class FakeController:
    """``envelopes`` are those received, in order. Use it as ``async with``."""

    def __init__(self, answer: Answer = created, versions: Mapping[int, tuple[int, int]] = ALL) -> None:
        self.answer = answer
        self.envelopes: list[EnvelopeRequest] = []
        self.connections = 0
        self.own: list[bytes] = []
        """The brokers' own requests, as frames."""
        self.own_answer: Message | None = None
        self._versions = versions
        self._server: asyncio.Server | None = None

    @property
    def endpoint(self) -> Endpoint:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return Endpoint(host, port)

    async def __aenter__(self) -> FakeController:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *args: Any) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                (size,) = _SIZE.unpack(await reader.readexactly(4))
                answer = await self._answer(await reader.readexactly(size))
                if answer is None:
                    break
                writer.write(_SIZE.pack(len(answer)) + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, frame: bytes) -> bytes | None:
        key = ApiKey(int.from_bytes(frame[:2], "big"))
        version = int.from_bytes(frame[2:4], "big")
        header, position = RequestHeader.read(frame, 0, request_header_version(key, version))
        correlation_id = _SIZE.pack(header.correlation_id)
        if key is ApiKey.API_VERSIONS:
            keys = [
                ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in self._versions.items()
            ]
            return correlation_id + ApiVersionsResponse(api_keys=keys).encode(version)
        if key is not ApiKey.ENVELOPE:
            self.own.append(frame)
            return None if self.own_answer is None else correlation_id + b"\0" + self.own_answer.encode(version)
        envelope = EnvelopeRequest.decode(frame, 0, position)
        self.envelopes.append(envelope)
        response = await self.answer(envelope)
        return None if response is None else correlation_id + b"\0" + response.encode(0)
