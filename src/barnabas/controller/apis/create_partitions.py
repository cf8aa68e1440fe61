"""CreatePartitions on the controller: ALTER on each topic."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import DUPLICATE_TOPIC_NAME, allowed_topics, split_duplicates
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.controller.prepared_decision import PreparedDecision, prepared
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from barnabas.security.authorizer.denial import denial_text

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

ACL = (AclRule(ResourceType.TOPIC, AclOperation.ALTER),)

_KNOWS_QUOTAS_SINCE = 3


class _Selection(NamedTuple):
    """Return the topics that the caller may alter; the others are refused."""

    topics: list[CreatePartitionsTopic]
    refused: list[CreatePartitionsTopicResult]


def handle(
    controller: QuorumController, context: RequestContext, request: CreatePartitionsRequest, authorizer: Authorizer
) -> Deferred[CreatePartitionsResponse] | PreparedDecision[CreatePartitionsResponse]:
    return prepared(_select(context, request, authorizer), partial(_submit, controller, context, request))


def _select(context: RequestContext, request: CreatePartitionsRequest, authorizer: Authorizer) -> Steps[_Selection]:
    once, often = split_duplicates(topic.name for topic in request.topics)
    alterable = yield from allowed_topics(authorizer, context, AclOperation.ALTER, once)
    refused = [_refusal(name, ErrorCode.INVALID_REQUEST, DUPLICATE_TOPIC_NAME) for name in often]
    pace = Pace()
    for name in once:
        if name not in alterable:
            reason = denial_text(context, AclOperation.ALTER, ResourceType.TOPIC, name)
            refused.append(_refusal(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, reason))
        if pace.is_reached():
            yield
    return _Selection([topic for topic in request.topics if topic.name in alterable], refused)


def _submit(
    controller: QuorumController, context: RequestContext, request: CreatePartitionsRequest, selection: _Selection
) -> Deferred[CreatePartitionsResponse]:
    topics, refused = selection

    def decide() -> Steps[ControllerResult[CreatePartitionsResponse]]:
        allowance = controller.mutation_quotas.allowance(context, strict_since=_KNOWS_QUOTAS_SINCE)
        result = yield from controller.replication.create_partitions(
            topics, validate_only=request.validate_only, allowance=allowance
        )
        response = CreatePartitionsResponse(
            results=[*refused, *result.response], throttle_time_ms=allowance.throttle_ms
        )
        return result.with_response(response)

    def answer_error(error: ApiException) -> CreatePartitionsResponse:
        failed = [_refusal(topic.name, error.code, error.message) for topic in topics]
        return CreatePartitionsResponse(results=[*refused, *failed])

    return controller.submit_in_steps(decide(), answer_error)


def error_response(request: CreatePartitionsRequest, error: ApiException) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[_refusal(topic.name, error.code, error.message) for topic in request.topics]
    )


def _refusal(name: str, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=int(code), error_message=message)
