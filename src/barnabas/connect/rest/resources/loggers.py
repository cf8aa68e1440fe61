"""Levels of loggers, of this worker or of all (KIP-495, KIP-976), and what this worker has logged last."""

from __future__ import annotations

from barnabas.connect.errors import BadRequest
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services
from barnabas.connect.rest.json_bodies import read_level
from barnabas.connect.rest.logger_levels import level_named
from barnabas.connect.rest.recent_log import number_of_lines

__all__ = ["get_logger", "get_logs", "list_loggers", "set_logger"]


async def list_loggers(services: Services, request: ApiRequest) -> Reply:
    return Reply(200, services.loggers.all())


async def get_logger(services: Services, request: ApiRequest) -> Reply:
    return Reply(200, services.loggers.level(request.parameters["logger"]))


async def set_logger(services: Services, request: ApiRequest) -> Reply:
    """A scope that is not ``cluster`` is this worker, as in Kafka."""
    namespace, level = request.parameters["logger"], await request.parsed(read_level)
    if level is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    name = level_named(level)
    if (request.last("scope") or "").lower() == "cluster":
        await services.forwarder.settled(lambda: services.herder.states.set_cluster_logger_level(namespace, name))
        return Reply(204)
    return Reply(200, services.loggers.set_level(namespace, name))


async def get_logs(services: Services, request: ApiRequest) -> Reply:
    count = number_of_lines(request.last("lines"))
    found = services.recent_log.lines(count, level=request.last("level"), connector=request.last("connector"))
    return Reply(200, found)
