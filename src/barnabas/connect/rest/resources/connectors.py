"""Connectors and their configurations."""

from __future__ import annotations

from typing import Any

import msgspec

from barnabas.connect.entities import ConnectorInfo, TaskInfo
from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services, is_true
from barnabas.connect.rest.internal_client import encoded_segment
from barnabas.connect.rest.json_bodies import ConfigMap, read_config, read_create
from barnabas.connect.rest.resources.states import DETAILS
from barnabas.connect.rest.route import CONNECTOR, FORWARD, Access, Config, Parameter, Route

__all__ = [
    "ROUTES",
    "create_connector",
    "delete_connector",
    "get_connector",
    "get_connector_config",
    "get_tasks",
    "list_connectors",
    "patch_connector_config",
    "put_connector_config",
]

_INITIAL_STATES = {"STARTED": "RUNNING", "PAUSED": "PAUSED", "STOPPED": "STOPPED"}


async def list_connectors(services: Services, request: ApiRequest) -> Reply:
    """Return names, or with ``expand`` details. From the snapshot: this never waits."""
    names = services.herder.connectors.names()
    wanted = request.query.get("expand")
    if not wanted:
        return Reply(200, list(names))
    details = is_true(request.last("details"))
    found = {name: _expanded(services, name, wanted, has_details=details) for name in names}
    return Reply(200, {name: expanded for name, expanded in found.items() if expanded is not None})


def _expanded(services: Services, name: str, wanted: Any, *, has_details: bool) -> dict[str, Any] | None:
    """Return the details; None for a connector that is being created or deleted, which Kafka omits."""
    found: dict[str, Any] = {}
    try:
        for expansion in wanted:
            if expansion == "status":
                statuses = services.herder.statuses
                read = statuses.connector_details if has_details else statuses.connector_status
                found["status"] = read(name)
            elif expansion == "info":
                found["info"] = services.herder.connectors.info_in_snapshot(name)
    except ConnectError:
        return None
    return found


async def create_connector(services: Services, request: ApiRequest) -> Reply:
    wanted = await request.parsed(read_create)
    config = _with_name(wanted.name, wanted.config)
    initial_state = None if wanted.initial_state is None else _INITIAL_STATES[wanted.initial_state.value]
    body = {"name": wanted.name, "config": wanted.config, "initial_state": initial_state}
    outcome = await services.forwarder.complete(
        request.forwardable("POST", "/connectors", msgspec.json.encode(body)),
        lambda: services.herder.connectors.create(wanted.name, config, wanted.initial_state),
    )
    return Reply.of(outcome, lambda info: Reply(201, info)).located(_location(request, wanted.name))


async def get_connector(services: Services, request: ApiRequest) -> Reply:
    return Reply(200, await services.forwarder.settled(lambda: services.herder.connectors.info(request.connector)))


async def get_connector_config(services: Services, request: ApiRequest) -> Reply:
    return Reply(200, await services.forwarder.settled(lambda: services.herder.connectors.config(request.connector)))


async def put_connector_config(services: Services, request: ApiRequest) -> Reply:
    name, given = request.connector, await request.parsed(read_config)
    config = _with_name(name, given)
    outcome = await services.forwarder.complete(
        request.forwardable("PUT", f"/connectors/{encoded_segment(name)}/config", msgspec.json.encode(given)),
        lambda: services.herder.connectors.put(name, config),
    )
    return Reply.of(outcome, _created_or_updated).located(_location(request, name))


def _created_or_updated(outcome: tuple[ConnectorInfo, bool]) -> Reply:
    info, is_new = outcome
    return Reply(201 if is_new else 200, info)


async def patch_connector_config(services: Services, request: ApiRequest) -> Reply:
    name, patch = request.connector, await request.parsed(read_config)
    outcome = await services.forwarder.complete(
        request.forwardable("PATCH", f"/connectors/{encoded_segment(name)}/config", msgspec.json.encode(patch)),
        lambda: services.herder.connectors.patch(name, patch),
    )
    return Reply.of(outcome, lambda info: Reply(200, info))


async def delete_connector(services: Services, request: ApiRequest) -> Reply:
    name = request.connector
    outcome = await services.forwarder.complete(
        request.forwardable("DELETE", f"/connectors/{encoded_segment(name)}"),
        lambda: services.herder.connectors.delete(name),
    )
    return Reply.of(outcome, lambda _: Reply(204))


async def get_tasks(services: Services, request: ApiRequest) -> Reply:
    return Reply(
        200, list(await services.forwarder.settled(lambda: services.herder.connectors.tasks(request.connector)))
    )


def _with_name(name: str, config: ConfigMap) -> ConfigMap:
    """Return the configuration with its name. Raise BadRequest if it has another."""
    configured = config.get("name")
    if configured is not None and configured != name:
        raise BadRequest(
            f"Connector name configuration ({configured}) doesn't match connector name in the URL ({name})"
        )
    return {**config, "name": name}


def _location(request: ApiRequest, name: str) -> str:
    return f"{request.base_url}/connectors/{encoded_segment(name)}"


_EXPAND = Parameter(
    "expand", "The details to return of each connector, instead of names only.", ("info", "status"), True
)

ExpandedConnectors = dict[str, dict[str, Any]]


class CreateRequest(msgspec.Struct, frozen=True):
    """The body of POST /connectors, for the document. ``initial_state`` is RUNNING, PAUSED or STOPPED (KIP-980)."""

    name: str
    config: Config
    initial_state: str | None = None


ROUTES = (
    Route(
        "GET",
        "/connectors",
        Access.READ,
        list_connectors,
        "Names of all connectors, or details of each",
        {200: list[str] | ExpandedConnectors},
        query=(_EXPAND, DETAILS),
    ),
    Route(
        "POST",
        "/connectors",
        Access.ADMIN,
        create_connector,
        "Create a connector",
        {201: ConnectorInfo},
        CreateRequest,
        (FORWARD,),
    ),
    Route(
        "GET", CONNECTOR, Access.READ, get_connector, "A connector, its configuration and tasks", {200: ConnectorInfo}
    ),
    Route("DELETE", CONNECTOR, Access.ADMIN, delete_connector, "Delete a connector", {204: None}, query=(FORWARD,)),
    Route(
        "GET",
        f"{CONNECTOR}/config",
        Access.READ,
        get_connector_config,
        "The configuration of a connector",
        {200: Config},
    ),
    Route(
        "PUT",
        f"{CONNECTOR}/config",
        Access.ADMIN,
        put_connector_config,
        "Create a connector, or replace its configuration",
        {200: ConnectorInfo, 201: ConnectorInfo},
        Config,
        (FORWARD,),
    ),
    Route(
        "PATCH",
        f"{CONNECTOR}/config",
        Access.ADMIN,
        patch_connector_config,
        "Change settings of a connector; null removes one",
        {200: ConnectorInfo},
        dict[str, str | None],
        (FORWARD,),
    ),
    Route(
        "GET",
        f"{CONNECTOR}/tasks",
        Access.READ,
        get_tasks,
        "The tasks of a connector with their configurations",
        {200: list[TaskInfo]},
    ),
)
