"""The controller's handlers for the metadata quorum: for its replicas, and for clients that change its voters.

The raft node answers, and a fetch waits there. A request that violates the protocol closes the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode, InvariantViolated
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import AclRule, ApiHandler
from barnabas.network.close_connection import CloseConnection
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.errors import DecodeError
from barnabas.raft.errors import NotLeaderException
from barnabas.server.controller.api_handlers import (
    SERVED_ON_CONTROLLER_LISTENERS,
    SERVED_TO_OWN_BROKER,
    ControllerHandlers,
)
from barnabas.server.process.event_loop_turns import TurnTimes

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Mapping

    from barnabas.network.api_handler import Access
    from barnabas.protocol.schema import Message
    from barnabas.server.controller.policy_worker import Policies
    from barnabas.server.quorum.raft_driver import RaftDriver

__all__ = ["QUORUM_APIS", "SERVED_BY_CONTROLLER", "SERVED_IN_PROCESS", "QuorumHandlers"]

QUORUM_APIS = {
    ApiKey.FETCH: AclOperation.CLUSTER_ACTION,
    ApiKey.VOTE: AclOperation.CLUSTER_ACTION,
    ApiKey.BEGIN_QUORUM_EPOCH: AclOperation.CLUSTER_ACTION,
    ApiKey.END_QUORUM_EPOCH: AclOperation.CLUSTER_ACTION,
    ApiKey.FETCH_SNAPSHOT: AclOperation.CLUSTER_ACTION,
    ApiKey.ADD_RAFT_VOTER: AclOperation.ALTER,
    ApiKey.REMOVE_RAFT_VOTER: AclOperation.ALTER,
    ApiKey.UPDATE_RAFT_VOTER: AclOperation.CLUSTER_ACTION,
}
"""The operation on the cluster that each API requires."""

SERVED_BY_CONTROLLER = {
    **SERVED_ON_CONTROLLER_LISTENERS,
    **{key: (API_TABLE[key].lowest, API_TABLE[key].highest) for key in QUORUM_APIS},
}
"""All APIs of a controller listener: for other controllers, for brokers, and for admin clients."""

SERVED_IN_PROCESS = {
    **SERVED_TO_OWN_BROKER,
    **{key: SERVED_BY_CONTROLLER[key] for key in (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)},
}
"""The APIs that the broker of the same process may call, for itself and for its clients."""


class QuorumHandlers(ControllerHandlers):
    """The controller's API modules, and the APIs that the raft node answers."""

    def __init__(
        self,
        driver: RaftDriver,
        policies: Policies | None = None,
        *,
        served: Mapping[ApiKey, tuple[int, int]] = SERVED_BY_CONTROLLER,
        turn_times: TurnTimes | None = None,
    ) -> None:
        super().__init__(served, policies, turn_times)
        self._driver = driver

    def handler(self, api_key: ApiKey) -> ApiHandler:
        operation = QUORUM_APIS.get(api_key)
        if operation is None:
            return super().handler(api_key)
        known = self._handlers.get(api_key)
        if known is None:
            acl = frozenset((AclRule(ResourceType.CLUSTER, operation),))
            known = self._handlers[api_key] = ApiHandler(
                api_key, acl, self._ask_replica, _refused_fetch if api_key is ApiKey.FETCH else None
            )
        return known

    def _ask_replica(self, controller: object, request: Message, access: Access) -> Awaitable[Message]:
        access.require_on_cluster(QUORUM_APIS[access.context.api_key])
        try:
            answer = self._driver.handle_request(request, access.context.api_version)
        except NotLeaderException as error:
            raise ApiException(ErrorCode.BROKER_NOT_AVAILABLE, "This controller is shutting down.") from error
        return _answer(answer)


def _refused_fetch(request: Any, error: ApiException) -> Message:
    """Repeat the error in each partition in versions that name topics: their oldest version has no top-level error."""
    from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

    code = int(error.code)
    topics = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                PartitionData(
                    partition_index=partition.partition,
                    error_code=code,
                    high_watermark=-1,
                    aborted_transactions=[],
                    records=b"",
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.topic
    ]
    return FetchResponse(error_code=code, responses=topics)


async def _answer(answer: asyncio.Future[Message]) -> Message:
    try:
        return await answer
    except (DecodeError, InvariantViolated) as error:
        raise CloseConnection(f"a message of the quorum violates the protocol: {error}") from error
