"""ShareFetch: a member of a share group acquires records, and acknowledges those that it acquired before (KIP-932).

Epoch 0 of a share session names all partitions of the member, later epochs name changes, -1 ends the session. An answer
waits for ``min_bytes`` up to ``max_wait_ms``, and for the acknowledgements to be stored. A request that renews locks
fetches nothing, so that its answer is not late (KIP-1222).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.share.acknowledgements import Acknowledgements, AllowedTopics
from barnabas.broker.share.share_fetch import FetchParams, failed, rotated
from barnabas.broker.share.share_requests import Leaders, checked_key
from barnabas.broker.share.share_session import FINAL_EPOCH, INITIAL_EPOCH, TopicIdPartition
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.share_fetch import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from barnabas.broker.broker import Broker
    from barnabas.broker.share.share_fetch import FetchResult
    from barnabas.broker.share.share_partition_manager import Outcomes
    from barnabas.broker.share.share_session import SessionKey, ShareSession
    from barnabas.common.uuid import Uuid

_RENEWALS_SINCE = 2
_READ_BYTES_MAX = 8 * 1024 * 1024
"""A read after a restart verifies what it reads: about 5 ms for this many bytes."""
_ACQUIRES_STRICTLY = 1
"""The acquire mode in which ``max_records`` is also a limit within a batch (KIP-1206)."""


@handles(
    ApiKey.SHARE_FETCH,
    acl=(AclRule(ResourceType.GROUP, AclOperation.READ), AclRule(ResourceType.TOPIC, AclOperation.READ)),
)
def handle_share_fetch(
    broker: Broker, request: ShareFetchRequest, access: Access
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    key = checked_key(broker, access, request.group_id, request.member_id)
    is_renewal = access.context.api_version >= _RENEWALS_SINCE and request.is_renew_ack
    if is_renewal:
        _check_renewal(request)
    try:
        session = _session_of(broker, request, access, key)
    except ApiException as error:
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            raise
        return _refuse_later(request.max_wait_ms, error)
    if broker.quotas is not None:
        broker.quotas.limit_fetch(request, access.context)
    return _ShareFetchHandling(broker, request, access, key, session).answer()


def _check_renewal(request: ShareFetchRequest) -> None:
    limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if any(limits):
        raise ApiException(
            ErrorCode.INVALID_REQUEST,
            "A request that renews locks fetches nothing: MaxBytes, MinBytes, MaxRecords and MaxWaitMs must be 0",
        )


async def _refuse_later(max_wait_ms: int, error: ApiException) -> ShareFetchResponse:
    """Refuse a member that has no session yet, after the time that it would wait for records."""
    await asyncio.sleep(max(max_wait_ms, 0) / 1000)
    raise error


def _session_of(broker: Broker, request: ShareFetchRequest, access: Access, key: SessionKey) -> ShareSession | None:
    """Return the session that the request begins or continues; None if it ends it."""
    sessions, epoch = broker.share_partitions.sessions, request.share_session_epoch
    named = [
        TopicIdPartition(topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if epoch == INITIAL_EPOCH:
        if _has_acknowledgements(request):
            raise ApiException(ErrorCode.INVALID_REQUEST, "A new share session has nothing to acknowledge")
        connection_id, peer = access.context.connection_id, access.context.peer
        is_known = sessions.knows_connection(connection_id)
        session = sessions.begin(key, connection_id, named)
        if peer is not None and not is_known:
            peer.add_close_listener(partial(sessions.connection_closed, connection_id))
        return session
    session = sessions.get(key)
    if epoch == FINAL_EPOCH:
        return None
    session.check_epoch(epoch)
    session.update(
        named,
        (
            TopicIdPartition(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ),
    )
    session.advance()
    return session


def _has_acknowledgements(request: ShareFetchRequest) -> bool:
    return any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions)


class _ShareFetchHandling:
    """One request: its acknowledgements begin before its fetch, and both are in the answer."""

    __slots__ = ("_access", "_allowed", "_broker", "_errors", "_key", "_request", "_session")

    def __init__(
        self,
        broker: Broker,
        request: ShareFetchRequest,
        access: Access,
        key: SessionKey,
        session: ShareSession | None,
    ) -> None:
        self._broker = broker
        self._request = request
        self._access = access
        self._key = key
        self._session = session
        self._allowed = AllowedTopics(broker, access)
        self._errors: FetchResult = {}

    def answer(self) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
        outcomes = self._acknowledge()
        fetched = self._fetch()
        if isinstance(outcomes, dict) and isinstance(fetched, dict):
            return self._response(fetched, outcomes)
        return self._answer_later(fetched, outcomes)

    async def _answer_later(
        self, fetched: FetchResult | Awaitable[FetchResult], outcomes: Outcomes | Awaitable[Outcomes]
    ) -> ShareFetchResponse:
        if not isinstance(fetched, dict):
            fetched = await fetched
        return self._response(fetched, outcomes if isinstance(outcomes, dict) else await outcomes)

    # --- acknowledging

    def _acknowledge(self) -> Outcomes | Awaitable[Outcomes]:
        request = self._request
        if not _has_acknowledgements(request):
            return {}
        acknowledgements = Acknowledgements(
            request.topics,
            self._allowed,
            may_renew=self._access.context.api_version >= _RENEWALS_SINCE,
            is_renewal=request.is_renew_ack,
        )
        outcomes = self._broker.share_partitions.acknowledge(*self._key, acknowledgements.valid)
        if isinstance(outcomes, dict):
            return {**acknowledgements.errors, **outcomes}
        return _joined(acknowledgements.errors, outcomes)

    # --- fetching

    def _fetch(self) -> FetchResult | Awaitable[FetchResult]:
        request, session = self._request, self._session
        if session is None or (request.is_renew_ack and self._access.context.api_version >= _RENEWALS_SINCE):
            return {}
        wanted = []
        for partition in session.partitions:
            error = self._allowed.error_of(partition)
            if error is None:
                wanted.append(partition)
            else:
                self._errors[partition] = failed(partition.partition, error)
        max_bytes = min(request.max_bytes, self._broker.settings.fetch_max_bytes, _READ_BYTES_MAX)
        params = FetchParams(
            member_id=self._key.member_id,
            max_wait_ms=request.max_wait_ms,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            max_records=request.max_records,
            batch_size=request.batch_size,
            is_strict=request.share_acquire_mode == _ACQUIRES_STRICTLY,
        )
        wanted_first = rotated(wanted, request.share_session_epoch)
        return self._broker.share_partitions.fetch(self._key.group_id, wanted_first, params)

    # --- the answer

    def _response(self, fetched: FetchResult, outcomes: Outcomes) -> ShareFetchResponse:
        broker = self._broker
        partitions = self._selected({**fetched, **self._errors})
        leaders = Leaders(broker, self._access.context.listener_name)
        for partition, answer in partitions.items():
            leader = leaders.of(partition, answer.error_code)
            if leader is not None:
                answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
        for partition, error in outcomes.items():
            answer = partitions.setdefault(partition, PartitionData(partition_index=partition.partition, records=b""))
            if error is not None:
                answer.acknowledge_error_code, answer.acknowledge_error_message = error.code, error.message
        if self._session is None:
            broker.share_partitions.release_session(self._key)
        broker.replicas.bytes_out += sum(len(answer.records or b"") for answer in partitions.values())
        configs = broker.share_partitions.configs
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=configs.of(self._key.group_id).limits.record_lock_duration_ms,
            responses=_by_topic(partitions.items()),
            node_endpoints=[
                NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in leaders.nodes.values()
            ],
        )

    def _selected(self, partitions: FetchResult) -> FetchResult:
        """Return the partitions that the answer contains: all of the first one, and then those with news."""
        session = self._session
        if session is None or self._request.share_session_epoch == INITIAL_EPOCH:
            return partitions
        return {
            partition: answer
            for partition, answer in partitions.items()
            if session.must_send(partition, has_records=bool(answer.records), has_error=answer.error_code != 0)
        }


async def _joined(errors: Outcomes, outcomes: Awaitable[Outcomes]) -> Outcomes:
    return {**errors, **await outcomes}


def _by_topic(answers: Iterable[tuple[TopicIdPartition, PartitionData]]) -> list[ShareFetchableTopicResponse]:
    topics: dict[Uuid, ShareFetchableTopicResponse] = {}
    for (topic_id, _), answer in answers:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
        topic.partitions.append(answer)
    return list(topics.values())
