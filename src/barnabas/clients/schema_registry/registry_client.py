"""Requests to a schema registry with Confluent's REST API, over one of its equivalent servers.

Schemas never change, so each is requested once and kept, within a bound. The latest version of a subject does change:
``latest_max_age_s`` says for how long it is kept. A server that does not answer, or that answers with an error of its
own, is followed by the next one; after all of them failed, the client pauses and begins again, ``retries`` times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from barnabas.clients.schema_registry.bounded_cache import BoundedCache
from barnabas.clients.schema_registry.errors import (
    RegistryRefused,
    RegistryUnreachable,
    SchemaError,
    SchemaNotFound,
)

if TYPE_CHECKING:
    import ssl

__all__ = ["Reference", "RegisteredSchema", "RegistryAccess", "RegistryAdvice", "SchemaRegistry", "shown_url"]

Parameters: TypeAlias = "Mapping[str, str] | None"
Body = TypeVar("Body")

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_CACHE_SIZE = 1000
_RETRIED = frozenset((408, 429))
_SERIALIZED = {"format": "serialized"}
"""A Protobuf schema as a FileDescriptorProto in base64, instead of its source text."""


class Reference(msgspec.Struct, frozen=True):
    """``name`` is the name by which the schema uses the other one: a type of Avro, a URL, or a .proto file."""

    name: str
    subject: str
    version: int


class _Answer(msgspec.Struct):
    schema: str = ""
    id: int = -1
    schemaType: str = "AVRO"
    references: list[Reference] = []


class _Refusal(msgspec.Struct):
    error_code: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """``kind`` is AVRO, JSON or PROTOBUF. ``references`` are in the order of the schema."""

    schema_id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistryAdvice:
    """What a person does after an error, in the words of the program that uses the client."""

    url: str = "check that it runs at the URL of schema.registry.url"
    credentials: str = (
        "set basic.auth.credentials.source=USER_INFO and basic.auth.user.info=user:password, or bearer.auth.token"
    )
    no_latest: str = "register a schema for the subject first"
    no_schema: str = "check that the records were written with this schema registry"


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """How to reach a registry. Pauses between tries double from ``retry_wait_s`` to ``retry_wait_max_s``."""

    user_info: str = field(default="", repr=False)
    """``user:password``."""
    token: Callable[[], str] | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: ssl.SSLContext | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    retries: int = 1
    retry_wait_s: float = 0.0
    retry_wait_max_s: float = 0.0
    latest_max_age_s: float | None = 0.0
    """None: the latest version of a subject is requested once."""
    cache_size: int = _CACHE_SIZE
    advice: RegistryAdvice = RegistryAdvice()


class SchemaRegistry:
    """``urls`` are equivalent servers. A URL may contain a user and a password. Not for several threads at once."""

    def __init__(
        self,
        urls: Sequence[str],
        access: RegistryAccess | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raise SchemaError for an unusable URL."""
        self._access = access = access or RegistryAccess()
        self._urls = [url.rstrip("/") for url in urls]
        for url in self._urls:
            if not url.startswith(("http://", "https://")):
                raise SchemaError(f"{shown_url(url)}: write a URL as in http://localhost:8081")
        user, _, password = access.user_info.partition(":")
        self._auth = (user, password) if access.user_info else None
        self._sleep, self._clock = sleep, clock
        self._by_id: BoundedCache[int, RegisteredSchema] = BoundedCache(access.cache_size)
        self._by_reference: BoundedCache[tuple[str, int, bool], RegisteredSchema] = BoundedCache(access.cache_size)
        self._by_text: BoundedCache[tuple[str, str, bool], RegisteredSchema] = BoundedCache(access.cache_size)
        self._latest: BoundedCache[str, tuple[float, RegisteredSchema]] = BoundedCache(access.cache_size)

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return a schema by its id, a Protobuf one serialized. Raise SchemaError."""
        known = self._by_id.get(schema_id)
        if known is None:
            path = f"/schemas/ids/{schema_id}"
            found = self._get(path, None, _Answer)
            if found.schemaType == "PROTOBUF":
                found = self._get(path, _SERIALIZED, _Answer)
            known = self._by_id.put(schema_id, _registered(found, schema_id))
        return known

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest schema of a subject. Raise SchemaError."""
        known, now_s, age_s = self._latest.get(subject), self._clock(), self._access.latest_max_age_s
        if known is not None and (age_s is None or now_s - known[0] < age_s):
            return known[1]
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest", None, _Answer)
        return self._latest.put(subject, (now_s, self.schema(found.id)))[1]

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """Return all schemas of a subject, the oldest first. Raise SchemaError."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        numbers = self._get(path, None, list[int])
        return [self.schema(self._get(f"{path}/{number}", None, _Answer).id) for number in sorted(numbers)]

    def referenced(self, reference: Reference, *, is_protobuf: bool) -> RegisteredSchema:
        """Return a schema that another one uses. Raise SchemaError."""
        key = reference.subject, reference.version, is_protobuf
        known = self._by_reference.get(key)
        if known is None:
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            found = self._get(path, _SERIALIZED if is_protobuf else None, _Answer)
            known = self._by_reference.put(key, _registered(found, found.id))
        return known

    def register(self, subject: str, kind: str, text: str, *, normalize: bool = False) -> RegisteredSchema:
        """Register a schema, unless the subject has it, and return it. Raise SchemaError."""
        return self._posted(subject, kind, text, "/versions", normalize)

    def registered(self, subject: str, kind: str, text: str, *, normalize: bool = False) -> RegisteredSchema:
        """Return the schema of this text, which the subject must have already. Raise SchemaError."""
        return self._posted(subject, kind, text, "", normalize)

    def _posted(self, subject: str, kind: str, text: str, below: str, normalize: bool) -> RegisteredSchema:
        known = self._by_text.get((subject, text, bool(below)))
        if known is None:
            body = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
            path = f"/subjects/{quote(subject, safe='')}{below}"
            normalizing = {"normalize": "true"} if normalize else None
            found = self._send("POST", path, normalizing, msgspec.json.encode(body), _Answer)
            known = self._by_text.put((subject, text, bool(below)), self.schema(found.id))
        return known

    def _get(self, path: str, parameters: Parameters, kind: type[Body]) -> Body:
        return self._send("GET", path, parameters, None, kind)

    def _send(self, method: str, path: str, parameters: Parameters, body: bytes | None, kind: type[Body]) -> Body:
        access, failures = self._access, []
        for attempt in range(access.retries + 1):
            if attempt:
                self._sleep(min(access.retry_wait_s * 2 ** (attempt - 1), access.retry_wait_max_s))
            for url in self._urls:
                try:
                    response = self._request(method, url + path, parameters, body)
                except (httpx.HTTPError, httpx.InvalidURL) as error:
                    failures.append(f"{shown_url(url)}: {error or type(error).__name__}")
                    continue
                if response.status_code >= 500 or response.status_code in _RETRIED:
                    failures.append(f"{shown_url(url)}: {_refusal(response)[1]}")
                    continue
                if response.status_code >= 300:
                    raise self._refused(method, url, path, response)
                return self._answer(url, path, response, kind)
        reasons = "; ".join(dict.fromkeys(failures[-len(self._urls) :]))
        raise RegistryUnreachable(f"the schema registry does not answer: {reasons}", access.advice.url)

    def _request(self, method: str, url: str, parameters: Parameters, body: bytes | None) -> httpx.Response:
        access = self._access
        headers = {"Accept": f"{_CONTENT_TYPE}, application/json", **access.headers}
        if access.token is not None:
            headers["Authorization"] = f"Bearer {access.token()}"
        if body is not None:
            headers["Content-Type"] = _CONTENT_TYPE
        return httpx.request(
            method,
            url,
            params=parameters,
            content=body,
            headers=headers,
            auth=self._auth,
            timeout=httpx.Timeout(access.read_timeout_s, connect=access.connect_timeout_s),
            follow_redirects=True,
            # Without TLS, certificates are not even loaded.
            verify=access.tls or True if url.startswith("https:") else False,
        )

    def _answer(self, url: str, path: str, response: httpx.Response, kind: type[Body]) -> Body:
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.DecodeError as error:
            raise RegistryUnreachable(
                f"{shown_url(url)}{path} does not answer as a schema registry: {error}", "check the path of its URL"
            ) from error

    def _refused(self, method: str, url: str, path: str, response: httpx.Response) -> RegistryRefused:
        (code, reason), status, advice = _refusal(response), response.status_code, self._access.advice
        text = f"the schema registry {shown_url(url)} refused {method} {path}: {reason}"
        if status == 404:
            hint = advice.no_latest if path.endswith("/latest") else advice.no_schema
            return SchemaNotFound(text, hint, status=status, code=code)
        return RegistryRefused(text, advice.credentials if status in (401, 403) else "", status=status, code=code)


def _registered(found: _Answer, schema_id: int) -> RegisteredSchema:
    return RegisteredSchema(schema_id, found.schemaType or "AVRO", found.schema, tuple(found.references))


def _refusal(response: httpx.Response) -> tuple[int, str]:
    try:
        body = msgspec.json.decode(response.content, type=_Refusal)
    except msgspec.DecodeError:
        body = _Refusal()
    code = body.error_code
    return code, f"{body.message} ({code})" if body.message else f"HTTP {response.status_code}"


def shown_url(url: str) -> str:
    """Return a URL without its user and password."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
