"""Reads the committed metadata log of a live quorum, as an observer without a replica id, unknown to the quorum.

``catch_up`` returns the image committed at the time of the call: a snapshot if the leader has one, and the log
after it up to the high watermark. A repeated call reads only newer records. It needs CLUSTER_ACTION on the cluster,
like every reader of that log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError, RemoteProtocolError
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import InvariantViolated, Transient
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataImage, MetadataProvenance
from barnabas.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestTopicSnapshot,
    SnapshotId,
)
from barnabas.protocol.record_batch import BatchView, iter_batches
from barnabas.protocol.record_serde import decode_metadata_record
from barnabas.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.raft.control_records import read_control_records

if TYPE_CHECKING:
    from barnabas.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint, PartitionData
    from barnabas.protocol.schema import Message, Request

__all__ = ["MetadataLogClient", "NoLeader", "NotAllowed"]

_TOPIC = "__cluster_metadata"
_FETCH_BYTES = 8 * 1024 * 1024
_RETRY_S = 0.1
_HOPS_MAX = 3
"""The first node returns the leader, which may have changed a moment ago."""
_LOOK_ELSEWHERE = frozenset(
    {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)

R = TypeVar("R", bound="Message")


class Ask(Protocol):
    """Sends a request to a node, or to any known controller. Raises ClientError."""

    async def __call__(self, address: Address | None, request: Request[R], /) -> R: ...


class NoLeader(ClientError, Transient):
    """No controller that leads the quorum could be found in time."""


class NotAllowed(ClientError):
    """The controllers deny access to their log."""


class MetadataLogClient:
    def __init__(self, ask: Ask, *, timeout_s: float) -> None:
        """``timeout_s``: how long to look for a leader."""
        self._ask = ask
        self._timeout_s = timeout_s
        self._leader: Address | None = None
        self._epoch = 0
        self._loader = MetadataLoader()
        self._next_offset = 0
        self._last_epoch = 0

    @property
    def image(self) -> MetadataImage:
        return self._loader.image

    async def catch_up(self) -> MetadataImage:
        """Read new records. Raise a ClientError; records read before are kept."""
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        target: int | None = None
        while target is None or self._next_offset < target:
            reached = self._next_offset
            partition = await self._fetch()
            if partition is not None:
                try:
                    await self._take(partition)
                except (DecodeError, InvariantViolated) as error:
                    raise RemoteProtocolError(f"{self._leader} sent an invalid metadata log: {error}") from error
                if target is None and partition.high_watermark >= 0:
                    target = partition.high_watermark
            if self._next_offset > reached or (target is not None and self._next_offset >= target):
                deadline = asyncio.get_running_loop().time() + self._timeout_s
            elif asyncio.get_running_loop().time() > deadline:
                raise NoLeader(f"no controller has led the metadata quorum for {self._timeout_s:g} s")
            else:
                await asyncio.sleep(_RETRY_S)
        return self._loader.image

    async def _fetch(self) -> PartitionData | None:
        """Return the leader's answer; None without a leader, or with a new one."""
        for _ in range(_HOPS_MAX):
            try:
                response = await self._ask(self._leader, self._fetch_request())
            except ClientError as error:
                if not isinstance(error, Transient) or self._leader is None:
                    raise
                self._leader = None
                return None
            _check(response.error_code)
            partition = response.responses[0].partitions[0]
            if _error_of(partition.error_code) not in _LOOK_ELSEWHERE:
                _check(partition.error_code)
                return partition
            self._follow(partition.current_leader, response.node_endpoints)
            if self._leader is None:
                break
        return None

    def _follow(self, current: LeaderIdAndEpoch | None, endpoints: Iterable[NodeEndpoint]) -> None:
        self._leader = None
        if current is None:
            return
        self._epoch = max(current.leader_epoch, 0)
        for endpoint in endpoints:
            if endpoint.node_id == current.leader_id:
                self._leader = Address(endpoint.host, endpoint.port)

    async def _take(self, partition: PartitionData) -> None:
        snapshot, diverging = partition.snapshot_id, partition.diverging_epoch
        if diverging is not None and diverging.epoch >= 0:
            raise RemoteProtocolError(f"the log of {self._leader} lacks the records committed at {self._next_offset}")
        if snapshot is not None and snapshot.epoch >= 0:
            await self._load_snapshot(snapshot.end_offset, snapshot.epoch)
            return
        committed = []
        for batch in iter_batches(partition.records or b""):
            if batch.last_offset >= partition.high_watermark:
                break
            if batch.base_offset >= self._next_offset:
                batch.ensure_valid()
                committed.append(_committed(batch))
        if committed:
            self._loader.handle_commit(committed)
            self._next_offset, self._last_epoch = committed[-1].last_offset + 1, committed[-1].epoch

    async def _load_snapshot(self, end_offset: int, epoch: int) -> None:
        data = bytearray()
        while True:
            request = self._snapshot_request(SnapshotId(end_offset=end_offset, epoch=epoch), len(data))
            response = await self._ask(self._leader, request)
            _check(response.error_code)
            partition = response.topics[0].partitions[0]
            if _error_of(partition.error_code) is ErrorCode.SNAPSHOT_NOT_FOUND:
                return  # A newer one has replaced it; the next Fetch names it.
            _check(partition.error_code)
            data += partition.unaligned_records or b""
            if len(data) >= partition.size:
                break
        records, time_ms = _snapshot_records(bytes(data))
        self._loader.load_snapshot(records, MetadataProvenance(end_offset - 1, epoch, time_ms), len(data))
        self._next_offset, self._last_epoch = end_offset, epoch

    def _fetch_request(self) -> FetchRequest:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self._epoch,
            fetch_offset=self._next_offset,
            last_fetched_epoch=self._last_epoch,
        )
        topic = FetchTopic(topic=_TOPIC, topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition])
        return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=_FETCH_BYTES, topics=[topic])

    def _snapshot_request(self, snapshot_id: SnapshotId, position: int) -> FetchSnapshotRequest:
        partition = FetchSnapshotRequestPartitionSnapshot(
            partition=0, current_leader_epoch=self._epoch, snapshot_id=snapshot_id, position=position
        )
        topic = FetchSnapshotRequestTopicSnapshot(name=_TOPIC, partitions=[partition])
        return FetchSnapshotRequest(replica_id=-1, max_bytes=_FETCH_BYTES, topics=[topic])


def _committed(batch: BatchView) -> CommittedBatch:
    records = () if batch.is_control else [decode_metadata_record(record.value or b"")[0] for record in batch.records()]
    return CommittedBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        epoch=batch.leader_epoch,
        append_time_ms=batch.max_timestamp,
        records=records,
        byte_count=batch.size,
    )


def _snapshot_records(data: bytes) -> tuple[list[Message], int]:
    """Return the records, and the append time of the last log record in them."""
    records: list[Message] = []
    time_ms = 0
    for batch in iter_batches(data):
        batch.ensure_valid()
        if batch.is_control:
            headers = [record for _, record in read_control_records(batch) if isinstance(record, SnapshotHeaderRecord)]
            time_ms = headers[0].last_contained_log_timestamp if headers else time_ms
        else:
            records += [decode_metadata_record(record.value or b"")[0] for record in batch.records()]
    return records, time_ms


def _check(code: int) -> None:
    error = _error_of(code)
    if error is ErrorCode.NONE:
        return
    if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise NotAllowed("reading the metadata log needs CLUSTER_ACTION on the cluster, which its nodes have")
    raise RemoteProtocolError(f"the metadata log can't be read: {error.name}")


def _error_of(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
