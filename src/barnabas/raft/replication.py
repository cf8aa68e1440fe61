"""The follower's and observer's side: fetch from the leader, follow its log, take its snapshot when too far behind.

A voter's fetch offset reports its durable end to the leader, so a voter sends its next Fetch only when its log is
flushed. An observer is not counted and need not wait. A replica without a known leader sends its Fetch to the bootstrap
servers, one after the other, and learns the leader from their responses.
"""

from __future__ import annotations

from barnabas.common.error_code import error_of
from barnabas.common.errors import ErrorCode, invariant
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.protocol.messages.fetch import SnapshotId as FetchSnapshotId
from barnabas.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    SnapshotId,
)
from barnabas.protocol.record_batch import BatchView, iter_batches
from barnabas.protocol.schema import Message, Request
from barnabas.raft.control_records import read_control_records
from barnabas.raft.epochs import (
    CLUSTER_METADATA_TOPIC,
    CommonOutcome,
    handle_fetch_answer,
)
from barnabas.raft.inbound import RaftResponse
from barnabas.raft.ready import AppendedBatch
from barnabas.raft.replica import Replica
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.voter_update import voter_request

__all__ = ["handle_fetch_response", "handle_fetch_snapshot_response", "send_fetch", "send_fetch_to_bootstrap_server"]

UNKNOWN = -1


def send_fetch(replica: Replica, follower: FollowerState, now_ms: int) -> None:
    """Fetch from the leader, or from a bootstrap server while the leader is unreachable.

    The replica waits for a leader that has answered with an error: a hanging bootstrap server would hold up the
    next Fetch for a whole request time-out, and the leader would lose this follower.
    """
    if _would_promise_too_much(replica):
        return
    endpoint = replica.leader_endpoint()
    if endpoint is None or (
        follower.is_leader_unreachable and replica.requests.is_backing_off(follower.leader_id, now_ms)
    ):
        send_fetch_to_bootstrap_server(replica, now_ms)
    elif replica.requests.is_ready(follower.leader_id, now_ms) and not replica.requests.has_any_in_flight(now_ms):
        replica.send(follower.leader_id, endpoint, _request(replica, follower, now_ms), now_ms)


def send_fetch_to_bootstrap_server(replica: Replica, now_ms: int) -> None:
    """Fetch from a bootstrap server, which may lead by now and count this Fetch."""
    if _would_promise_too_much(replica):
        return
    server = replica.requests.ready_bootstrap_server(now_ms)
    if server is not None:
        replica.send(server[0], server[1], _fetch_request(replica), now_ms)


def _would_promise_too_much(replica: Replica) -> bool:
    """A voter's Fetch acknowledges all of its log. Records that it appended as a leader may not be flushed yet.

    A controller that is not a voter may be one by now in the leader's log, which counts its earlier fetches too.
    """
    return replica.config.can_be_voter and replica.log.durable_end_offset < replica.log.end_offset


def handle_fetch_response(replica: Replica, response: RaftResponse, now_ms: int) -> bool:
    body = response.body
    if not isinstance(body, FetchResponse):
        raise TypeError(body)
    if body.error_code or len(body.responses) != 1 or len(body.responses[0].partitions) != 1:
        return False
    partition = body.responses[0].partitions[0]
    if not _is_sound(partition):
        return False
    error = error_of(partition.error_code)
    known = (replica.quorum.epoch, replica.quorum.leader_id)
    outcome = handle_fetch_answer(replica, error, partition.current_leader, body.node_endpoints, now_ms)
    follower = replica.quorum.in_state(FollowerState)
    if outcome is not CommonOutcome.GO_ON or follower is None:
        # A replica that knows no leader, or only the one that no longer responds, is not contacted again immediately.
        if follower is None or outcome is CommonOutcome.RETRY:
            return False
        is_news = known != (replica.quorum.epoch, replica.quorum.leader_id)
        return is_news or now_ms < follower.fetch_deadline_ms
    if partition.high_watermark >= 0:
        replica.log.leader_reports(partition.high_watermark)
    if replica.quorum.recovery is not None:
        replica.quorum.recovery.answered(follower.leader_id)
        replica.quorum.recovery.leader_reported(replica.quorum.epoch, partition.high_watermark)
    _follow(replica, follower, partition)
    _heard_from_leader(replica, follower, now_ms)
    replica.maybe_end_recovery()
    return True


