"""Several drivers in one process, each with its own files; requests are passed directly instead of sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.common.errors import InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataProvenance
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
)
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.raft.inbound import RaftResponse, RequestFailed
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.ready import LeaderAndEpoch, OutboundRequest
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.metadata_log.snapshots import MetadataSnapshots
from barnabas.server.quorum.raft_driver import RaftDriver
from barnabas.server.quorum.raft_recovery import MetadataLogConfig
from barnabas.storage.snapshot_file import SnapshotReader

TOPIC = "__cluster_metadata"
FEATURE = ApiMessageAndVersion(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)


def topic(name: str) -> ApiMessageAndVersion:
    return ApiMessageAndVersion(TopicRecord(name=name, topic_id=Uuid.from_int(1000 + ord(name[0]))), 0)


class LoopClock:
    """The event loop's own time: a test waits for events, never for a duration."""

    def now_ms(self) -> int:
        return 1_000_000 + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


class Member:
    def __init__(self, network: Network, node_id: int, *, can_be_voter: bool) -> None:
        self.node_id = node_id
        self.loader = MetadataLoader()
        self.changed = asyncio.Event()
        self.faults: list[BaseException] = []
        directory = network.folder / str(node_id)
        directory.mkdir(exist_ok=True)
        self.driver = RaftDriver(
            config=replace(
                network.config,
                node_id=node_id,
                directory_id=Uuid.from_int(1000 + node_id),
                can_be_voter=can_be_voter,
                listeners={"CONTROLLER": Endpoint(f"host{node_id}", 9093)},
            ),
            log_config=MetadataLogConfig(str(directory)),
            clock=LoopClock(),
            serde=MetadataRecordSerde(),
            fault_handler=self._failed,
            send=lambda request: network.send(self, request),
        )
        self.driver.register(self)

    @property
    def topics(self) -> list[str]:
        return sorted(self.loader.image.topics.by_name.keys())

    def _failed(self, fault: BaseException) -> None:
        self.faults.append(fault)
        self.changed.set()

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        self.loader.handle_commit(batches)
        self.changed.set()

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        provenance = MetadataProvenance(reader.snapshot_id.offset - 1, reader.snapshot_id.epoch, 0)
        self.loader.load_snapshot(list(reader.records(MetadataRecordSerde())), provenance)
        self.changed.set()

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            async with asyncio.timeout(20):
                await self.changed.wait()


class Network:
    def __init__(self, folder: Path, voter_ids: list[int]) -> None:
        self.folder = folder
        self.members: dict[int, Member] = {}
        listeners = {node_id: {"CONTROLLER": Endpoint(f"host{node_id}", 9093)} for node_id in voter_ids}
        self.config = RaftConfig(
            node_id=0,
            directory_id=Uuid.ZERO,
            cluster_id="cluster",
            static_voters=VoterSet(VoterNode(ReplicaKey(id_), listeners[id_]) for id_ in voter_ids),
            bootstrap_servers=tuple(Endpoint(f"host{node_id}", 9093) for node_id in voter_ids),
            election_timeout_ms=100,
            fetch_timeout_ms=200,
            fetch_max_wait_ms=50,
            fetch_snapshot_max_bytes=100,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, node_id: int, *, can_be_voter: bool = True) -> Member:
        member = self.members[node_id] = Member(self, node_id, can_be_voter=can_be_voter)
        member.driver.start()
        return member

    def send(self, source: Member, request: OutboundRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(source, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: Member, request: OutboundRequest) -> None:
        target = self.members.get(int(request.endpoint.host.removeprefix("host")))
        outcome: RaftResponse | RequestFailed
        version = type(request.body).MAX_VERSION
        try:
            if target is None:
                raise ConnectionError
            body = type(request.body).decode(request.body.encode(version), version)
            answer = await target.driver.handle_request(body, version)
            outcome = RaftResponse(
                request.correlation_id,
                request.destination_id,
                type(answer).decode(answer.encode(version), version),
            )
        except Exception:
            outcome = RequestFailed(request.correlation_id, request.destination_id)
        if self.members.get(source.node_id) is source:
            source.driver.handle_outcome(outcome)

    async def leader(self) -> Member:
        members = list(self.members.values())
        while True:
            for member in members:
                if member.driver.leader.is_leader(member.node_id):
                    return member
            waiting = [asyncio.ensure_future(member.changed.wait()) for member in members]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=20)
            for future in waiting:
                future.cancel()
            for member in members:
                member.changed.clear()

    async def stop(self, node_id: int) -> None:
        await self.members.pop(node_id).driver.close()

    async def close(self) -> None:
        for node_id in list(self.members):
            await self.stop(node_id)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def run(folder: Path, voter_ids: list[int], test: Callable[[Network], Awaitable[None]]) -> None:
    async def main() -> None:
        network = Network(folder, voter_ids)
        try:
            await test(network)
            assert not [fault for member in network.members.values() for fault in member.faults]
        finally:
            await network.close()

    asyncio.run(main())


