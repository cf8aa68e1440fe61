"""Replicas in several log directories: a disk fails and other brokers lead, replicas move during writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages import create_topics, metadata
from tests.peers.directory_story import SETTINGS, DirectoryStory, break_directory, log_dirs, repair_directory
from tests.peers.quorums import ControllerNode, OurBroker, OurController, RealController, running_quorum, wait_until

pytestmark = pytest.mark.interop

PARTITIONS = range(6)
CONTROLLERS = [
    pytest.param(OurController, id="our-controller", marks=pytest.mark.long),
    pytest.param(RealController, id="kafkas-controller", marks=pytest.mark.long),
]


class Pair:
    """Two brokers of ours with three directories each, and a topic with replicas on both."""

    def __init__(self, folder: Path, brokers: dict[int, OurBroker]) -> None:
        self.folder = folder
        self.brokers = brokers
        self.stories = {number: self.story(number) for number in brokers}

    def dirs(self, number: int) -> Path:
        return self.folder / f"dirs-{number}"

    def story(self, number: int) -> DirectoryStory:
        return DirectoryStory(self.brokers[number].port, self.dirs(number))

    def create(self) -> None:
        topic = create_topics.CreatableTopic(name="pair", num_partitions=len(PARTITIONS), replication_factor=2)
        request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        assert self.stories[1].client.call(request).topics[0].error_code == 0
        self.until(lambda: all(self.isr(number) == [1, 2] for number in PARTITIONS), "both in sync")
        for story in self.stories.values():
            self.until(lambda story=story: sum(map(len, story.by_directory("pair").values())) == 6, "all made")  # type: ignore[misc]

    def until(self, holds: Callable[[], bool], what: str) -> None:
        wait_until(holds, what=what, timeout_s=40)

    def partition(self, number: int) -> metadata.MetadataResponsePartition:
        request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(topic_id=Uuid.ZERO, name="pair")])
        partitions = self.stories[2].client.call(request).topics[0].partitions
        return next(partition for partition in partitions if partition.partition_index == number)

    def isr(self, number: int) -> list[int]:
        return sorted(self.partition(number).isr_nodes)

    def produce(self, number: int, value: bytes) -> int:
        """Produce to the current leader. Return the error code."""
        leader = self.partition(number).leader_id
        return self.stories[leader].produce("pair", number, value) if leader in self.stories else -1

    def close(self) -> None:
        for story in self.stories.values():
            story.client.close()


@contextmanager
def running_pair(folder: Path, controller: type[ControllerNode]) -> Iterator[Pair]:
    with running_quorum(folder, [controller]) as quorum:
        brokers = {}
        for number in (1, 2):
            (folder / f"dirs-{number}").mkdir()
            brokers[number] = OurBroker(
                folder / f"broker-{number}",
                quorum,
                node_id=number,
                settings={"log.dirs": log_dirs(folder / f"dirs-{number}"), **SETTINGS},
            )
        try:
            for broker in brokers.values():
                broker.start()
            pair = Pair(folder, brokers)
            try:
                pair.create()
                yield pair
            finally:
                pair.close()
        finally:
            for broker in brokers.values():
                broker.kill()


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_failed_directory_costs_no_acknowledged_record_and_its_replicas_come_back(
    tmp_path: Path, controller: type[ControllerNode]
) -> None:
    with running_pair(tmp_path, controller) as pair:
        for number in PARTITIONS:
            assert pair.produce(number, b"before") == 0
        lost = pair.stories[1].by_directory("pair")["c"]
        break_directory(pair.dirs(1) / "c")
        pair.until(lambda: all(pair.isr(number) == [2] for number in lost), "the other broker leads")
        assert all(pair.partition(number).offline_replicas == [1] for number in lost)
        for number in PARTITIONS:
            assert (pair.isr(number) == [1, 2]) is (number not in lost)
            pair.until(lambda number=number: pair.produce(number, b"during") == 0, "it can be written")  # type: ignore[misc]
        pair.stories[1].client.close()
        pair.brokers[1].stop()
        repair_directory(pair.dirs(1) / "c")
        pair.brokers[1].start()
        pair.stories[1] = pair.story(1)
        pair.until(lambda: all(pair.isr(number) == [1, 2] for number in PARTITIONS), "all in sync again")
        for number in PARTITIONS:
            leader = pair.partition(number).leader_id
            assert pair.stories[leader].read("pair", number) == [0, 74 + 74]


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_replicas_of_leaders_and_followers_move_while_they_are_written_to(
    tmp_path: Path, controller: type[ControllerNode]
) -> None:
    with running_pair(tmp_path, controller) as pair:
        written = 0
        for broker, story in pair.stories.items():
            at = {number: name for name, numbers in story.by_directory("pair").items() for number in numbers}
            target = {number: "b" if at[number] == "a" else "a" for number in PARTITIONS}
            assert story.alter({("pair", number): target[number] for number in PARTITIONS}) == [0] * 6
            while any(story.where("pair", number) != target[number] for number in PARTITIONS) or story.futures():
                for number in PARTITIONS:
                    assert pair.produce(number, b"x") == 0, f"while replicas of broker {broker} move"
                written += 1
        assert all(pair.isr(number) == [1, 2] for number in PARTITIONS)
        for number in PARTITIONS:
            leader = pair.partition(number).leader_id
            assert pair.stories[leader].offsets("pair", number) == [0, written]
        ends = [story.described() for story in pair.stories.values()]
        assert all(outcome["error"] == 0 for end in ends for outcome in end.values())
