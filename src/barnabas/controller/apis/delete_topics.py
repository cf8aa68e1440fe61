"""DeleteTopics on the controller: DELETE on the cluster, or DESCRIBE and DELETE on the topic.

A request has names or (v6) ids of topics. Without DESCRIBE, the responses for an existing and a missing topic are
equal; an id reveals its name only to callers that may describe the topic.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_name import ACCESS_AUDIT_TOPIC
from barnabas.common.uuid import Uuid
from barnabas.controller.apis.request_checks import (
    DUPLICATE_TOPIC_NAME,
    allowed_on_cluster,
    allowed_topics,
    split_duplicates,
)
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.controller.topic_deletion import UNKNOWN_TOPIC_ID
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.security.authorizer.denial import denial_error

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

ACL = (
    AclRule(ResourceType.CLUSTER, AclOperation.DELETE),
    AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
    AclRule(ResourceType.TOPIC, AclOperation.DELETE),
)

_UNKNOWN_TOPIC = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
_PROTECTED = ApiError(
    ErrorCode.INVALID_REQUEST,
    f"Topic {ACCESS_AUDIT_TOPIC} can't be deleted while barnabas.audit.topic.enable is true.",
)
_FIRST_VERSION_WITH_DISABLED_ERROR = 3
_KNOWS_QUOTAS_SINCE = 5


def handle(
    controller: QuorumController, context: RequestContext, request: DeleteTopicsRequest, authorizer: Authorizer
) -> Deferred[DeleteTopicsResponse]:
    def decide() -> Steps[ControllerResult[DeleteTopicsResponse]]:
        if not controller.config.delete_topic_enable:
            raise _deletion_disabled(context.api_version)
        selection = _Selection(controller, context)
        yield from selection.select(authorizer, request)
        allowance = controller.mutation_quotas.allowance(context, strict_since=_KNOWS_QUOTAS_SINCE)
        result = yield from controller.replication.delete_topics(selection.names_by_id, allowance)
        done = [_result(selection.names_by_id[i], i, error) for i, error in result.response.items()]
        response = DeleteTopicsResponse(responses=[*selection.refused, *done], throttle_time_ms=allowance.throttle_ms)
        return result.with_response(response)

    return controller.submit_in_steps(decide(), partial(error_response, request))


def error_response(request: DeleteTopicsRequest, error: ApiException) -> DeleteTopicsResponse:
    named = [_result(name, Uuid.ZERO, ApiError.of(error)) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=named + [_result(t.name, t.topic_id, ApiError.of(error)) for t in request.topics]
    )


class _Selection:
    """The topics to delete (``names_by_id``) and the refusals."""

    def __init__(self, controller: QuorumController, context: RequestContext) -> None:
        self.refused: list[DeletableTopicResult] = []
        self.names_by_id: dict[Uuid, str] = {}
        self._context = context
        self._topics = controller.state.image.topics
        self._is_audit_protected = controller.config.protect_access_audit
        self._pace = Pace()

    def select(self, authorizer: Authorizer, request: DeleteTopicsRequest) -> Steps[None]:
        context = self._context
        names, ids, duplicate_ids = self._distinct(request)
        known = {i: topic.name for i in ids if (topic := self._topics.by_id.get(i)) is not None}
        for unknown in ids:
            if unknown not in known:
                self._refuse(None, unknown, UNKNOWN_TOPIC_ID)
            if self._pace.is_reached():
                yield
        all_names = {*names, *known.values()}
        if allowed_on_cluster(authorizer, context, AclOperation.DELETE, log_if_denied=False):
            describable = deletable = all_names
        else:
            describable = yield from allowed_topics(authorizer, context, AclOperation.DESCRIBE, all_names)
            deletable = yield from allowed_topics(authorizer, context, AclOperation.DELETE, all_names)
        for topic_id, name in known.items():
            if self._pace.is_reached():
                yield
            if name not in deletable and name not in describable:
                self._refuse(None, topic_id, self._denied(AclOperation.DESCRIBE, str(topic_id)))
            elif name not in deletable:
                self._refuse(name, topic_id, self._denied(AclOperation.DELETE, name))
            elif self._is_audit_protected and name == ACCESS_AUDIT_TOPIC:
                self._refuse(name, topic_id, _PROTECTED)
            else:
                self.names_by_id[topic_id] = name
        yield from self._select_names(names, describable, deletable, duplicate_ids)

    def _distinct(self, request: DeleteTopicsRequest) -> tuple[dict[str, None], dict[Uuid, None], set[Uuid]]:
        provided_names = list(request.topic_names)
        ids: dict[Uuid, None] = {}
        duplicate_ids: set[Uuid] = set()
        for topic in request.topics:
            if topic.name is None and topic.topic_id == Uuid.ZERO:
                self._refuse(None, Uuid.ZERO, _invalid("Neither topic name nor id were specified."))
            elif topic.name is not None and topic.topic_id != Uuid.ZERO:
                self._refuse(topic.name, topic.topic_id, _invalid("You may not specify both topic name and topic id."))
            elif topic.name is not None:
                provided_names.append(topic.name)
            elif topic.topic_id in ids or topic.topic_id in duplicate_ids:
                ids.pop(topic.topic_id, None)
                duplicate_ids.add(topic.topic_id)
            else:
                ids[topic.topic_id] = None
        names, often = split_duplicates(provided_names)
        for name in often:
            self._refuse(name, Uuid.ZERO, _invalid(DUPLICATE_TOPIC_NAME))
        for topic_id in sorted(duplicate_ids):
            self._refuse(None, topic_id, _invalid("Duplicate topic id."))
        return names, ids, duplicate_ids

    def _select_names(
        self, names: dict[str, None], describable: set[str], deletable: set[str], duplicate_ids: set[Uuid]
    ) -> Steps[None]:
        for name in names:
            if self._pace.is_reached():
                yield
            topic = self._topics.get(name)
            if name not in describable:
                self._refuse(name, Uuid.ZERO, self._denied(AclOperation.DESCRIBE, name))
            elif topic is None:
                self._refuse(name, Uuid.ZERO, _UNKNOWN_TOPIC)
            elif name not in deletable:
                self._refuse(name, Uuid.ZERO, self._denied(AclOperation.DELETE, name))
            elif self._is_audit_protected and name == ACCESS_AUDIT_TOPIC:
                self._refuse(name, Uuid.ZERO, _PROTECTED)
            elif topic.id in duplicate_ids or topic.id in self.names_by_id:
                reason = _invalid("The provided topic name maps to an ID that was already supplied.")
                self._refuse(name, topic.id, reason)
            else:
                self.names_by_id[topic.id] = name

    def _denied(self, operation: AclOperation, named: str) -> ApiError:
        """Name the topic as the caller did: a caller that sent an id and may not describe it must not learn its
        name."""
        return ApiError.of(denial_error(self._context, operation, ResourceType.TOPIC, named))

    def _refuse(self, name: str | None, topic_id: Uuid, error: ApiError) -> None:
        self.refused.append(_result(name, topic_id, error))


def _result(name: str | None, topic_id: Uuid, error: ApiError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=int(error.code), error_message=error.message)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _deletion_disabled(api_version: int) -> ApiException:
    old = api_version < _FIRST_VERSION_WITH_DISABLED_ERROR
    code = ErrorCode.INVALID_REQUEST if old else ErrorCode.TOPIC_DELETION_DISABLED
    return ApiException(code, "Topic deletion is disabled.")