def handle_fetch_snapshot_response(replica: Replica, response: RaftResponse, now_ms: int) -> bool:
    body = response.body
    if not isinstance(body, FetchSnapshotResponse):
        raise TypeError(body)
    if body.error_code or len(body.topics) != 1 or len(body.topics[0].partitions) != 1:
        _forget_snapshot(replica)
        return False
    partition = body.topics[0].partitions[0]
    error = error_of(partition.error_code)
    gone = error in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
    common_error = ErrorCode.NONE if gone else error
    outcome = handle_fetch_answer(replica, common_error, partition.current_leader, body.node_endpoints, now_ms)
    follower = replica.quorum.in_state(FollowerState)
    if outcome is not CommonOutcome.GO_ON or follower is None:
        return outcome is not CommonOutcome.RETRY
    if gone:
        _forget_snapshot(replica)
        return True
    _take_chunk(replica, follower, partition)
    _heard_from_leader(replica, follower, now_ms)
    return True


# --- responses


def _is_sound(partition: PartitionData) -> bool:
    """Return whether each epoch in the response has an offset."""
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    if diverging is not None and diverging.epoch >= 0 and diverging.end_offset < 0:
        return False
    return snapshot is None or snapshot.epoch < 0 or snapshot.end_offset >= 0


def _follow(replica: Replica, follower: FollowerState, partition: PartitionData) -> None:
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    if diverging is not None and diverging.epoch >= 0:
        _truncate(replica, diverging)
    elif snapshot is not None and snapshot.epoch >= 0:
        _start_snapshot(replica, follower, snapshot)
    else:
        _append(replica, partition.records or b"")
        if not partition.records and replica.quorum.recovery is not None:
            replica.quorum.recovery.reached_leader(replica.quorum.epoch, replica.log.end_offset)
        if partition.high_watermark >= 0:
            replica.advance_high_watermark(min(partition.high_watermark, replica.log.end_offset))


def _truncate(replica: Replica, diverging: EpochEndOffset) -> None:
    """Truncate to where both logs can still be equal: the smaller end of the leader's epoch in either."""
    mine = replica.log.end_offset_for_epoch(diverging.epoch)
    end_offset = min(mine.offset, diverging.end_offset) if mine.epoch == diverging.epoch else mine.offset
    replica.truncate_to(end_offset)


def _start_snapshot(replica: Replica, follower: FollowerState, snapshot: FetchSnapshotId) -> None:
    snapshot_id = OffsetAndEpoch(snapshot.end_offset, snapshot.epoch)
    if snapshot_id not in replica.log.snapshots:
        follower.start_fetching_snapshot(snapshot_id)


def _append(replica: Replica, records: bytes | memoryview) -> None:
    for batch in _checked_batches(replica, records):
        replica.write(batch)


def _checked_batches(replica: Replica, records: bytes | memoryview) -> list[AppendedBatch]:
    """Check all batches before the first is written: a response is accepted as a whole or not at all."""
    found: list[AppendedBatch] = []
    next_offset = replica.log.end_offset
    epoch = replica.log.last_epoch
    for batch in iter_batches(records):
        batch.ensure_valid()
        if batch.base_offset < replica.log.end_offset:
            continue
        invariant(
            batch.base_offset == next_offset and epoch <= batch.leader_epoch <= replica.quorum.epoch,
            f"batch at {batch.base_offset} of epoch {batch.leader_epoch} where {next_offset} was expected",
        )
        found.append(_appended(batch))
        if batch.is_control:
            read_control_records(batch)
        next_offset, epoch = batch.next_offset, batch.leader_epoch
    return found


