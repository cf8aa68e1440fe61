"""CreateTopics on the controller: CREATE on the cluster or on the topic; DESCRIBE_CONFIGS to see the configs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import (
    DUPLICATE_TOPIC_NAME,
    allowed_on_cluster,
    allowed_topics,
    split_duplicates,
)
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.controller.prepared_decision import PreparedDecision, prepared
from barnabas.controller.topic_name_validation import CLUSTER_METADATA_TOPIC
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.security.authorizer.denial import denial_text

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle", "restore_configs"]

ACL = (
    AclRule(ResourceType.CLUSTER, AclOperation.CREATE),
    AclRule(ResourceType.TOPIC, AclOperation.CREATE),
    AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS),
)

_KNOWS_QUOTAS_SINCE = 6


class _Selection(NamedTuple):
    """Split the topics: those that the caller may create, those whose configs it may read, and refused ones."""

    topics: list[CreatableTopic]
    describable: set[str]
    refused: list[CreatableTopicResult]


def handle(
    controller: QuorumController, context: RequestContext, request: CreateTopicsRequest, authorizer: Authorizer
) -> Deferred[CreateTopicsResponse] | PreparedDecision[CreateTopicsResponse]:
    return prepared(_select(context, request, authorizer), partial(_submit, controller, context, request))


def _select(context: RequestContext, request: CreateTopicsRequest, authorizer: Authorizer) -> Steps[_Selection]:
    once, often = split_duplicates(topic.name for topic in request.topics)
    refused = [_refusal(name, ErrorCode.INVALID_REQUEST, DUPLICATE_TOPIC_NAME) for name in often]
    if CLUSTER_METADATA_TOPIC in once:
        del once[CLUSTER_METADATA_TOPIC]
        message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        refused.append(_refusal(CLUSTER_METADATA_TOPIC, ErrorCode.INVALID_REQUEST, message))
    creatable: set[str] = set(once)
    if not allowed_on_cluster(authorizer, context, AclOperation.CREATE, log_if_denied=False):
        creatable = yield from allowed_topics(authorizer, context, AclOperation.CREATE, once)
    pace = Pace()
    for name in once:
        if name not in creatable:
            reason = denial_text(context, AclOperation.CREATE, ResourceType.TOPIC, name)
            refused.append(_refusal(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, reason))
        if pace.is_reached():
            yield
    describable = yield from allowed_topics(
        authorizer, context, AclOperation.DESCRIBE_CONFIGS, creatable, log_if_denied=False
    )
    return _Selection([topic for topic in request.topics if topic.name in creatable], describable, refused)


def _submit(
    controller: QuorumController, context: RequestContext, request: CreateTopicsRequest, selection: _Selection
) -> Deferred[CreateTopicsResponse]:
    topics, describable, refused = selection

    def decide() -> Steps[ControllerResult[CreateTopicsResponse]]:
        allowance = controller.mutation_quotas.allowance(context, strict_since=_KNOWS_QUOTAS_SINCE)
        result = yield from controller.replication.create_topics(
            topics, describable, validate_only=request.validate_only, allowance=allowance
        )
        response = CreateTopicsResponse(topics=[*result.response, *refused], throttle_time_ms=allowance.throttle_ms)
        return result.with_response(response)

    def answer_error(error: ApiException) -> CreateTopicsResponse:
        failed = [_refusal(topic.name, error.code, error.message) for topic in topics]
        return CreateTopicsResponse(topics=[*failed, *refused])

    return controller.submit_in_steps(decide(), answer_error)


def restore_configs(
    controller: QuorumController, request: CreateTopicsRequest, response: CreateTopicsResponse
) -> CreateTopicsResponse:
    """Restore the answer to a call that was applied before: the log does not keep the topics' configs (decision 13)."""
    wanted = {topic.name: {config.name: config.value for config in topic.configs} for topic in request.topics}
    for topic in response.topics:
        if not topic.error_code and not topic.topic_config_error_code and topic.configs is None:
            topic.configs = controller.configs.described_topic_configs(wanted.get(topic.name, {}))
    return response


def error_response(request: CreateTopicsRequest, error: ApiException) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_refusal(topic.name, error.code, error.message) for topic in request.topics])


def _refusal(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=int(code), error_message=message)
