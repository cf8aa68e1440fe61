"""The requests about streams groups: passes each to the shard of its group's partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.streams.heartbeat import DecidedHeartbeat
from barnabas.coordinator.group.streams.heartbeat_checks import validate_heartbeat
from barnabas.protocol.messages.streams_group_describe import DescribedGroup
from barnabas.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.coordinator.group.group_coordinator import GroupCoordinator

__all__ = ["StreamsGroupRequests"]


class StreamsGroupRequests:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def heartbeat(
        self, context: GroupRequestContext, request: StreamsGroupHeartbeatRequest, now_ms: int
    ) -> Deferred[DecidedHeartbeat]:
        """The caller creates the internal topics that the decision names."""
        try:
            if self._coordinator.is_active:
                validate_heartbeat(request)
        except ApiException as error:
            return Deferred.completed(_heartbeat_error(error.code, error.message))
        return self._coordinator.write_explained(
            request.group_id,
            lambda shard: shard.streams.heartbeat(context, request, now_ms),
            _heartbeat_error,
            now_ms,
        )

    def describe(self, group_id: str) -> Steps[DescribedGroup]:
        """Describe a group, in steps if it is large."""
        return self._coordinator.describe(
            group_id, lambda shard: shard.streams.describe_in_steps(group_id), DescribedGroup
        )


def _heartbeat_error(code: ErrorCode, message: str | None) -> DecidedHeartbeat:
    return DecidedHeartbeat(StreamsGroupHeartbeatResponse(error_code=code, error_message=message), {})
