"""Decide StreamsGroupHeartbeat: a member joins, reports its tasks, or takes the next step to its target assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.heartbeat_request import JOIN_EPOCH
from barnabas.coordinator.group.streams.configured_topology import ConfiguredTopology
from barnabas.coordinator.group.streams.group_changes import GroupChanges
from barnabas.coordinator.group.streams.heartbeat_checks import validate_member_epoch, validate_owned_tasks
from barnabas.coordinator.group.streams.heartbeat_status import shutdown_application, stale_topology
from barnabas.coordinator.group.streams.streams_group import StreamsGroup
from barnabas.coordinator.group.streams.streams_group_member import Endpoint, StreamsGroupMember
from barnabas.coordinator.group.streams.streams_group_records import member_record
from barnabas.coordinator.group.streams.tasks import TasksTuple, owned_tasks, sorted_tasks
from barnabas.protocol.messages.create_topics import CreatableTopic
from barnabas.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

__all__ = ["DecidedHeartbeat", "Heartbeat"]

_UNCHANGED = -1


class DecidedHeartbeat(NamedTuple):
    """The answer, and the internal topics that the caller should create, by name."""

    response: StreamsGroupHeartbeatResponse
    topics_to_create: dict[str, CreatableTopic]


class Heartbeat:
    """One request of a member that stays, on its way through the decision."""

    def __init__(
        self, changes: GroupChanges, context: GroupRequestContext, request: StreamsGroupHeartbeatRequest, now_ms: int
    ) -> None:
        self._changes = changes
        self._context = context
        self._request = request
        self._now_ms = now_ms
        self._records: list[CoordinatorRecord] = []
        self._statuses: list[Status] = []

    def decide(
        self, group: StreamsGroup, conversion: list[CoordinatorRecord], *, is_known: bool
    ) -> CoordinatorResult[DecidedHeartbeat]:
        """``conversion`` are the records that make the group one of this kind, if it is of another; ``is_known``: a
        group of this id exists already."""
        request, changes, now_ms, records = self._request, self._changes, self._now_ms, self._records
        records += conversion
        before = self._member(group)
        member = self._updated(before)
        if member != before:
            records.append(member_record(group.group_id, member))
        topology = changes.update_topology(group, request.topology, records)
        if group.topology is not None and member.topology_epoch < group.topology.epoch:
            self._statuses.append(stale_topology(member.topology_epoch, group.topology.epoch))
        preparation = changes.prepare(group, topology, now_ms)
        self._check_owned(preparation.configured)
        configs = changes.settings.assignment_configs(group.group_id)
        epoch = changes.update_epoch(
            group, topology, preparation, configs, records, now_ms, has_member_change=member != before
        )
        if not group.members:
            changes.start_initial_delay(group.group_id, now_ms)
        target = changes.update_target(
            group, epoch, preparation.configured, configs, member, records, self._statuses, now_ms
        )
        owned = owned_tasks(request)
        reached = changes.reconcile(group, member, target, owned, records, now_ms)
        changes.start_session(group.group_id, member.member_id, now_ms)
        if request.shutdown_application:
            group.request_shutdown(member.member_id)
        response = self._response(group, before, reached, owned, is_known=is_known)
        error = preparation.configured.error
        if error is not None:
            self._statuses.append(error.to_status())
        if group.shutdown_requester is not None:
            self._statuses.append(shutdown_application(group.shutdown_requester))
        response.status = self._statuses
        topics_to_create = preparation.configured.topics_to_create
        return CoordinatorResult(records, DecidedHeartbeat(response, topics_to_create), is_ahead=True)

    # -- the member

    def _member(self, group: StreamsGroup) -> StreamsGroupMember:
        """Return the member that sends the request; a new one if it joins."""
        request = self._request
        member = group.members.get(request.member_id)
        if member is None:
            if request.member_epoch != JOIN_EPOCH:
                group.member(request.member_id)
            return StreamsGroupMember(request.member_id)
        validate_member_epoch(member, request)
        return member

    def _updated(self, member: StreamsGroupMember) -> StreamsGroupMember:
        """Return the member with what the request changes."""
        request = self._request
        timeout_ms, endpoint = request.rebalance_timeout_ms, request.user_endpoint
        return member._replace(
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _UNCHANGED else timeout_ms,
            topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
            client_id=self._context.client_id,
            client_host=self._context.client_host,
            process_id=member.process_id if request.process_id is None else request.process_id,
            user_endpoint=member.user_endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags=member.client_tags if request.client_tags is None else _tags_of(request.client_tags),
        )

    def _check_owned(self, configured: ConfiguredTopology) -> None:
        if configured.is_ready:
            for task_ids in (self._request.active_tasks, self._request.standby_tasks, self._request.warmup_tasks):
                validate_owned_tasks(configured.subtopologies or {}, task_ids)

    # -- the answer

    def _response(
        self,
        group: StreamsGroup,
        before: StreamsGroupMember,
        reached: StreamsGroupMember,
        owned: TasksTuple | None,
        *,
        is_known: bool,
    ) -> StreamsGroupHeartbeatResponse:
        """A member that reports other tasks than it has may have missed an answer, so it receives them again."""
        request = self._request
        response = StreamsGroupHeartbeatResponse(
            member_id=reached.member_id,
            member_epoch=reached.member_epoch,
            heartbeat_interval_ms=self._changes.settings.heartbeat_interval_ms(group.group_id),
        )
        assigned = reached.assigned_tasks
        has_new = request.member_epoch == JOIN_EPOCH or before.assigned_tasks != assigned
        if has_new or (owned is not None and not owned.has_the_tasks_of(assigned)):
            response.active_tasks = _task_ids(assigned.active)
            response.standby_tasks = _task_ids(assigned.standby)
            response.warmup_tasks = _task_ids(assigned.warmup)
        if has_new:
            group.endpoints.tasks_changed(reached)
        if group.endpoints.epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = self._changes.of_endpoints(group, reached)
        if is_known:
            response.endpoint_information_epoch = group.endpoints.epoch
        return response


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in sorted_tasks(tasks)
    ]


def _tags_of(tags: list[KeyValue]) -> dict[str, str]:
    """Return tags by their keys."""
    by_key = {tag.key: tag.value for tag in tags}
    if len(by_key) < len(tags):
        raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, "A client tag is listed twice.")
    return by_key
