"""Show and change the offsets of connectors (KIP-875)."""

from __future__ import annotations

import msgspec

from barnabas.connect.entities import ConnectorOffsets, Message, OffsetsPreview
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services
from barnabas.connect.rest.internal_client import encoded_segment
from barnabas.connect.rest.json_bodies import read_offsets
from barnabas.connect.rest.route import CONNECTOR, FORWARD, Access, Route

__all__ = ["ROUTES", "alter_offsets", "get_offsets", "preview_offsets", "reset_offsets"]


async def get_offsets(services: Services, request: ApiRequest) -> Reply:
    return Reply(200, await services.forwarder.settled(lambda: services.herder.offsets.read(request.connector)))


async def alter_offsets(services: Services, request: ApiRequest) -> Reply:
    name, offsets = request.connector, await request.parsed(read_offsets)
    body = msgspec.json.encode(ConnectorOffsets(offsets))
    outcome = await services.forwarder.complete(
        request.forwardable("PATCH", f"/connectors/{encoded_segment(name)}/offsets", body),
        lambda: services.herder.offsets.alter(name, offsets),
    )
    return Reply.of(outcome, lambda text: Reply(200, Message(text)))


async def preview_offsets(services: Services, request: ApiRequest) -> Reply:
    name, offsets = request.connector, await request.parsed(read_offsets)
    return Reply(200, await services.forwarder.settled(lambda: services.herder.offsets.preview(name, offsets)))


async def reset_offsets(services: Services, request: ApiRequest) -> Reply:
    name = request.connector
    outcome = await services.forwarder.complete(
        request.forwardable("DELETE", f"/connectors/{encoded_segment(name)}/offsets"),
        lambda: services.herder.offsets.reset(name),
    )
    return Reply.of(outcome, lambda text: Reply(200, Message(text)))


ROUTES = (
    Route(
        "GET", f"{CONNECTOR}/offsets", Access.READ, get_offsets, "The offsets of a connector", {200: ConnectorOffsets}
    ),
    Route(
        "PATCH",
        f"{CONNECTOR}/offsets",
        Access.ADMIN,
        alter_offsets,
        "Change the offsets of a stopped connector; null deletes one",
        {200: Message},
        ConnectorOffsets,
        (FORWARD,),
    ),
    Route(
        "POST",
        f"{CONNECTOR}/offsets/preview",
        Access.ADMIN,
        preview_offsets,
        "What a change of offsets would do, without doing it; Kafka's workers lack this path",
        {200: OffsetsPreview},
        ConnectorOffsets,
    ),
    Route(
        "DELETE",
        f"{CONNECTOR}/offsets",
        Access.ADMIN,
        reset_offsets,
        "Delete all offsets of a stopped connector",
        {200: Message},
        query=(FORWARD,),
    ),
)
