"""Handles (Incremental)AlterConfigs on the broker, before and after the controller decides (KIP-133, KIP-412).

- The broker itself changes log levels.
- The broker checks settings of itself or of all brokers: only this node knows its own file. A caller that may not alter
  them receives an authorization error that does not reveal ids, names or values.
- A resource that is named twice fails each time, and so does an unknown type. The other resources are forwarded to the
  controller unchanged.
- Answers are in the order of the request.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from barnabas.broker.forwarding import forward_to_controller
from barnabas.common.acl import AclOperation
from barnabas.common.broker_config import BROKER_CONFIG_DEF, broker_config_key
from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.metadata.config_descriptions import other_node_problem
from barnabas.metadata.config_operations import ConfigOperation, OpType, changes_of, check_operations
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType
from barnabas.metadata.log_levels import alter_log_levels
from barnabas.network.stepped_responses import serve_others

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.broker import Broker
    from barnabas.network.api_handler import Access
    from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
    from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

__all__ = ["ConfigChange", "alter_configs"]

log = logging.getLogger(__name__)

_FORWARDED = (ConfigResourceType.TOPIC, ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS)
_WARNED_MAX = 10
"""The number of unknown settings of one change that are logged on separate lines."""
_CHANGES_A_STEP = 200
_DUPLICATE = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
_UNANSWERED = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The controller did not answer for this resource.")


class ConfigChange(NamedTuple):
    """One resource of a request. ``replaces`` marks the legacy form, which removes configs that it does not name."""

    resource: ConfigResource
    operations: Sequence[ConfigOperation]
    replaces: bool


async def alter_configs(
    broker: Broker,
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    changes: Sequence[ConfigChange],
    access: Access,
) -> list[tuple[ConfigResource, ApiError]]:
    """Return the answer for each of ``changes``, the resources of ``request`` in the same order."""
    counts = Counter(change.resource for change in changes)
    answers: dict[ConfigResource, ApiError] = {}
    for number, change in enumerate(changes, 1):
        if not number % _CHANGES_A_STEP:
            await serve_others()
        if counts[change.resource] > 1:
            answers[change.resource] = _DUPLICATE
            continue
        try:
            if await _is_done_here(broker, change, access, validate_only=request.validate_only):
                answers[change.resource] = ApiError.NONE
        except ApiException as error:
            answers[change.resource] = ApiError.of(error)
    answers.update(await _decided_by_controller(broker, request, changes, answers, access))
    if not request.validate_only:
        _warn_about_client_metrics(answers, access)
    return [(change.resource, answers.get(change.resource, _UNANSWERED)) for change in changes]


async def _decided_by_controller(
    broker: Broker,
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    changes: Sequence[ConfigChange],
    answered: dict[ConfigResource, ApiError],
    access: Access,
) -> dict[ConfigResource, ApiError]:
    remaining: list[Any] = [
        resource for resource, change in zip(request.resources, changes, strict=True) if change.resource not in answered
    ]
    if not remaining:
        return {}
    forwarded = request
    if len(remaining) < len(request.resources):
        forwarded = cast("Any", type(request))(resources=remaining, validate_only=request.validate_only)
    try:
        response: Any = await forward_to_controller(broker, forwarded, access)
    except ApiException as error:
        failure = ApiError.of(error)
        return {ConfigResource(resource.resource_type, resource.resource_name): failure for resource in remaining}
    return {
        ConfigResource(resource.resource_type, resource.resource_name): ApiError(
            ErrorCode(resource.error_code), resource.error_message
        )
        for resource in response.responses
    }


async def _is_done_here(broker: Broker, change: ConfigChange, access: Access, *, validate_only: bool) -> bool:
    """Return whether the change is complete without the controller. Raise ApiException if it must be refused."""
    kind = change.resource.type
    if kind in _FORWARDED:
        check_operations(change.operations)  # Kafka's controller relies on its brokers for this.
        return False
    if kind not in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    is_logger = kind == ConfigResourceType.BROKER_LOGGER
    # The controller audits forwarded requests; a request that does not reach it is audited here.
    if not access.allows_on_cluster(AclOperation.ALTER_CONFIGS, log_if_allowed=is_logger):
        raise access.denied(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)
    if is_logger:
        _alter_loggers(broker, change, access, validate_only=validate_only)
        return True
    await _check_broker(broker, change)
    if not validate_only:
        _warn_about_unknown(change, access)
    return False


def _alter_loggers(broker: Broker, change: ConfigChange, access: Access, *, validate_only: bool) -> None:
    if change.replaces:
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Unknown resource type {change.resource.type}")
    problem = other_node_problem(broker.broker_id, change.resource)
    if problem is not None:
        raise problem
    alter_log_levels(change.operations, who=access.context.principal, validate_only=validate_only)


async def _check_broker(broker: Broker, change: ConfigChange) -> None:
    check_operations(change.operations)
    problem = other_node_problem(broker.broker_id, change.resource)
    if problem is not None:
        raise problem
    settings = broker.dynamic_settings
    current = settings.current(change.resource)
    changed = changes_of(change.resource.type, change.operations, current)
    replaces = change.replaces and not broker.settings.legacy_alter_merges
    merged = changed if replaces else {**current, **changed}
    after = {name: value for name, value in merged.items() if value is not None}
    await settings.check(change.resource, changed, after)


def _warn_about_client_metrics(answers: dict[ConfigResource, ApiError], access: Access) -> None:
    stored = [
        resource.name
        for resource, error in answers.items()
        if resource.type == ConfigResourceType.CLIENT_METRICS and not error.is_error
    ]
    if stored:
        log.warning(
            "%s alters the client-metrics subscription %s: it is stored, but barnabas brokers do not collect client "
            "metrics",
            access.context.principal,
            stored[0] if len(stored) == 1 else f"{stored[0]} and {len(stored) - 1} more",
        )


def _warn_about_unknown(change: ConfigChange, access: Access) -> None:
    """Log unknown settings. They are accepted, as in Kafka, since a plug-in may know them, but most are typos."""
    unknown = [
        operation.name
        for operation in change.operations
        if operation.op != OpType.DELETE and broker_config_key(operation.name) is None
    ]
    target = f"broker {change.resource.name}" if change.resource.name else "all brokers"
    caller = access.context.principal
    for name in unknown[:_WARNED_MAX]:
        log.warning(
            "%s sets %s for %s: no such broker setting exists%s", caller, name, target, BROKER_CONFIG_DEF.hint(name)
        )
    if len(unknown) > _WARNED_MAX:
        log.warning("%s sets %d more unknown settings for %s", caller, len(unknown) - _WARNED_MAX, target)
