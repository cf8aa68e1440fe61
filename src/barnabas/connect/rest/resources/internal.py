"""Requests between workers: write the tasks of a connector (KIP-507), and fence older ones (KIP-618).

The signature is verified over the received bytes, before a body is parsed. (Kafka's worker parses
first, so it returns 500 for an unreadable body whether it is signed or not.)

A signature is valid for the worker that the request was sent to: a request forwarded from here to the leader is
unsigned, like Kafka's, so the leader refuses it if the group signs.
"""

from __future__ import annotations

from barnabas.connect.rest.api_request import ApiRequest, Reply, Services
from barnabas.connect.rest.internal_client import encoded_segment, request_body
from barnabas.connect.rest.json_bodies import read_task_configs
from barnabas.connect.rest.route import CONNECTOR, Access, Route

__all__ = ["ROUTES", "fence_zombies", "put_task_configs"]


async def put_task_configs(services: Services, request: ApiRequest) -> Reply:
    await services.internal.admit(request.method, _target(request), request.headers, request.body)
    name, configs = request.connector, await request.parsed(read_task_configs)
    outcome = await services.forwarder.complete(
        request.forwardable("POST", f"/connectors/{encoded_segment(name)}/tasks", request_body(configs)),
        lambda: services.herder.internal.put_task_configs(name, configs),
    )
    return Reply.of(outcome, lambda _: Reply(204))


async def fence_zombies(services: Services, request: ApiRequest) -> Reply:
    name = request.connector
    await services.internal.admit(request.method, _target(request), request.headers, request.body)
    outcome = await services.forwarder.complete(
        request.forwardable("PUT", f"/connectors/{encoded_segment(name)}/fence"),
        lambda: services.herder.internal.fence_zombies(name),
    )
    return Reply.of(outcome, lambda _: Reply(204))


def _target(request: ApiRequest) -> str:
    return f"{request.path}?{request.query_string}" if request.query_string else request.path


ROUTES = (
    Route("POST", f"{CONNECTOR}/tasks", Access.INTERNAL, put_task_configs, "Write the tasks", {204: None}),
    Route("PUT", f"{CONNECTOR}/fence", Access.INTERNAL, fence_zombies, "Fence out older tasks", {204: None}),
)
