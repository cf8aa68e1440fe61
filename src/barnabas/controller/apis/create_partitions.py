"""CreatePartitions on the controller: ALTER on each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import DUPLICATE_TOPIC_NAME, allowed_topics, split_duplicates
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from barnabas.security.authorizer.denial import denial_text

if TYPE_CHECKING:
    from barnabas.controller.decision_steps import Steps
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

ACL = (AclRule(ResourceType.TOPIC, AclOperation.ALTER),)

_KNOWS_QUOTAS_SINCE = 3


def handle(
    controller: QuorumController, context: RequestContext, request: CreatePartitionsRequest, authorizer: Authorizer
) -> Deferred[CreatePartitionsResponse]:
    once, often = split_duplicates(topic.name for topic in request.topics)
    alterable = allowed_topics(authorizer, context, AclOperation.ALTER, once)
    refused = [_refusal(name, ErrorCode.INVALID_REQUEST, DUPLICATE_TOPIC_NAME) for name in often]
    refused.extend(
        _refusal(
            name,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            denial_text(context, AclOperation.ALTER, ResourceType.TOPIC, name),
        )
        for name in once
        if name not in alterable
    )
    topics = [topic for topic in request.topics if topic.name in alterable]

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
