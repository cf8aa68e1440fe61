"""The history of a connector, and the workers of the group with their loads; Kafka's workers have neither.

With ``scope=worker`` a worker answers for itself. Otherwise the leader merges the answers of all workers.
"""

from __future__ import annotations

from barnabas.connect.decide.history.connector_history import HOURS_MAX
from barnabas.connect.entities import History, WorkerLoads
from barnabas.connect.errors import BadRequest, NotFound
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services
from barnabas.connect.rest.group_reads import GroupReads
from barnabas.connect.rest.query_parameters import number_to
from barnabas.connect.rest.route import CONNECTOR, FORWARD, SCOPE, Access, Parameter, Route

__all__ = ["ROUTES", "get_history", "get_workers"]

_HOURS = 1


async def get_history(services: Services, request: ApiRequest) -> Reply:
    hours, reads = number_to(HOURS_MAX, "hours", request.last("hours"), _HOURS), _reads(services)
    if _is_of_this_worker(request):
        return Reply(200, reads.own_history(request.connector, hours))
    return Reply(200, await reads.history(request, request.connector, hours))


async def get_workers(services: Services, request: ApiRequest) -> Reply:
    reads = _reads(services)
    if _is_of_this_worker(request):
        return Reply(200, WorkerLoads([reads.own_load()]))
    return Reply(200, await reads.loads(request))


def _reads(services: Services) -> GroupReads:
    if services.group_reads is None:
        raise NotFound("This worker has no figures of its work.")
    return services.group_reads


def _is_of_this_worker(request: ApiRequest) -> bool:
    scope = request.last("scope") or "cluster"
    if scope not in SCOPE.values:
        raise BadRequest(f"'scope' is {scope[:50]!r}; it must be {' or '.join(SCOPE.values)}")
    return scope == "worker"


ROUTES = (
    Route(
        "GET",
        f"{CONNECTOR}/history",
        Access.READ,
        get_history,
        "Records, lag and errors of a connector over time; Kafka's workers lack this path",
        {200: History},
        query=(
            Parameter(
                "hours",
                f"The last hours, 1 to {HOURS_MAX}: up to 6 in intervals of 10 s, else of 5 minutes; the default is 1.",
            ),
            SCOPE,
            FORWARD,
        ),
    ),
    Route(
        "GET",
        "/workers",
        Access.READ,
        get_workers,
        "The workers of the group with their loads; Kafka's workers lack this path",
        {200: WorkerLoads},
        query=(SCOPE, FORWARD),
    ),
)
