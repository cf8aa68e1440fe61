"""Replicas move between the directories of a broker, on real logs, with a controller that records and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.broker.directory_assignment_sender import DirectoryAssignmentSender
from barnabas.broker.partition import Partition
from barnabas.broker.ports import ControllerChannel
from barnabas.broker.replica_directories import ReplicaDirectories
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.replication.directory_move import MoveStage
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
from barnabas.metadata.image.partition_registration import DIRECTORY_LOST
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.server.metrics.log_dirs import LOG_DIR_METRICS, log_dir_values
from barnabas.storage.log_manager import LogManager

NOW = 1_750_000_000_000
TOPIC, ORDERS = Uuid.from_int(1000), TopicPartition("orders", 0)
ONE, TWO, THREE = (Uuid.from_int(number) for number in (201, 202, 203))
UNASSIGNED = Uuid.from_int(1)


class Clock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_ms(self) -> int:
        return 0


class Controller:
    """Accepts each assignment, or answers with ``error``; ``wait`` holds its responses back."""

    def __init__(self) -> None:
        self.known: dict[int, Uuid] = {}
        self.requests = 0
        self.error = ErrorCode.NONE
        self.wait: asyncio.Event | None = None

    async def send(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.requests += 1
        if self.wait is not None:
            await self.wait.wait()
        if self.error:
            return AssignReplicasToDirsResponse(error_code=self.error)
        response = AssignReplicasToDirsResponse()
        for directory in request.directories:
            answered = AssignReplicasToDirsResponseDirectoryData(id=directory.id)
            for topic in directory.topics:
                parts = [partition.partition_index for partition in topic.partitions]
                self.known.update(dict.fromkeys(parts, directory.id))
                answered.topics.append(
                    AssignReplicasToDirsResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            AssignReplicasToDirsResponsePartitionData(partition_index=index) for index in parts
                        ],
                    )
                )
            response.directories.append(answered)
        return response


class Fetchers:
    def __init__(self) -> None:
        self.followed: list[TopicPartition] = []

    def follow(self, partitions: Iterable[Partition]) -> None:
        self.followed += [partition.topic_partition for partition in partitions]

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        stopped = set(partitions)
        self.followed = [partition for partition in self.followed if partition not in stopped]

    def lag_of(self, topic_partition: TopicPartition) -> int | None:
        return None


class World:
    def __init__(self, folder: Path, *, rate: float = float("inf")) -> None:
        ids = {str(folder / name): id_ for name, id_ in (("one", ONE), ("two", TWO), ("three", THREE))}
        self.folder = folder
        self.logs = LogManager(list(ids), directory_ids=ids)
        self.logs.startup(now_ms=NOW)
        self.fetchers = Fetchers()
        self.replicas = ReplicaManager(
            broker_id=1,
            logs=self.logs,
            clock=Clock(),
            defaults=TopicConfig({}),
            fetchers=cast("Any", self.fetchers),
            new_directories=lambda replicas: ReplicaDirectories(replicas, Clock(), bytes_per_second=lambda: rate),
        )
        self.directories = self.replicas.directories
        self.controller = Controller()
        self.sender = DirectoryAssignmentSender(
            self.directories, broker_id=1, broker_epoch=lambda: 7, controller=cast(ControllerChannel, self.controller)
        )
        self.image = MetadataImage.EMPTY

    def publish(self, *records: Any) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(cast("Any", self.image.provenance))
        self.replicas.publish(delta, self.image, LoaderManifest(self.image.provenance, is_snapshot=False))

    def create(self, directory: Uuid = UNASSIGNED, partitions: int = 1) -> None:
        made = [
            PartitionRecord(
                partition_id=number, topic_id=TOPIC, replicas=[1], isr=[1], leader=1, leader_epoch=0,
                partition_epoch=0, directories=[directory],
            )
            for number in range(partitions)
        ]  # fmt: skip
        self.publish(TopicRecord(name="orders", topic_id=TOPIC), *made)
        while self.replicas.open_some(100):
            pass

    def assign(self, directory: Uuid, partition: int = 0) -> None:
        self.publish(PartitionChangeRecord(partition_id=partition, topic_id=TOPIC, directories=[directory]))

    def append(self, count: int = 1, size: int = 10) -> None:
        for _ in range(count):
            self.replicas.append(
                self.replicas.partitions[ORDERS],
                build_batch([Record(0, NOW, None, b"x" * size)]),
                requires_all_in_sync=False,
            )

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def where(self, partition: int = 0) -> str:
        log = self.logs.get(TopicPartition("orders", partition))
        return "" if log is None else Path(log.directory).parent.name

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(1000):
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("the condition never became true")

    async def close(self) -> None:
        await self.sender.close()
        await self.directories.close()
        for directory in self.logs.directories.all:
            directory.unlock()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    def run(scenario: Callable[[World], Awaitable[None]], **options: Any) -> None:
        async def main() -> None:
            world = World(tmp_path, **options)
            try:
                await scenario(world)
            finally:
                await world.close()

        asyncio.run(main())

    return run


Run = Callable[..., None]


def measured(world: World) -> dict[str, float]:
    values = dict(log_dir_values(world.replicas))
    assert list(values) == [metric.name for metric in LOG_DIR_METRICS]
    prefixes = "kafka_log_log_manager_", "kafka_server_replica_manager_", "barnabas_log_directory_"
    return {
        next(name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)): value
        for name, value in values.items()
        if value
    }


def test_a_broker_reports_the_directories_that_it_chose_itself(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(partitions=6)
        await world.until(lambda: len(world.controller.known) == 6)
        assert world.controller.requests == 1, "together"
        assert sorted(world.controller.known.values()) == [ONE, ONE, TWO, TWO, THREE, THREE]
        for number, directory in world.controller.known.items():
            assert world.logs.directories.at(world.path(world.where(number))).id == directory

    run(scenario)


def test_a_replica_is_created_where_the_controller_says_without_a_report(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(TWO)
        assert world.where() == "two"
        await asyncio.sleep(0.1)
        assert world.controller.requests == 0

    run(scenario)


def test_a_refused_report_is_sent_again(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.controller.error = ErrorCode.NOT_CONTROLLER
        world.create()
        await world.until(lambda: world.controller.requests == 1)
        world.controller.error = ErrorCode.NONE
        await world.until(lambda: bool(world.controller.known))

    run(scenario)


def test_nothing_is_reported_to_a_cluster_without_directories(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.directories.is_assignment_supported = lambda: False
        world.create(ONE)
        world.append(3)
        world.directories.move(ORDERS, world.path("two"))
        await world.until(lambda: world.where() == "two")
        assert world.controller.requests == 0

    run(scenario)


def test_a_replica_moves_while_it_is_written_to(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE)
        world.append(20, 200_000)
        partition = world.replicas.partitions[ORDERS]
        world.directories.move(ORDERS, world.path("two"))
        while world.where() == "one":
            world.append()
            await asyncio.sleep(0.005)
        written = partition.log.log_end_offset
        assert partition.log is world.logs.get(ORDERS)
        assert written > 20
        assert world.controller.known == {0: TWO}
        assert measured(world)["moved_bytes"] > 20 * 200_000
        world.append()
        assert partition.log.log_end_offset == partition.log.high_watermark == written + 1
        assert world.directories.moves == {}

    run(scenario)


def test_a_replica_stays_until_the_controller_has_accepted_its_new_directory(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE)
        world.append()
        world.controller.wait = asyncio.Event()
        world.directories.move(ORDERS, world.path("two"))
        await world.until(lambda: world.directories.moves[ORDERS].stage is MoveStage.ASSIGNING)
        for _ in range(100):
            await asyncio.sleep(0)
        assert world.where() == "one"
        world.controller.wait.set()
        await world.until(lambda: world.where() == "two")

    run(scenario)


def test_the_metadata_log_confirms_a_move_as_the_response_does(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE)
        world.controller.wait = asyncio.Event()
        world.directories.move(ORDERS, world.path("two"))
        await world.until(lambda: world.directories.moves[ORDERS].stage is MoveStage.ASSIGNING)
        world.assign(TWO)
        await world.until(lambda: world.where() == "two")
        assert len(world.directories.assignments) == 1, "the response has not arrived yet"
        world.controller.wait.set()
        await world.until(lambda: len(world.directories.assignments) == 0)

    run(scenario)


def test_a_move_given_up_after_its_report_is_reported_back(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE)
        world.controller.wait = asyncio.Event()
        world.directories.move(ORDERS, world.path("two"))
        await world.until(lambda: world.controller.requests == 1)
        world.directories.move(ORDERS, world.path("one"))
        assert world.directories.moves == {}
        assert world.logs.future(ORDERS) is None
        world.controller.wait.set()
        await world.until(lambda: world.controller.known == {0: ONE})

    run(scenario)


def test_a_new_target_replaces_the_first(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE)
        world.append(5)
        world.directories.move(ORDERS, world.path("two"))
        world.directories.move(ORDERS, world.path("three"))
        await world.until(lambda: world.where() == "three")
        assert world.controller.known == {0: THREE}

    run(scenario)


def test_moves_respect_the_rate_limit(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE)
        world.append(3, 800_000)
        world.directories.move(ORDERS, world.path("two"))
        future = world.logs.future(ORDERS)
        assert future is not None
        await world.until(lambda: future.log_end_offset > 0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert future.log_end_offset == 1, "the clock does not advance here: one step exceeds the rate of a second"

    run(scenario, rate=1000)


def test_a_move_continues_after_a_restart(tmp_path: Path) -> None:
    async def begin() -> None:
        world = World(tmp_path, rate=1000)
        world.create(ONE)
        world.append(3, 800_000)
        world.directories.move(ORDERS, world.path("two"))
        await world.until(lambda: world.logs.future(ORDERS).log_end_offset == 1)
        await world.close()

    async def go_on() -> None:
        world = World(tmp_path)
        world.create(ONE)
        world.directories.resume()
        await world.until(lambda: world.where() == "two")
        assert world.replicas.partitions[ORDERS].log.log_end_offset == 3
        await world.close()

    asyncio.run(begin())
    asyncio.run(go_on())


def test_a_move_that_the_controller_accepted_continues_with_later_records(tmp_path: Path) -> None:
    """A node was killed between the response and the last step: the old log has the newest records."""

    async def begin() -> None:
        world = World(tmp_path)
        world.create(ONE)
        world.append(3)
        world.controller.wait = asyncio.Event()
        world.directories.move(ORDERS, world.path("two"))
        await world.until(lambda: world.directories.moves[ORDERS].stage is MoveStage.ASSIGNING)
        await world.directories.close()
        world.append(2)
        await world.close()

    async def go_on() -> None:
        world = World(tmp_path)
        world.create(TWO)
        world.directories.resume()
        await world.until(lambda: world.where() == "two")
        assert world.replicas.partitions[ORDERS].log.log_end_offset == 5
        assert world.controller.requests == 0
        await world.close()

    asyncio.run(begin())
    asyncio.run(go_on())


def test_a_future_log_of_a_deleted_topic_is_deleted(tmp_path: Path) -> None:
    async def begin() -> None:
        world = World(tmp_path, rate=1000)
        world.create(ONE)
        world.directories.move(ORDERS, world.path("two"))
        await world.close()

    async def go_on() -> None:
        world = World(tmp_path)
        world.replicas.settle_strays()
        world.directories.resume()
        assert world.logs.table.future == {}
        await world.close()

    asyncio.run(begin())
    asyncio.run(go_on())


def test_a_deleted_topic_ends_its_move(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE)
        world.directories.move(ORDERS, world.path("two"))
        world.publish(RemoveTopicRecord(topic_id=TOPIC))
        assert world.directories.moves == {}
        assert world.logs.table.future == {}
        await asyncio.sleep(0.1)
        assert world.controller.requests == 0

    run(scenario)


@pytest.mark.parametrize(
    ("partition", "name", "error"),
    [
        (ORDERS, "nowhere", ErrorCode.LOG_DIR_NOT_FOUND),
        (TopicPartition("orders", 9), "two", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("elsewhere", 0), "two", ErrorCode.REPLICA_NOT_AVAILABLE),
        (TopicPartition("t" * 214, 0), "two", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ORDERS, "three", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_impossible_move_is_refused_as_by_kafka(
    run: Run, partition: TopicPartition, name: str, error: ErrorCode
) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE)
        other = Uuid.from_int(1001)
        world.publish(
            TopicRecord(name="elsewhere", topic_id=other),
            PartitionRecord(partition_id=0, topic_id=other, replicas=[2], isr=[2], leader=2, directories=[ONE]),
        )
        world.logs.directories.all[2].is_cordoned = True
        with pytest.raises(ApiException) as caught:
            world.directories.move(partition, world.path(name))
        assert caught.value.code is error

    run(scenario)


def test_a_failed_directory_takes_its_replicas_and_moves_along(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE, partitions=2)
        world.append()
        partition = world.replicas.partitions[ORDERS]
        notified: list[int] = []
        partition.add_listener(notified.append)
        assert measured(world) == {}
        world.directories.move(ORDERS, world.path("two"))
        assert world.directories.directory_failed(world.path("one"), "it failed") is not None
        assert world.directories.directory_failed(world.path("one"), "again") is None
        assert notified == [0]
        assert world.directories.moves == {}
        assert measured(world) == {"offline_log_directory_count": 1, "offline_replica_count": 2}
        for attempt in (lambda: partition.log, lambda: world.append()):
            with pytest.raises(ApiException) as caught:
                attempt()
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        partition.leader_id = -1
        with pytest.raises(ApiException) as caught:
            world.replicas.leader_of(ORDERS)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(ApiException) as caught:
            world.directories.move(ORDERS, world.path("two"))
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    run(scenario)


def test_a_target_that_fails_ends_the_move_and_the_replica_stays(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.create(ONE)
        world.controller.wait = asyncio.Event()
        world.directories.move(ORDERS, world.path("two"))
        await world.until(lambda: world.controller.requests == 1)
        world.directories.directory_failed(world.path("two"), "it failed")
        world.controller.wait.set()
        world.append()
        assert world.where() == "one"
        await world.until(lambda: world.controller.known == {0: ONE})
        with pytest.raises(ApiException) as caught:
            world.directories.move(ORDERS, world.path("three"))
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR, "not while one is offline"

    run(scenario)


def test_a_lost_replica_is_not_copied(run: Run) -> None:
    """The copy would look like an empty log, which is in sync as soon as nothing is written."""

    async def scenario(world: World) -> None:
        made: dict[str, Any] = {"topic_id": TOPIC, "replicas": [1, 2], "isr": [1, 2], "leader": 2, "leader_epoch": 0}
        world.publish(
            TopicRecord(name="orders", topic_id=TOPIC),
            PartitionRecord(partition_id=0, directories=[ONE, TWO], **made),
            PartitionRecord(partition_id=1, directories=[TWO, TWO], **made),
        )
        other = TopicPartition("orders", 1)
        assert world.fetchers.followed == [ORDERS, other]
        world.directories.directory_failed(world.path("one"), "it failed")
        world.publish(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[2]))
        assert world.fetchers.followed == [other]

    run(scenario)


def test_a_replica_whose_directory_cannot_be_read_has_no_second_log_in_another_one(tmp_path: Path) -> None:
    """Seed 88379254 of the simulator: the broker stopped before the controller knew the directory."""

    async def begin() -> None:
        world = World(tmp_path)
        with suppress(ApiException):  # It has no replica yet; the directory is recorded.
            world.directories.move(ORDERS, world.path("two"))
        world.create(UNASSIGNED)
        world.append(3)
        assert world.where() == "two"
        await world.close()

    async def go_on_without() -> None:
        world = World(tmp_path)
        world.create(UNASSIGNED)
        assert world.where() == ""
        partition = world.replicas.partitions[ORDERS]
        assert world.replicas.is_offline(partition)
        with pytest.raises(ApiException) as caught:
            _ = partition.log
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert world.directories.assignments.next_request() == {(TOPIC, 0): DIRECTORY_LOST}, (
            "another replica shall lead"
        )
        world.replicas.settle_strays()
        other = Uuid.from_int(4711)
        made = PartitionRecord(
            partition_id=0, topic_id=other, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0,
            directories=[UNASSIGNED],
        )  # fmt: skip
        world.publish(TopicRecord(name="bills", topic_id=other), made)
        assert world.replicas.partitions[TopicPartition("bills", 0)].log.log_end_offset == 0, "a new topic has a log"
        await world.close()

    async def go_on() -> None:
        world = World(tmp_path)
        world.create(DIRECTORY_LOST)
        assert world.where() == "two"
        assert world.replicas.partitions[ORDERS].log.log_end_offset == 3
        assert world.directories.assignments.next_request() == {(TOPIC, 0): TWO}
        await world.close()

    asyncio.run(begin())
    (tmp_path / "two").rename(tmp_path / "away")
    (tmp_path / "two").write_text("an unreadable disk")
    asyncio.run(go_on_without())
    (tmp_path / "two").unlink()
    (tmp_path / "away").rename(tmp_path / "two")
    asyncio.run(go_on())
