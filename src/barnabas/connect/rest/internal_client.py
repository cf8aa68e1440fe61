"""Requests to other workers: one pooled client, for forwarded and for internal requests (KIP-507).

An answer of 400 and more becomes a RequestFailed with its status and message. A redirect, a connection error, a
time-out or an unreadable answer is a RequestFailed with 500. Redirects are not followed, and proxies of the
environment are not used: signatures and users' passwords are sent only to the named worker.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import httpx
import msgspec

from barnabas.connect.decide.session_key import SessionView
from barnabas.connect.entities import ErrorMessage
from barnabas.connect.errors import RequestFailed
from barnabas.connect.rest.request_freshness import FRESHNESS_HEADER, Freshness, SentRequest
from barnabas.connect.rest.request_signature import signed_headers
from barnabas.connect.worker_names import naming_worker

__all__ = ["Answer", "InternalClient", "encoded_segment", "request_body"]

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 90.0
_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_NONCE_BYTES = 16
_USER_AGENT = "kafka-connect"


class _Answered(RequestFailed):
    """The other worker has refused; the text is its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a worker: a status below 300, and its body."""

    status: int
    body: bytes


def encoded_segment(name: str) -> str:
    """Encode a connector's name as a part of a path. Java does not encode a slash, so such a connector never starts."""
    return quote(name, safe="")


def request_body(configs: Sequence[Mapping[str, str | None]]) -> bytes:
    """Return the bytes that are signed and sent: compact JSON in UTF-8, without unnecessary escapes."""
    return json.dumps([dict(config) for config in configs], ensure_ascii=False, separators=(",", ":")).encode("utf-8")


class InternalClient:
    """``session`` returns the current key. ``now_ms`` is the wall clock, ``random_bytes`` a source of randomness."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        session: Callable[[], SessionView],
        signature_algorithm: str,
        now_ms: Callable[[], int],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._client = client
        self._session = session
        self._algorithm = signature_algorithm
        self._now_ms = now_ms
        self._random_bytes = random_bytes

    async def post_task_configs(self, url: str, name: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Have the leader write a connector's tasks. ``url`` is the leader's advertised URL. Raise RequestFailed."""
        await self._signed("POST", url, f"/connectors/{encoded_segment(name)}/tasks", request_body(configs))

    async def put_fence(self, url: str, name: str) -> None:
        """Have the leader fence older tasks of a connector (KIP-618). Raise RequestFailed."""
        await self._signed("PUT", url, f"/connectors/{encoded_segment(name)}/fence", b"")

    async def send(self, method: str, url: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request. ``target`` is the path with its query. Raise RequestFailed."""
        sent = {"Accept": "application/json", "User-Agent": _USER_AGENT, **headers}
        if body:
            sent["Content-Type"] = "application/json"
        try:
            async with self._client.stream(
                method, url.rstrip("/") + target, content=body or None, headers=sent
            ) as response:
                return _judged(response, await _read(response))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            log.warning("%s %s at %s failed: %s", method, target, url, reason)
            raise RequestFailed(
                500, f"IO Error trying to forward REST request: {url} can't be contacted: {reason}"
            ) from error

    def freshness_header(self, request: SentRequest, *, user: str = "", role: str = "") -> dict[str, str]:
        """Return the header; empty without a key."""
        key = self._session().key
        if key is None:
            return {}
        freshness = Freshness(self._now_ms(), self._random_bytes(_NONCE_BYTES), user, role)
        return {FRESHNESS_HEADER: freshness.header(key, request)}

    def replace(self, client: httpx.AsyncClient) -> httpx.AsyncClient:
        """Use another client from now on. Return the former one, which may still wait for answers."""
        before, self._client = self._client, client
        return before

    async def close(self) -> None:
        await self._client.aclose()

    async def _signed(self, method: str, url: str, target: str, body: bytes) -> None:
        key = self._session().key
        headers = signed_headers(self._algorithm, key, body)
        headers |= self.freshness_header(SentRequest(method=method, target=target, worker_url=url, body=body))
        try:
            await self.send(method, url, target, body, headers)
        except _Answered as error:
            how = "without a signature, because it has no session key yet"
            if key is not None:
                how = f"signed with {self._algorithm} (inter.worker.signature.algorithm)"
            raise RequestFailed(
                error.http_status,
                f"the worker at {url} refused ({error.http_status}) {method} {target}, which this worker sent {how}. "
                f"It answered: {error}",
            ) from error


async def _read(response: httpx.Response) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > _ANSWER_BYTES_MAX:
            raise RequestFailed(500, f"The worker's answer is longer than {_ANSWER_BYTES_MAX} bytes")
    return bytes(data)


def _judged(response: httpx.Response, body: bytes) -> Answer:
    status = response.status_code
    if status < 300:
        return Answer(status, body)
    if status < 400:
        raise RequestFailed(500, f"Unexpected status code when handling forwarded request: {status}")
    try:
        error = msgspec.json.decode(body, type=ErrorMessage)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A server between the workers, such as a proxy, has returned its own form.
        raise _Answered(status, f"The worker at {response.request.url.host} answered with {status}") from None
    raise _Answered(status, naming_worker(error.message, response.request.url.netloc.decode()))
