"""Requests to a schema registry with Confluent's REST API. Schemas never change, so each is requested once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

import httpx
import msgspec

from barnabas.cli.records.schemas.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Reference", "RegisteredSchema", "SchemaRegistry"]

Parameters: TypeAlias = "Mapping[str, str] | None"

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_S = 10.0
_TRIES = 2
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


class SchemaRegistry:
    """``urls`` are equivalent servers. A URL may contain a user and a password."""

    def __init__(self, urls: Sequence[str], *, user_info: str = "", token: str = "") -> None:
        """``user_info`` is ``user:password``. Raise SchemaError for an unusable URL."""
        user, _, password = user_info.partition(":")
        headers = {"Accept": f"{_CONTENT_TYPE}, application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._urls = [url.rstrip("/") for url in urls]
        for url in self._urls:
            if not url.startswith(("http://", "https://")):
                raise SchemaError(f"--schema-registry {url}: write a URL as in http://localhost:8081")
        self._auth = (user, password) if user_info else None
        self._headers = headers
        self._by_id: dict[int, RegisteredSchema] = {}
        self._by_reference: dict[tuple[str, int, bool], RegisteredSchema] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return a schema by its id, a Protobuf one serialized. Raise SchemaError."""
        known = self._by_id.get(schema_id)
        if known is None:
            path = f"/schemas/ids/{schema_id}"
            found = self._get(path, None)
            if found.schemaType == "PROTOBUF":
                found = self._get(path, _SERIALIZED)
            known = self._by_id[schema_id] = _registered(found, schema_id)
        return known

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest schema of a subject. Raise SchemaError."""
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest", None)
        return self.schema(found.id)

    def referenced(self, reference: Reference, *, is_protobuf: bool) -> RegisteredSchema:
        """Return a schema that another one uses. Raise SchemaError."""
        key = reference.subject, reference.version, is_protobuf
        known = self._by_reference.get(key)
        if known is None:
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            found = self._get(path, _SERIALIZED if is_protobuf else None)
            known = self._by_reference[key] = _registered(found, found.id)
        return known

    def register(self, subject: str, kind: str, text: str) -> RegisteredSchema:
        """Register a schema, unless the subject has it, and return it. Raise SchemaError."""
        body = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
        found = self._send("POST", f"/subjects/{quote(subject, safe='')}/versions", None, msgspec.json.encode(body))
        return self.schema(found.id)

    def _get(self, path: str, parameters: Parameters) -> _Answer:
        return self._send("GET", path, parameters, None)

    def _send(self, method: str, path: str, parameters: Parameters, body: bytes | None) -> _Answer:
        failures: list[str] = []
        for url in self._urls * _TRIES:
            try:
                response = httpx.request(
                    method,
                    url + path,
                    params=parameters,
                    content=body,
                    headers=self._headers if body is None else self._headers | {"Content-Type": _CONTENT_TYPE},
                    auth=self._auth,
                    timeout=_TIMEOUT_S,
                    follow_redirects=True,
                    verify=url.startswith("https:"),  # Without TLS, certificates are not even loaded.
                )
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                failures.append(f"{_without_password(url)}: {error or type(error).__name__}")
                continue
            if response.status_code >= 500:
                failures.append(f"{_without_password(url)}: {_refusal(response)}")
                continue
            if response.status_code >= 300:
                raise _refused(method, path, response)
            try:
                return msgspec.json.decode(response.content, type=_Answer)
            except msgspec.DecodeError as error:
                raise SchemaError(
                    f"{_without_password(url)}{path} does not answer as a schema registry: {error}",
                    "check the path of --schema-registry",
                ) from error
        raise SchemaError(
            f"the schema registry does not answer: {failures[-1]}", "check that it runs at the URL of --schema-registry"
        )


def _registered(found: _Answer, schema_id: int) -> RegisteredSchema:
    return RegisteredSchema(schema_id, found.schemaType or "AVRO", found.schema, tuple(found.references))


def _refusal(response: httpx.Response) -> str:
    try:
        told = msgspec.json.decode(response.content, type=_Refusal)
    except msgspec.DecodeError:
        told = _Refusal()
    return f"{told.message} ({told.error_code})" if told.message else f"HTTP {response.status_code}"


def _refused(method: str, path: str, response: httpx.Response) -> SchemaError:
    advice = ""
    if response.status_code in (401, 403):
        advice = "set basic.auth.user.info=user:password in the file of --command-config"
    elif response.status_code == 404 and path.endswith("/latest"):
        advice = "--value-schema FILE registers a schema, --value-schema ID uses another one"
    elif response.status_code == 404:
        advice = "check that the records were written with this schema registry"
    return SchemaError(f"the schema registry refused {method} {path}: {_refusal(response)}", advice)


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
