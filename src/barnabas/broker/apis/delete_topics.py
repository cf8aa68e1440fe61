"""DeleteTopics: decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.common.errors import ApiException
    from barnabas.protocol.schema import Message


def _error_response(request: DeleteTopicsRequest, error: ApiException) -> DeleteTopicsResponse:
    named = [DeletableTopicResult(name=name, error_code=error.code) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=named
        + [
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error.code)
            for topic in request.topics
        ]
    )


@handles(ApiKey.DELETE_TOPICS, on_error=_error_response)
def handle_delete_topics(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    return forward_to_controller(broker, request, access)
