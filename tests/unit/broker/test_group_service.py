"""Coordinators whose partition is in a failed directory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from barnabas.broker.group_service import GroupService
from barnabas.broker.session_lease import SessionLease
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import GROUP_METADATA_TOPIC
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.topic_record import TopicRecord

TOPIC_ID = Uuid.from_int(7)


class Clock:
    def now_ms(self) -> int:
        return 1_000

    def monotonic_ms(self) -> int:
        return 1_000


class Replicas:
    def __init__(self) -> None:
        self.read_rounds = SimpleNamespace(on_fetch=None, is_awaited=False)
        self.lost_logs_listeners: list[Callable[[Sequence[TopicPartition]], None]] = []
        self.partitions = {
            TopicPartition(GROUP_METADATA_TOPIC, number): SimpleNamespace(log_or_none=None, leader_replica=None)
            for number in range(2)
        }
        self.offline: set[Any] = set()

        self.failed: list[tuple[TopicPartition, str]] = []

    def add_lost_logs_listener(self, listener: Callable[[Sequence[TopicPartition]], None]) -> None:
        self.lost_logs_listeners.append(listener)

    def is_offline(self, partition: Any) -> bool:
        return id(partition) in self.offline

    @contextmanager
    def answered_disk_errors(self, topic_partition: TopicPartition) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failed.append((topic_partition, str(error)))
            raise ApiException(ErrorCode.KAFKA_STORAGE_ERROR) from error


class RefusedLog:
    """A log on an unreadable disk."""

    log_start_offset, log_end_offset, high_watermark = 0, 5, 5

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition

    def read(self, *_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")


class World:
    """A broker that leads both partitions of the coordinator's topic, which have no logs yet."""

    def __init__(self, *, is_started: bool = True) -> None:
        self.replicas = Replicas()
        config, lease = GroupCoordinatorConfig(), SessionLease(9.0)
        replicas: Any = self.replicas
        self.service = GroupService(
            config,
            broker_id=1,
            replicas=replicas,
            clock=Clock(),
            new_uuid=str,
            lease=lease,
            hurry_heartbeat=lambda: None,
        )
        if is_started:
            self.service.start()
        self.delta = MetadataDelta(MetadataImage.EMPTY)
        self.delta.replay(TopicRecord(name=GROUP_METADATA_TOPIC, topic_id=TOPIC_ID))
        for number in range(2):
            self.delta.replay(
                PartitionRecord(partition_id=number, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1, leader_epoch=3)
            )

    def publish(self) -> None:
        manifest: Any = None
        self.service.publish(self.delta, self.delta.apply(MetadataProvenance(1, 1, 1)), manifest)

    def answers(self) -> list[int]:
        """Return the error codes of OffsetFetch for a group of each partition."""
        coordinator = self.service.coordinator
        groups = {coordinator.partition_for(name): name for name in ("a", "b", "c", "d", "e")}
        return [
            coordinator.fetch_offsets(OffsetFetchRequestGroup(group_id=groups[number]), require_stable=False).error_code
            for number in range(2)
        ]


def run_scenario(scenario: Callable[[World], Awaitable[None]], *, is_started: bool = True) -> None:
    async def main() -> None:
        await scenario(World(is_started=is_started))

    asyncio.run(main())


def test_a_partition_in_a_failing_directory_loses_its_coordinator() -> None:
    async def scenario(world: World) -> None:
        world.publish()
        assert world.answers() == [ErrorCode.NONE, ErrorCode.NONE]
        [lost] = world.replicas.lost_logs_listeners
        lost([TopicPartition(GROUP_METADATA_TOPIC, 0), TopicPartition("orders", 1)])
        assert world.answers() == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]

    run_scenario(scenario)


def test_a_partition_in_a_failed_directory_is_not_taken_for_an_empty_one() -> None:
    async def scenario(world: World) -> None:
        partition = world.replicas.partitions[TopicPartition(GROUP_METADATA_TOPIC, 1)]
        world.replicas.offline.add(id(partition))
        world.publish()
        assert world.answers() == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]

    run_scenario(scenario)


def test_an_error_of_the_disk_during_loading_ends_the_loading() -> None:
    """The error used to end a callback of the loop, and the coordinator reported forever that it was loading."""

    async def scenario(world: World) -> None:
        place = TopicPartition(GROUP_METADATA_TOPIC, 1)
        refused: Any = RefusedLog(place)
        world.replicas.partitions[place].log_or_none = world.replicas.partitions[place].log = refused
        world.publish()
        await asyncio.sleep(0)
        assert world.answers() == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]
        assert world.replicas.failed == [(place, "[Errno 5] Input/output error")]

    run_scenario(scenario)


def test_a_starting_broker_does_not_coordinate_what_its_earlier_process_led() -> None:
    """Its coordinators used to write in leader epochs that had ended, while it still read the metadata log."""

    async def scenario(world: World) -> None:
        world.publish()
        assert world.answers() == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
        assert not list(world.service.coordinator.runtime.active_shards())
        world.service.start()
        assert world.answers() == [ErrorCode.NONE, ErrorCode.NONE]

    run_scenario(scenario, is_started=False)


def test_a_starting_broker_coordinates_nothing_that_another_one_leads_now() -> None:
    async def scenario(world: World) -> None:
        world.publish()
        world.delta.replay(
            PartitionRecord(partition_id=1, topic_id=TOPIC_ID, replicas=[1, 2], isr=[2], leader=2, leader_epoch=4)
        )
        world.publish()
        world.service.start()
        assert world.answers() == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]

    run_scenario(scenario, is_started=False)
