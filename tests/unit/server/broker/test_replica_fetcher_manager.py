"""Which leader's fetcher copies which partition, when the metadata changes."""

from __future__ import annotations

from typing import Any, cast

from barnabas.broker.partition import Partition
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.partition_registration import DIRECTORY_UNASSIGNED, PartitionRegistration
from barnabas.server.broker.replica_fetcher_manager import ReplicaFetchers
from tests.unit.broker.replication.follower import CONFIG

TOPIC_ID = Uuid.from_int(7)


class Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


class Logs:
    def report_failure(self, log: object, error: Exception) -> None: ...


def new_fetchers(per_leader: int = 1) -> ReplicaFetchers:
    """Return the fetchers of broker 2, not started, so that nothing is sent."""
    return ReplicaFetchers(
        broker_id=2,
        config=CONFIG,
        fetchers_per_leader=per_leader,
        broker_epoch=lambda: 1,
        clock=Clock(),
        find_broker=lambda broker_id: None,
        client_config=lambda client_id: cast("Any", None),
        logs=cast("Any", Logs()),
    )


def led_by(leader: int, partition: int = 0, *, epoch: int = 0) -> Partition:
    made = Partition(TopicPartition("t", partition), TOPIC_ID, lambda _: cast("Any", None))
    made.update(
        PartitionRegistration(
            replicas=(1, 2, 3),
            directories=(DIRECTORY_UNASSIGNED,) * 3,
            isr=(1, 2, 3),
            leader=leader,
            leader_epoch=epoch,
        )
    )
    return made


def shares(fetchers: ReplicaFetchers) -> dict[tuple[int, int], list[int]]:
    """Return a map: (leader, number of the fetcher) -> the partitions that it copies."""
    return {
        key: sorted(partition.replica.topic_partition.partition for partition in source.partitions())
        for key, source in fetchers._sources.items()
    }


def test_each_partition_is_copied_from_its_leader() -> None:
    fetchers = new_fetchers()
    fetchers.follow([led_by(1, 0), led_by(3, 1), led_by(1, 2)])
    assert shares(fetchers) == {(1, 0): [0, 2], (3, 0): [1]}


def test_a_partition_follows_its_leader_and_a_fetcher_without_partitions_is_closed() -> None:
    fetchers = new_fetchers()
    fetchers.follow([led_by(1, 0), led_by(1, 1)])
    fetchers.follow([led_by(3, 0, epoch=1), led_by(3, 1, epoch=1)])
    assert shares(fetchers) == {(3, 0): [0, 1]}


def test_partitions_without_a_leader_or_led_here_are_not_copied() -> None:
    fetchers = new_fetchers()
    fetchers.follow([led_by(1, 0), led_by(1, 1), led_by(1, 2)])
    fetchers.follow([led_by(-1, 0, epoch=1), led_by(2, 1, epoch=1)])
    assert shares(fetchers) == {(1, 0): [2]}
    fetchers.stop([TopicPartition("t", 2), TopicPartition("t", 99)])
    assert shares(fetchers) == {}


def test_several_fetchers_share_a_leaders_partitions_and_their_number_may_change() -> None:
    fetchers = new_fetchers(per_leader=4)
    fetchers.follow([led_by(1, partition) for partition in range(100)])
    before = shares(fetchers)
    assert sorted(before) == [(1, number) for number in range(4)]
    assert all(len(partitions) > 10 for partitions in before.values())
    fetchers.resize(1)
    assert shares(fetchers) == {(1, 0): list(range(100))}
    fetchers.resize(4)
    assert shares(fetchers) == before
