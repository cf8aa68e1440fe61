"""States of connectors and tasks: their states, restarts, pauses, and the topics that they use (KIP-558, KIP-745)."""

from __future__ import annotations

from barnabas.connect.entities import ConnectorStatus, TaskStatus
from barnabas.connect.errors import ConnectError, NotFound
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services, is_true
from barnabas.connect.rest.internal_client import encoded_segment
from barnabas.connect.rest.route import CONNECTOR, FORWARD, Access, Parameter, Route

__all__ = [
    "DETAILS",
    "ROUTES",
    "get_active_topics",
    "get_connector_status",
    "get_task_status",
    "pause_connector",
    "reset_active_topics",
    "restart_connector",
    "restart_task",
    "resume_connector",
    "stop_connector",
]


class _TrackingDisabled(ConnectError):
    http_status = 403


async def get_connector_status(services: Services, request: ApiRequest) -> Reply:
    statuses = services.herder.statuses
    read = statuses.connector_details if is_true(request.last("details")) else statuses.connector_status
    return Reply(200, read(request.connector))


async def get_task_status(services: Services, request: ApiRequest) -> Reply:
    statuses = services.herder.statuses
    read = statuses.task_details if is_true(request.last("details")) else statuses.task_status
    return Reply(200, read(_task(request)))


async def restart_connector(services: Services, request: ApiRequest) -> Reply:
    name = request.connector
    include_tasks, only_failed = is_true(request.last("includeTasks")), is_true(request.last("onlyFailed"))
    path = f"/connectors/{encoded_segment(name)}/restart"
    if not include_tasks and not only_failed:
        outcome = await services.forwarder.complete(
            request.forwardable("POST", path), lambda: services.herder.restarts.restart_connector(name)
        )
        return Reply.of(outcome, lambda _: Reply(204))
    query = {"includeTasks": str(include_tasks).lower(), "onlyFailed": str(only_failed).lower()}
    status = await services.forwarder.complete(
        request.forwardable("POST", path, query=query),
        lambda: services.herder.restarts.restart(name, include_tasks=include_tasks, only_failed=only_failed),
    )
    return Reply.of(status, lambda found: Reply(202, found))


async def restart_task(services: Services, request: ApiRequest) -> Reply:
    task = _task(request)
    outcome = await services.forwarder.complete(
        request.forwardable("POST", f"/connectors/{encoded_segment(task.connector)}/tasks/{task.task}/restart"),
        lambda: services.herder.restarts.restart_task(task),
    )
    return Reply.of(outcome, lambda _: Reply(204))


async def pause_connector(services: Services, request: ApiRequest) -> Reply:
    await services.forwarder.settled(lambda: services.herder.states.pause(request.connector))
    return Reply(202)


async def resume_connector(services: Services, request: ApiRequest) -> Reply:
    await services.forwarder.settled(lambda: services.herder.states.resume(request.connector))
    return Reply(202)


async def stop_connector(services: Services, request: ApiRequest) -> Reply:
    name = request.connector
    outcome = await services.forwarder.complete(
        request.forwardable("PUT", f"/connectors/{encoded_segment(name)}/stop"),
        lambda: services.herder.states.stop(name),
    )
    return Reply.of(outcome, lambda _: Reply(204))


async def get_active_topics(services: Services, request: ApiRequest) -> Reply:
    if not services.is_topic_tracking_enabled:
        raise _TrackingDisabled("Topic tracking is disabled.")
    found = services.herder.statuses.active_topics(request.connector)
    return Reply(200, {found.connector: {"topics": found.topics}})


async def reset_active_topics(services: Services, request: ApiRequest) -> Reply:
    if not services.is_topic_tracking_enabled:
        raise _TrackingDisabled("Topic tracking is disabled.")
    if not services.may_topic_tracking_be_reset:
        raise _TrackingDisabled("Topic tracking reset is disabled.")
    await services.forwarder.settled(lambda: services.herder.statuses.reset_active_topics(request.connector))
    return Reply(202)


def _task(request: ApiRequest) -> ConnectorTaskId:
    """Raises NotFound for a non-number, as for every unknown path."""
    text = request.parameters["task"]
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10 or not -(2**31) <= int(text) < 2**31:
        raise NotFound("HTTP 404 Not Found")
    return ConnectorTaskId(request.connector, int(text))


DETAILS = Parameter(
    "details",
    "Also return what only barnabas knows: the last failure, missing topics, skipped records and dead letters.",
    ("true", "false"),
)

_RESTART = (
    Parameter("includeTasks", "Also restart the tasks.", ("true", "false")),
    Parameter("onlyFailed", "Restart only the connector and tasks that have failed.", ("true", "false")),
    FORWARD,
)

ROUTES = (
    Route(
        "GET",
        f"{CONNECTOR}/status",
        Access.READ,
        get_connector_status,
        "The state of a connector and its tasks",
        {200: ConnectorStatus},
        query=(DETAILS,),
    ),
    Route(
        "GET",
        f"{CONNECTOR}/tasks/{{task}}/status",
        Access.READ,
        get_task_status,
        "The state of a task",
        {200: TaskStatus},
        query=(DETAILS,),
    ),
    Route(
        "POST",
        f"{CONNECTOR}/restart",
        Access.OPERATE,
        restart_connector,
        "Restart a connector, optionally with its tasks",
        {202: ConnectorStatus, 204: None},
        query=_RESTART,
    ),
    Route(
        "POST",
        f"{CONNECTOR}/tasks/{{task}}/restart",
        Access.OPERATE,
        restart_task,
        "Restart a task",
        {204: None},
        query=(FORWARD,),
    ),
    Route("PUT", f"{CONNECTOR}/pause", Access.OPERATE, pause_connector, "Pause a connector and its tasks", {202: None}),
    Route("PUT", f"{CONNECTOR}/resume", Access.OPERATE, resume_connector, "Resume a connector", {202: None}),
    Route(
        "PUT",
        f"{CONNECTOR}/stop",
        Access.OPERATE,
        stop_connector,
        "Stop a connector: its tasks end, its configuration stays",
        {204: None},
        query=(FORWARD,),
    ),
    Route(
        "GET",
        f"{CONNECTOR}/topics",
        Access.READ,
        get_active_topics,
        "The topics that a connector has used",
        {200: dict[str, dict[str, list[str]]]},
    ),
    Route(
        "PUT",
        f"{CONNECTOR}/topics/reset",
        Access.OPERATE,
        reset_active_topics,
        "Clear the list of used topics",
        {202: None},
    ),
)