def test_three_voters_elect_a_leader_and_all_receive_its_commits(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        members = [network.start(node_id) for node_id in (1, 2, 3)]
        leader = await network.leader()
        await leader.driver.append([FEATURE, topic("a")])
        for member in members:
            await member.until(lambda member=member: member.topics == ["a"])  # type: ignore[misc]

    run(tmp_path, [1, 2, 3], test)


def test_the_others_continue_without_the_leader_and_it_catches_up_later(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        for node_id in (1, 2, 3):
            network.start(node_id)
        first = await network.leader()
        await first.driver.append([FEATURE, topic("a")])
        await network.stop(first.node_id)
        second = await network.leader()
        assert second.driver.leader.epoch > first.driver.leader.epoch
        await second.driver.append([topic("b")])
        back = network.start(first.node_id)
        await back.until(lambda: back.topics == ["a", "b"])

    run(tmp_path, [1, 2, 3], test)


def test_a_follower_that_is_closed_while_it_flushes_has_not_failed(tmp_path: Path) -> None:
    """Its next requests no longer have a recipient."""

    async def test(network: Network) -> None:
        members = [network.start(node_id) for node_id in (1, 2, 3)]
        leader = await network.leader()
        follower = next(member for member in members if member is not leader)
        driver, is_flushing = follower.driver, asyncio.Event()
        start_flush = driver._start_flush

        def start() -> None:
            start_flush()
            if driver._is_flushing:
                is_flushing.set()

        driver._start_flush = start  # type: ignore[method-assign]
        leader.driver.append([FEATURE, topic("a")])
        await is_flushing.wait()
        await network.stop(follower.node_id)
        assert follower.faults == []

    run(tmp_path, [1, 2, 3], test)


def test_an_observer_fetches_a_snapshot_in_chunks_and_then_the_log(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        leader = network.start(1)
        await network.leader()
        await leader.driver.append([FEATURE, *(topic(name) for name in "abcdef")])
        snapshot_id = await MetadataSnapshots(leader.driver).save(leader.loader.image)
        await leader.driver.append([topic("g")])
        observer = network.start(100, can_be_voter=False)
        await observer.until(lambda: observer.topics == list("abcdefg"))
        assert list(observer.driver.log.snapshots) == [snapshot_id]
        assert snapshot_id is not None
        assert observer.driver.log.start_offset == snapshot_id.offset
        await network.stop(100)
        again = network.start(100, can_be_voter=False)
        await again.until(lambda: again.topics == list("abcdefg"))

    run(tmp_path, [1], test)


def test_the_leader_describes_its_quorum(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        leader = network.start(1)
        await network.leader()
        observer = network.start(100, can_be_voter=False)
        await leader.driver.append([FEATURE])
        await observer.until(lambda: observer.driver.high_watermark == leader.driver.high_watermark)
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        topics = [DescribeQuorumRequestTopicData(topic_name=TOPIC, partitions=[partition])]
        answer = await leader.driver.handle_request(DescribeQuorumRequest(topics=topics), 2)
        data = answer.topics[0].partitions[0]  # type: ignore[attr-defined]
        assert (data.leader_id, data.high_watermark) == (1, leader.driver.high_watermark)
        assert [state.replica_id for state in data.current_voters] == [1]
        assert [state.replica_id for state in data.observers] == [100]

    run(tmp_path, [1], test)


def test_a_message_against_the_protocol_fails_its_connection_and_nothing_else(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        leader = network.start(1)
        await network.leader()
        epoch = leader.driver.leader.epoch
        partition = BeginQuorumEpochRequestPartitionData(leader_id=2, leader_epoch=epoch)
        topics = [BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])]
        with pytest.raises(InvariantViolated, match="both lead"):
            await leader.driver.handle_request(BeginQuorumEpochRequest(topics=topics), 0)
        await leader.driver.append([FEATURE])

    run(tmp_path, [1], test)


def flip_bit(member: Member, offset: int) -> None:
    """Flip a bit of the batch with this offset on the disk of a running node."""
    log = member.driver.log
    path = Path(log.directory) / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    batch = next(batch for batch in iter_batches(bytes(data)) if batch.last_offset >= offset)
    data[batch.position + 70] ^= 1
    with path.open("r+b") as file:
        file.write(data)


def test_records_damaged_below_a_snapshot_are_taken_from_it(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        leader = network.start(1)
        await network.leader()
        observer = network.start(100, can_be_voter=False)
        await leader.driver.append([FEATURE, topic("a")])
        await observer.until(lambda: observer.topics == ["a"])
        await network.stop(100)
        damaged_offset = leader.driver.next_offset
        await leader.driver.append([topic("b")])
        snapshot_id = await MetadataSnapshots(leader.driver).save(leader.loader.image)
        await leader.driver.append([topic("c")])
        assert snapshot_id is not None
        flip_bit(leader, damaged_offset)
        again = network.start(100, can_be_voter=False)
        await again.until(lambda: again.topics == list("abc"))
        assert leader.driver.log.start_offset == snapshot_id.offset
        assert leader.faults == []

    run(tmp_path, [1], test)


def test_records_damaged_after_the_last_snapshot_stop_the_node_and_reach_no_follower(tmp_path: Path) -> None:
    async def test(network: Network) -> None:
        leader = network.start(1)
        await network.leader()
        await leader.driver.append([FEATURE, topic("a")])
        flip_bit(leader, 2)
        network.start(100, can_be_voter=False)
        await leader.until(lambda: bool(leader.faults))
        assert "the checksum is wrong" in str(leader.faults.pop())

    run(tmp_path, [1], test)
