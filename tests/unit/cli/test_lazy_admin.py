"""The admin client of the commands has the operations of the public one, and loads only those that are used."""

from __future__ import annotations

import asyncio
from importlib import import_module
from unittest.mock import create_autospec

import pytest

from barnabas.cli.arguments.lazy_admin import AREAS, LazyAdmin
from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.operations import Operations
from barnabas.clients.client_config import client_config
from barnabas.clients.network_client import NetworkClient


def lazy_admin() -> LazyAdmin:
    return LazyAdmin(client_config({}, bootstrap="localhost:9092"), create_autospec(NetworkClient, instance=True))


def test_the_table_of_areas_has_every_operation() -> None:
    kinds = [kind for kind in AdminClient.__mro__ if kind.__name__.endswith("Operations") and kind is not Operations]
    declared = {
        kind.__module__.rpartition(".")[2]: (kind.__name__, {name for name in vars(kind) if not name.startswith("_")})
        for kind in kinds
    }
    assert declared == {module: (area, set(operations.split())) for module, (area, operations) in AREAS.items()}


@pytest.mark.parametrize(("module", "area", "operation"), [(m, a, o.split()[0]) for m, (a, o) in AREAS.items()])
def test_an_operation_is_that_of_its_area(module: str, area: str, operation: str) -> None:
    found = getattr(lazy_admin(), operation)
    assert found.__func__ is getattr(getattr(import_module(f"barnabas.clients.admin.{module}"), area), operation)


def test_an_unknown_operation_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no operation 'create_topic'"):
        lazy_admin().create_topic  # type: ignore[attr-defined]  # noqa: B018


def test_the_connections_are_closed_at_the_end() -> None:
    network = create_autospec(NetworkClient, instance=True)

    async def use() -> None:
        async with LazyAdmin(client_config({}, bootstrap="localhost:9092"), network) as admin:
            assert admin.config.asks_controllers is False

    asyncio.run(use())
    network.close.assert_awaited_once()
