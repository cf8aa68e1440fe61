"""A flush makes durable the log as of its start, but no records that replace a tail truncated meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas.raft.control_records import build_control_batch, leader_change
from barnabas.raft.election_state import ElectionState
from barnabas.raft.inbound import RaftResponse
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.ready import OutboundRequest
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.quorum.raft_driver import RaftDriver
from barnabas.server.quorum.raft_recovery import MetadataLogConfig
from barnabas.storage.quorum_state_file import QuorumStateFile
from tests.unit.server.quorum.test_raft_driver import FakeClock

VOTERS = VoterSet(
    VoterNode(ReplicaKey(id_), {"CONTROLLER": Endpoint(f"host{id_}", 9093)}, kraft_version_max=0) for id_ in (1, 2, 3)
)


class HeldExecutor(Executor):
    """Runs submitted work when the test requests it."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], Any], Future[Any]]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.held.append((lambda: work(*args, **options), future))
        return future

    async def do_next(self) -> None:
        work, future = self.held.pop(0)
        future.set_result(work())
        for _ in range(4):
            await asyncio.sleep(0)


def answered(epoch: int, *, records: bytes = b"", diverging: tuple[int, int] | None = None) -> FetchResponse:
    """Return a response of replica 2, which leads this epoch."""
    partition = PartitionData(records=records, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=epoch))
    if diverging is not None:
        partition.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])


def batch(base_offset: int, epoch: int, count: int) -> bytes:
    records = [leader_change(2, [], [])] * count
    return build_control_batch(records, base_offset=base_offset, leader_epoch=epoch, timestamp_ms=0)


class Follower:
    """Replica 1 of three, which follows replica 2 in epoch 5; its requests are kept."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.requests: list[OutboundRequest] = []
        self.driver = RaftDriver(
            config=RaftConfig(node_id=1, directory_id=Uuid.from_int(1001), cluster_id="cluster", static_voters=VOTERS),
            log_config=MetadataLogConfig(str(directory)),
            clock=FakeClock(),
            serde=MetadataRecordSerde(),
            fault_handler=self.fail,
            send=self.requests.append,
        )
        self.executor = HeldExecutor()
        self.driver._executor = self.executor  # type: ignore[assignment]
        state = QuorumStateFile(self.driver.log.directory)
        state.write(ElectionState(5, leader_id=2), 0, [1, 2, 3])
        self.driver.start()

    def fail(self, fault: BaseException) -> None:
        raise fault

    @property
    def durable_end(self) -> int:
        return self.driver.node._log.durable_end_offset

    def answer(self, body: FetchResponse) -> None:
        request = next(candidate for candidate in reversed(self.requests) if isinstance(candidate.body, FetchRequest))
        self.driver.handle_outcome(RaftResponse(request.correlation_id, request.destination_id, body))

    async def close(self) -> None:
        closing = asyncio.ensure_future(self.driver.close())
        while not closing.done():
            await asyncio.sleep(0)
            await self.do_all()

    async def do_all(self) -> None:
        while self.executor.held:
            await self.executor.do_next()


def test_a_flush_does_not_count_for_records_that_replace_a_truncated_tail(tmp_path: Path) -> None:
    async def body() -> None:
        follower = Follower(tmp_path / "log")
        driver = follower.driver
        await follower.do_all()
        follower.answer(answered(5, records=batch(0, 3, 2) + batch(2, 4, 3)))
        await follower.do_all()
        assert follower.durable_end == 5

        driver.log._write_epochs()  # The log needs another flush, with the same end ...
        driver.resign(0)  # ... as soon as any event occurs.
        assert len(follower.executor.held) == 1
        follower.answer(answered(5, diverging=(3, 2)))
        assert driver.log.end_offset == 2
        follower.answer(answered(5, records=batch(2, 5, 3)))
        await follower.executor.do_next()
        assert driver.log.end_offset == 5
        assert follower.durable_end == 2
        await follower.do_all()
        assert follower.durable_end == 5
        await follower.close()

    asyncio.run(body())
