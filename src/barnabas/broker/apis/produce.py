"""Produce: appends one batch per partition as its leader. The answer waits for batches that take long to check. With
acks=all it also waits until every replica in sync has them, up to the request's time-out.

Versions 3 to 13; from 13 on topics are named by id. A request with acks=0 receives no response. An error closes its
connection, so that the producer detects the failure.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.delayed_produce import wait_for_replicas
from barnabas.broker.produce_verification import verify_partitions
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode, InvalidRecords
from barnabas.common.resource import ResourceType
from barnabas.common.topic_name import ACCESS_AUDIT_TOPIC
from barnabas.common.topic_partition import TopicPartition
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.network.close_connection import CloseConnection
from barnabas.network.long_work_scheduler import work_owner
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.protocol.produce_validation import WorkBudget

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Awaitable, Mapping

    from barnabas.broker.broker import Broker
    from barnabas.broker.produce_verification import TransactionGuard
    from barnabas.broker.replication.leader_replica import LeaderReplica
    from barnabas.common.uuid import Uuid
    from barnabas.storage.partition_log import AppendInfo

_INTERNAL_CLIENT_ID = "__admin_client"
_COMPRESSION_MASK = 7
_ZSTD = 4
_TRANSACTIONAL = 0x10
_MAGIC_POSITION = 16
_ATTRIBUTES_POSITION = 22
_HEADER_SIZE = 61
_LEADER_HINTS_SINCE = 10
_TOPIC_IDS_SINCE = 13


def _error_response(request: ProduceRequest, error: ApiException) -> ProduceResponse:
    if request.acks == 0:
        raise CloseConnection(f"a produce request with acks=0 failed with {error.code.name}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_failed(partition.index, error) for partition in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


@handles(
    ApiKey.PRODUCE,
    acl=(
        AclRule(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
        AclRule(ResourceType.TOPIC, AclOperation.WRITE),
    ),
    on_error=_error_response,
)
def handle_produce(
    broker: Broker, request: ProduceRequest, access: Access
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    is_transactional = _has_transactional_records(request)
    if is_transactional:
        _check_transactional_id(request.transactional_id, access)
    if request.acks not in (0, 1, -1):
        raise ApiException(ErrorCode.INVALID_REQUIRED_ACKS)
    producing = _Producing(broker, request, access)
    if is_transactional and broker.settings.transaction_partition_verification_enable:
        return producing.verify_and_append()
    producing.append_all()
    return producing.wait_and_respond() if producing.waiting or producing.uncommitted else producing.respond()


def _has_transactional_records(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) >= _HEADER_SIZE
                and records[_ATTRIBUTES_POSITION] & _TRANSACTIONAL
                and records[_MAGIC_POSITION] == 2
            ):
                return True
    return False


def _check_transactional_id(transactional_id: str | None, access: Access) -> None:
    """Raise ApiException. An id with records outside a transaction requires no permission."""
    if transactional_id is None:
        raise ApiException(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional records need a transactional id."
        )
    if not access.allows(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, transactional_id):
        raise access.denied(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


class _Producing:
    """One request in progress."""

    __slots__ = (
        "access",
        "broker",
        "budget",
        "first_error",
        "leaders",
        "owner",
        "request",
        "responses",
        "uncommitted",
        "unverified",
        "verified",
        "version",
        "waiting",
    )

    def __init__(self, broker: Broker, request: ProduceRequest, access: Access) -> None:
        self.broker = broker
        self.request = request
        self.access = access
        self.version = access.context.api_version
        self.budget = WorkBudget()
        self.owner = work_owner(access.context)
        self.first_error = ErrorCode.NONE
        self.leaders: set[int] = set()
        self.responses: list[TopicProduceResponse] = []
        self.waiting: deque[tuple[str, PartitionProduceResponse, Task[AppendInfo]]] = deque()
        self.uncommitted: list[tuple[str, PartitionProduceResponse, LeaderReplica, int]] = []
        """For acks=all: the partitions that must be replicated, and up to which offset."""
        self.unverified: Mapping[TopicPartition, ApiException] = {}
        """Partitions that the coordinator of the transaction does not count as part of it."""
        self.verified: dict[TopicPartition, TransactionGuard] = {}

    async def verify_and_append(self) -> ProduceResponse | None:
        """Append records of a transaction once its coordinator has confirmed their partitions."""
        self.unverified = await verify_partitions(self.broker, self.request, self.version, self.verified, self.access)
        self.append_all()
        return await self.wait_and_respond()

    def append_all(self) -> None:
        broker, version = self.broker, self.version
        by_id = version >= _TOPIC_IDS_SINCE
        for topic in self.request.topic_data:
            name = broker.replicas.topic_name(topic.topic_id) if by_id else topic.name
            error = _topic_error(self.access, name, len(topic.partition_data), topic.topic_id if by_id else None)
            answers = []
            for data in topic.partition_data:
                answer = PartitionProduceResponse(index=data.index)
                answers.append(answer)
                if error is not None or name is None:
                    # Not raised: its traceback would reference this frame, which references it, and keep the request in
                    # memory.
                    self._failed(name, answer, error or ApiException(ErrorCode.UNKNOWN_TOPIC_ID))
                    continue
                try:
                    topic_partition = TopicPartition(name, data.index)
                    if (unverified := self.unverified.get(topic_partition)) is not None:
                        self._failed(name, answer, unverified)
                        continue
                    info = broker.replicas.append_produced(
                        topic_partition,
                        _checked(data.records, version),
                        requires_all_in_sync=self.request.acks == -1,
                        budget=self.budget,
                        owner=self.owner,
                        guard=self.verified.get(topic_partition),
                    )
                    if isinstance(info, tuple):
                        self._appended(name, answer, info)
                    else:
                        self.waiting.append((name, answer, info))
                except ApiException as failure:
                    self._failed(name, answer, failure)
            self.responses.append(
                TopicProduceResponse(
                    name="" if by_id else topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )

    async def wait_and_respond(self) -> ProduceResponse | None:
        try:
            while self.waiting:
                name, answer, task = self.waiting.popleft()
                try:
                    self._appended(name, answer, await task)
                except ApiException as failure:
                    self._failed(name, answer, failure)
                finally:
                    del task  # Its exception references this frame, and so the whole request.
        finally:
            for _, _, left in self.waiting:
                left.cancel()
        if self.uncommitted:
            await self._wait_for_replicas()
        return self.respond()

    def _appended(self, name: str, answer: PartitionProduceResponse, info: AppendInfo) -> None:
        _succeeded(answer, info)
        replicas = self.broker.replicas
        if self.request.acks == -1 and replicas.leader_replicas is not None:
            partition = replicas.partitions.get(TopicPartition(name, answer.index))
            leader = None if partition is None else partition.leader_replica
            if leader is not None and leader.high_watermark <= info.last_offset:
                self.uncommitted.append((name, answer, leader, info.last_offset + 1))

    async def _wait_for_replicas(self) -> None:
        waits = [partial(leader.wait_for, offset) for _, _, leader, offset in self.uncommitted]
        errors = await wait_for_replicas(waits, self.request.timeout_ms)
        for (name, answer, _, _), error in zip(self.uncommitted, errors, strict=True):
            if error is not ErrorCode.NONE:
                # The records are in the log: the answer has their offset even with an error.
                answer.error_code = error
                self.first_error = self.first_error or error
                if self.version >= _LEADER_HINTS_SINCE:
                    _hint_at_leader(self.broker, name, answer, error, self.leaders)

    def respond(self) -> ProduceResponse | None:
        if self.request.acks == 0:
            if self.first_error:
                raise CloseConnection(f"a produce request with acks=0 failed with {self.first_error.name}")
            return None
        endpoints = _endpoints(self.broker, self.access.context.listener_name, self.leaders)
        return ProduceResponse(responses=self.responses, node_endpoints=endpoints)

    def _failed(self, name: str | None, answer: PartitionProduceResponse, failure: ApiException) -> None:
        self.first_error = self.first_error or failure.code
        _fill_failed(answer, failure)
        if failure.code is ErrorCode.NOT_ENOUGH_REPLICAS and name is not None:
            # The log exists, and the records are valid.
            answer.error_message = None
            partition = self.broker.replicas.partitions.get(TopicPartition(name, answer.index))
            if partition is not None and partition.log_or_none is not None:
                answer.log_start_offset = partition.log_or_none.log_start_offset
        if self.version >= _LEADER_HINTS_SINCE and name is not None:
            _hint_at_leader(self.broker, name, answer, failure.code, self.leaders)


def _topic_error(access: Access, name: str | None, references: int, topic_id: Uuid | None) -> ApiException | None:
    """Return the topic's error, which names the topic as the request did.

    A caller that may not write to a topic must not learn its name from its id.
    """
    if name is None:
        return ApiException(ErrorCode.UNKNOWN_TOPIC_ID)
    if not access.allows(ResourceType.TOPIC, AclOperation.WRITE, name, references=references):
        shown = name if topic_id is None else str(topic_id)
        return access.denied(AclOperation.WRITE, ResourceType.TOPIC, shown)
    if name in INTERNAL_TOPICS and (access.context.client_id != _INTERNAL_CLIENT_ID or name == ACCESS_AUDIT_TOPIC):
        return ApiException(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
    return None


def _checked(records: bytes | memoryview | None, version: int) -> bytes | memoryview:
    """Return the records. Raise ApiException if a request of this version may not contain them."""
    if records is None or len(records) < _HEADER_SIZE:
        raise ApiException(
            ErrorCode.INVALID_RECORD, f"Produce requests with version {version} must have exactly one record batch"
        )
    if records[_MAGIC_POSITION] == 2 and records[_ATTRIBUTES_POSITION] & _COMPRESSION_MASK == _ZSTD and version < 7:
        raise ApiException(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "Produce requests with version < 7 are not allowed to use ZStandard compression",
        )
    return records


def _succeeded(answer: PartitionProduceResponse, info: AppendInfo) -> None:
    answer.base_offset = info.first_offset
    answer.log_append_time_ms = info.log_append_time_ms
    answer.log_start_offset = info.log_start_offset


def _fill_failed(answer: PartitionProduceResponse, error: ApiException) -> None:
    answer.error_code = error.code
    answer.base_offset = answer.log_start_offset = -1
    answer.error_message = error.message
    if isinstance(error, InvalidRecords):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.record_errors
        ]


def _failed(index: int, error: ApiException) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=index)
    _fill_failed(answer, error)
    return answer


def _hint_at_leader(
    broker: Broker, topic: str, answer: PartitionProduceResponse, code: ErrorCode, leaders: set[int]
) -> None:
    """Name the current leader (KIP-951)."""
    if code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
        return
    registration = broker.metadata.partition(topic, answer.index)
    if registration is not None and registration.leader >= 0:
        answer.current_leader = LeaderIdAndEpoch(leader_id=registration.leader, leader_epoch=registration.leader_epoch)
        leaders.add(registration.leader)


def _endpoints(broker: Broker, listener_name: str, leaders: set[int]) -> list[NodeEndpoint]:
    endpoints: list[NodeEndpoint] = []
    if not leaders:
        return endpoints
    for leader in sorted(leaders):
        endpoint = broker.metadata.endpoint(leader, listener_name)
        if endpoint is not None:
            rack = broker.metadata.image.cluster.brokers[leader].rack
            endpoints.append(NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port, rack=rack))
    return endpoints