def _appended(batch: BatchView) -> AppendedBatch:
    return AppendedBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        epoch=batch.leader_epoch,
        timestamp_ms=batch.max_timestamp,
        data=batch.tobytes(),
        is_control=batch.is_control,
    )


def _forget_snapshot(replica: Replica) -> None:
    """Forget a deleted snapshot; the next Fetch names the current one. Kafka 4.3's leaders send a top-level error."""
    follower = replica.quorum.in_state(FollowerState)
    if follower is not None:
        follower.start_fetching_snapshot(None)


def _take_chunk(replica: Replica, follower: FollowerState, partition: FetchSnapshotResponsePartitionSnapshot) -> None:
    snapshot_id = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    wanted = follower.fetching_snapshot
    if wanted is None or snapshot_id != wanted or partition.position != follower.snapshot_position:
        return
    data = partition.unaligned_records or b""
    replica.outbox.ready.fetch_snapshot.append((snapshot_id, partition.position, data))
    follower.snapshot_position += len(data)
    if follower.snapshot_position >= partition.size:
        follower.snapshot_is_complete = True
        replica.outbox.ready.snapshot_to_freeze = snapshot_id


def _heard_from_leader(replica: Replica, follower: FollowerState, now_ms: int) -> None:
    follower.fetch_deadline_ms = now_ms + replica.config.fetch_timeout_ms
    follower.has_fetched_from_leader = True


# --- requests


def _request(replica: Replica, follower: FollowerState, now_ms: int) -> Request[Message]:
    about_itself = voter_request(replica, follower, now_ms)
    if about_itself is not None:
        return about_itself
    if follower.fetching_snapshot is not None:
        return _fetch_snapshot_request(replica, follower.fetching_snapshot, follower.snapshot_position)
    return _fetch_request(replica)


def _fetch_request(replica: Replica) -> FetchRequest:
    config, log = replica.config, replica.log
    return FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=ReplicaState(replica_id=_id_to_be_counted_by(replica), replica_epoch=-1),
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=0,
        max_bytes=config.fetch_max_bytes,
        topics=[
            FetchTopic(
                topic_id=Uuid.METADATA_TOPIC_ID,
                partitions=[
                    FetchPartition(
                        partition=0,
                        current_leader_epoch=replica.quorum.epoch,
                        fetch_offset=log.end_offset,
                        last_fetched_epoch=log.last_epoch,
                        replica_directory_id=config.directory_id,
                        high_watermark=UNKNOWN if log.high_watermark is None else log.high_watermark,
                    )
                ],
            )
        ],
    )


def _id_to_be_counted_by(replica: Replica) -> int:
    """Return this node's id; -1 while this voter may have voted in an epoch that it does not know."""
    recovery = replica.quorum.recovery
    if recovery is not None and not recovery.knows_epochs(replica.other_voters):
        return UNKNOWN
    return replica.config.node_id


def _fetch_snapshot_request(replica: Replica, snapshot_id: OffsetAndEpoch, position: int) -> FetchSnapshotRequest:
    config = replica.config
    return FetchSnapshotRequest(
        cluster_id=config.cluster_id,
        replica_id=_id_to_be_counted_by(replica),
        max_bytes=config.fetch_snapshot_max_bytes,
        topics=[
            FetchSnapshotRequestTopicSnapshot(
                name=CLUSTER_METADATA_TOPIC,
                partitions=[
                    FetchSnapshotRequestPartitionSnapshot(
                        partition=0,
                        current_leader_epoch=replica.quorum.epoch,
                        snapshot_id=SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
                        position=position,
                        replica_directory_id=config.directory_id,
                    )
                ],
            )
        ],
    )
