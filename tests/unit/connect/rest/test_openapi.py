"""The OpenAPI document contains exactly the public routes, and its references exist."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.connect.rest.openapi import openapi_document
from barnabas.connect.rest.route import Access
from barnabas.connect.rest.route_table import ROUTES
from tests.peers.rest_workers import RestWorkers


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(_references(item) for item in value))
    return set()


def test_the_document_has_all_public_routes_and_no_internal_one() -> None:
    documented = {
        (method.upper(), path) for path, methods in openapi_document("1")["paths"].items() for method in methods
    }
    assert documented == {(route.method, route.path) for route in ROUTES if route.access is not Access.INTERNAL}
    assert ("POST", "/connectors/{connector}/tasks") not in documented
    assert "fence" not in str(openapi_document("1"))


def test_all_references_of_the_document_exist() -> None:
    document = openapi_document("1")
    found = _references(document)
    assert found
    assert {name.rpartition("/")[2] for name in found} <= document["components"]["schemas"].keys()


def test_every_operation_has_a_unique_name() -> None:
    paths = openapi_document("1")["paths"].values()
    names = [operation["operationId"] for methods in paths for operation in methods.values()]
    assert len(names) == len(set(names))


@pytest.mark.anyio
async def test_the_document_is_served() -> None:
    answer = await RestWorkers().send("A", "GET", "/openapi.json")
    assert answer.json()["openapi"] == "3.1.0"
    assert answer.json()["info"]["version"] == "0.1"
