"""A small schema registry with the paths and answers of Confluent's, on a free port, for the duration of a test.

It checks no compatibility: ``incompatible`` are subjects that take no other schema. A Protobuf schema is returned
compiled (``format=serialized``) if the test has passed its FileDescriptorProto, or if it was registered in that form,
as Confluent's Python client does.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

__all__ = ["RegistryDouble", "running_registry"]

_START_WITHIN_S = 10.0


@dataclass
class RegistryDouble:
    """``schemas`` are the registered ones by id, ``subjects`` the ids of their versions. ``paths`` were requested.

    ``status`` is the HTTP status of all answers, if it is not 0; ``authorization`` the header that requests need.
    """

    url: str = ""
    user_info: str = ""
    authorization: str = ""
    status: int = 0
    incompatible: set[str] = field(default_factory=set)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    compiled: dict[str, bytes] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        known = _known(schema)
        found = next((schema_id for schema_id, other in self.schemas.items() if other == known), None)
        schema_id = len(self.schemas) + 1 if found is None else found
        self.schemas[schema_id] = known
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def app(self) -> Starlette:
        routes = [
            Route("/schemas/ids/{schema_id:int}", self._schema),
            Route("/subjects/{subject}/versions", self._versions, methods=["GET"]),
            Route("/subjects/{subject}/versions", self._post, methods=["POST"]),
            Route("/subjects/{subject}/versions/{version}", self._version),
            Route("/subjects/{subject}", self._look_up, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def _schema(self, request: Request) -> JSONResponse:
        if (refused := self._refusal(request)) is not None:
            return refused
        schema = self.schemas.get(request.path_params["schema_id"])
        if schema is None:
            return _error(404, 40403, "Schema not found")
        return JSONResponse(self._shown(schema, request))

    async def _version(self, request: Request) -> JSONResponse:
        if (refused := self._refusal(request)) is not None:
            return refused
        subject, version = request.path_params["subject"], request.path_params["version"]
        ids = self.subjects.get(subject)
        if not ids:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        number = len(ids) if version == "latest" else int(version)
        schema_id = ids[number - 1]
        shown = self._shown(self.schemas[schema_id], request)
        return JSONResponse({"subject": subject, "version": number, "id": schema_id, **shown})

    async def _versions(self, request: Request) -> JSONResponse:
        if (refused := self._refusal(request)) is not None:
            return refused
        subject = request.path_params["subject"]
        ids = self.subjects.get(subject)
        return JSONResponse([*range(1, len(ids) + 1)]) if ids else _error(404, 40401, f"Subject '{subject}' not found.")

    async def _post(self, request: Request) -> JSONResponse:
        if (refused := self._refusal(request)) is not None:
            return refused
        body = await request.json()
        subject = request.path_params["subject"]
        if body.get("schemaType", "AVRO") != "PROTOBUF":
            try:
                json.loads(body["schema"])
            except ValueError:
                return _error(422, 42201, "Invalid schema")
        if subject in self.incompatible:
            return _error(409, 409, "Schema being registered is incompatible with an earlier schema")
        schema_id = self.register(subject, body)
        return JSONResponse({"id": schema_id, "subject": subject, "version": 1, "schema": body["schema"]})

    async def _look_up(self, request: Request) -> JSONResponse:
        if (refused := self._refusal(request)) is not None:
            return refused
        subject, known = request.path_params["subject"], _known(await request.json())
        ids = self.subjects.get(subject)
        if not ids:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        found = next((schema_id for schema_id in ids if self.schemas[schema_id] == known), None)
        if found is None:
            return _error(404, 40403, "Schema not found")
        return JSONResponse({"id": found, "subject": subject, "version": ids.index(found) + 1, **known})

    def _shown(self, schema: Mapping[str, Any], request: Request) -> dict[str, Any]:
        shown = {name: part for name, part in schema.items() if name in ("schema", "schemaType", "references")}
        if shown["schemaType"] == "AVRO":
            del shown["schemaType"]  # As the real one.
        if request.query_params.get("format") == "serialized":
            text = str(shown["schema"])
            shown["schema"] = base64.b64encode(self.compiled[text]).decode() if text in self.compiled else text
        return shown

    def _refusal(self, request: Request) -> JSONResponse | None:
        self.paths.append(request.url.path)
        if self.status:
            return _error(self.status, self.status, "The registry has an error")
        basic = f"Basic {base64.b64encode(self.user_info.encode()).decode()}" if self.user_info else ""
        wanted = self.authorization or basic
        if wanted and request.headers.get("authorization") != wanted:
            return _error(401, 401, "Unauthorized")
        return None


def _known(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schemaType": schema.get("schemaType") or "AVRO",
        "schema": schema["schema"],
        "references": schema.get("references") or [],
    }


def _error(status: int, code: int, message: str) -> JSONResponse:
    return JSONResponse({"error_code": code, "message": message}, status_code=status)


@contextmanager
def running_registry(**settings: Any) -> Iterator[RegistryDouble]:
    double = RegistryDouble(**settings)
    server = uvicorn.Server(uvicorn.Config(double.app(), host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + _START_WITHIN_S
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    (port,) = {socket.getsockname()[1] for listener in server.servers for socket in listener.sockets}
    double.url = f"http://127.0.0.1:{port}"
    try:
        yield double
    finally:
        server.should_exit = True
        thread.join(timeout=10)
