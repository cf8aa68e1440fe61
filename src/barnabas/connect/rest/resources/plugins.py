"""Plugins: their list, their settings, and validation of configurations (KIP-769, KIP-891)."""

from __future__ import annotations

import asyncio

from barnabas.connect.decide.validation.connector_config import key_info
from barnabas.connect.entities import ConfigInfos, ConfigKeyInfo, PluginInfo
from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services, is_true
from barnabas.connect.rest.json_bodies import read_config
from barnabas.connect.rest.route import Access, Config, Parameter, Route

__all__ = ["ROUTES", "get_plugin_config", "list_plugins", "validate_config"]


async def list_plugins(services: Services, request: ApiRequest) -> Reply:
    connectors_only = request.last("connectorsOnly")
    found = services.plugins.listing(connectors_only=connectors_only is None or is_true(connectors_only))
    return Reply(200, list(found))


async def get_plugin_config(services: Services, request: ApiRequest) -> Reply:
    name, version = request.parameters["plugin"], request.last("version")
    plugin = await asyncio.to_thread(services.plugins.for_listing, name, version)
    return Reply(200, [key_info(key) for key in plugin.config_def])


async def validate_config(services: Services, request: ApiRequest) -> Reply:
    plugin, config = request.parameters["plugin"], await request.parsed(read_config)
    included = config.get("connector.class")
    if included is not None and not _normalized(included).endswith(_normalized(plugin)):
        raise BadRequest(f"Included connector type {included} does not match request type {plugin}")
    if included is None:
        # Kafka returns 500 for this and for an unknown class; 400 would be correct.
        raise ConnectError("Connector config contains no connector type: set connector.class")
    try:
        return Reply(200, await services.herder.connectors.validate(config))
    except ConnectError as error:
        raise ConnectError(str(error)) from error


def _normalized(name: str) -> str:
    """Return the name without its suffix: FileStreamSource for ``FileStreamSourceConnector``."""
    return name.removesuffix("Connector") or name


_ONLY = Parameter("connectorsOnly", "false to include converters, transformations and predicates.", ("true", "false"))
_VERSION = Parameter("version", "A version or a range of versions of the plugin; the default is the latest.")

ROUTES = (
    Route("GET", "/connector-plugins", Access.READ, list_plugins, "Plugins", {200: list[PluginInfo]}, query=(_ONLY,)),
    Route(
        "GET",
        "/connector-plugins/{plugin}/config",
        Access.READ,
        get_plugin_config,
        "The settings of a plugin",
        {200: list[ConfigKeyInfo]},
        query=(_VERSION,),
    ),
    Route(
        "PUT",
        "/connector-plugins/{plugin}/config/validate",
        Access.ADMIN,
        validate_config,
        "Validate the configuration of a connector",
        {200: ConfigInfos},
        Config,
    ),
)
