"""The OpenAPI document of the REST API, generated from the table of routes and the types of its bodies.

It omits internal routes: they are for workers, and signed (KIP-507).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeAlias

import msgspec

from barnabas.connect.entities import ErrorMessage
from barnabas.connect.rest.route import Access, Route
from barnabas.connect.rest.route_table import ROUTES

__all__ = ["openapi_document"]

_Object: TypeAlias = dict[str, Any]
"""A part of an OpenAPI document."""

_COMPONENT = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")


@cache
def openapi_document(version: str) -> _Object:
    documented = [route for route in ROUTES if route.access is not Access.INTERNAL]
    types = [kind for route in documented for kind in (route.body, *route.answers.values()) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, ErrorMessage], ref_template=_COMPONENT)
    by_type = list(zip([*types, ErrorMessage], schemas, strict=True))
    paths: dict[str, _Object] = {}
    for route in documented:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Connect on Spark",
            "version": version,
            "description": "The REST API of Kafka Connect 4.3, served by a worker whose tasks are Spark queries.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "certificate": {"type": "mutualTLS"},
            },
        },
    }


def _operation(route: Route, schemas: list[tuple[Any, _Object]]) -> _Object:
    operation: _Object = {
        "operationId": route.handler.__name__,
        "summary": route.about,
        "tags": [route.path.split("/")[1] or "worker"],
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {
            **{str(status): _answer(kind, schemas) for status, kind in route.answers.items()},
            "default": _answer(ErrorMessage, schemas, "The reason"),
        },
    }
    if route.body is not None:
        content = {"application/json": {"schema": _schema(route.body, schemas)}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.access.role is not None:
        operation["description"] = f"Needs the role {route.access.role.text} if the worker requires authentication."
        operation["security"] = [{}, {"basic": []}, {"bearer": []}, {"certificate": []}]
    return operation


def _path_parameters(route: Route) -> list[_Object]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "format": "int32"} if name == "task" else {"type": "string"},
        }
        for name in _PARAMETER.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[_Object]:
    found = []
    for parameter in route.query:
        schema: _Object = {"type": "string"}
        if parameter.values:
            schema["enum"] = list(parameter.values)
        if parameter.is_repeated:
            schema = {"type": "array", "items": schema}
        found.append({"name": parameter.name, "in": "query", "description": parameter.about, "schema": schema})
    return found


def _answer(kind: Any, schemas: list[tuple[Any, _Object]], about: str = "Done") -> _Object:
    if kind is None:
        return {"description": about}
    return {"description": about, "content": {"application/json": {"schema": _schema(kind, schemas)}}}


def _schema(kind: Any, schemas: list[tuple[Any, _Object]]) -> _Object:
    return next(schema for candidate, schema in schemas if candidate == kind)
