"""The answers of a node with several log directories while replicas move, directories are cordoned and one fails.

The node is Kafka's or ours: combined, id 1, freshly formatted, with the directories a, b, c of ``log_dirs`` (metadata
in a) and ``SETTINGS``. Paths are reduced to their last letter. Steps wait for slow operations, so that the answers of
both are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages import (
    alter_replica_log_dirs,
    create_topics,
    describe_log_dirs,
    fetch,
    incremental_alter_configs,
    list_offsets,
    metadata,
    produce,
)
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.interop.raw_client import RawClient

__all__ = ["NAMES", "SETTINGS", "DirectoryStory", "break_directory", "log_dirs", "repair_directory"]

NAMES = ("a", "b", "c")
SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "300", "auto.create.topics.enable": "false"}
WAIT_S = 30.0
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

Answers = dict[str, Any]


def log_dirs(folder: Path) -> str:
    return ",".join(str(folder / name) for name in NAMES)


def break_directory(path: Path) -> None:
    """Simulate a lost disk for a process that still has open files on it: no file can be created there any longer."""
    path.rename(path.with_name(f"{path.name}-away"))
    path.write_text("")


def repair_directory(path: Path) -> None:
    """Restore the disk with its content."""
    path.unlink()
    path.with_name(f"{path.name}-away").rename(path)


class DirectoryStory:
    """The parts run in the order of ``answers_of``; ``answers`` are plain values by the name of their step."""

    def __init__(self, port: int, folder: Path) -> None:
        self.client = RawClient(port)
        self.folder = folder
        self.answers: Answers = {}

    def path(self, name: str) -> str:
        return str(self.folder / name)

    # --- the story

    def run_moves(self) -> None:
        self.create("orders", 6)
        self.note("new topic", sorted(len(partitions) for partitions in self.by_directory("orders").values()))
        at = self.where("orders", 0)
        target = next(name for name in NAMES if name != at)
        for index in range(20):
            self.produce("orders", 0, b"%d" % index * 1000)
        self.note("moved", self.alter({("orders", 0): target}))
        self.until(lambda: self.where("orders", 0) == target and not self.futures())
        self.note("offsets after the move", self.offsets("orders", 0))
        self.note("read after the move", self.read("orders", 0))
        self.note("moved to its own directory", self.alter({("orders", 0): target}))
        self.note("no such directory", self.alter({("orders", 0): "nowhere"}))
        self.note("no such topic", self.alter({("missing", 0): "b"}))
        self.note("no such partition", self.alter({("orders", 17): "b"}))
        self.create("t" * 213, 1)
        self.create("u" * 214, 1)
        self.note("longest name", self.alter({("t" * 213, 0): self.where("t" * 213, 0)}))
        self.note("too long a name", self.alter({("u" * 214, 0): self.where("u" * 214, 0)}))
        self.note("assigned before the topic exists", self.alter({("later", number): "c" for number in range(3)}))
        self.create("later", 3)
        self.note("created where it was assigned", self.by_directory("later"))

    def run_throttled_move(self) -> None:
        self.create("slow", 1)
        for index in range(30):
            self.produce("slow", 0, bytes([index]) * 100_000)
        at = self.where("slow", 0)
        first, second = (name for name in NAMES if name != at)
        self.note("throttle", self.configure({RATE: "1000"}))
        time.sleep(0.5)
        self.alter({("slow", 0): first})
        self.until(lambda: ("slow", 0) in self.futures())
        self.note("on its way", [name == first for name in self.futures().values()])
        self.note("elsewhere instead", self.alter({("slow", 0): second}))
        self.until(lambda: list(self.futures().values()) == [second])
        self.note("cancelled", self.alter({("slow", 0): at}))
        self.until(lambda: not self.futures())
        self.note("stays where it was", self.where("slow", 0) == at)
        self.note("no throttle", self.configure({RATE: None}))

    def run_cordoned(self) -> None:
        self.note("cordon nowhere", self.configure({"cordoned.log.dirs": "/nowhere"}))
        self.note("cordon for all brokers", self.configure({"cordoned.log.dirs": self.path("b")}, broker=""))
        self.note("cordon one", self.configure({"cordoned.log.dirs": self.path("b")}))
        self.until(lambda: self.described()["b"]["is_cordoned"])
        self.create("cordoned", 4)
        self.note("none in the cordoned directory", "b" not in self.by_directory("cordoned"))
        self.create("guest", 1)
        self.note("moved to the cordoned directory", self.alter({("guest", 0): "b"}))
        self.note("cordon all", self.configure({"cordoned.log.dirs": "*"}))
        self.until(lambda: all(directory["is_cordoned"] for directory in self.described().values()))
        time.sleep(1)
        self.note("nowhere to go", self.create("homeless", 1))
        self.note("cordon none", self.configure({"cordoned.log.dirs": None}))
        self.until(lambda: not any(directory["is_cordoned"] for directory in self.described().values()))
        time.sleep(1)

    def run_failure(self) -> None:
        self.alter({("lost", number): NAMES[number // 2] for number in range(6)})
        self.create("lost", 6)
        for number in range(6):
            self.produce("lost", number, b"kept")
        healthy, victim = 2, 4
        break_directory(self.folder / "c")
        self.until(lambda: self.described()["c"]["error"] != 0)
        self.note("described", self.described(topics=()))
        self.until(lambda: self.leader("lost", victim)[0] == -1)
        self.note("leader of a lost replica", self.leader("lost", victim))
        self.note("leader of another", self.leader("lost", healthy))
        self.note("write to a lost replica", self.produce("lost", victim, b"x"))
        self.note("read a lost replica", self.read("lost", victim))
        self.note("write another", self.produce("lost", healthy, b"x"))
        self.note("move a lost replica", self.alter({("lost", victim): "a"}))
        self.note("move to the lost directory", self.alter({("lost", healthy): "c"}))
        self.note("move another", self.alter({("lost", healthy): "a"}))
        self.note("new topic meanwhile", self.create("meanwhile", 4))
        self.note("none in the lost directory", "c" not in self.by_directory("meanwhile"))

    def run_after_repair(self) -> None:
        """The steps after a stop, ``repair_directory`` and a start."""
        self.until(lambda: all(self.leader("lost", number)[0] == 1 for number in range(6)))
        self.until(lambda: all(self.read("lost", number)[1] for number in range(6)))
        self.note("the whole assignment again", [self.read("lost", number) for number in range(6)])

    # --- requests

    def note(self, step: str, answer: Any) -> None:
        self.answers[step] = answer

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT_S
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"it did not come to it; so far: {self.answers}; now: {self.described()}")
            time.sleep(0.1)

    def create(self, name: str, partitions: int) -> Any:
        topic = create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        done = self.client.call(create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics[0]
        if not done.error_code:
            self.until(lambda: sum(map(len, self.by_directory(name).values())) == partitions)
        return [done.error_code, done.error_message]

    def alter(self, moves: Mapping[tuple[str, int], str]) -> list[Any]:
        dirs = [
            alter_replica_log_dirs.AlterReplicaLogDir(
                path=self.path(name),
                topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name=topic, partitions=[partition])],
            )
            for (topic, partition), name in moves.items()
        ]
        answer = self.client.call(alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=dirs))
        return sorted(partition.error_code for topic in answer.results for partition in topic.partitions)

    def described(self, topics: tuple[str, ...] | None = None) -> dict[str, Any]:
        wanted = None
        if topics is not None:
            wanted = [describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=[0]) for name in topics]
        answer = self.client.call(describe_log_dirs.DescribeLogDirsRequest(topics=wanted))
        return {
            directory.log_dir[-1]: {
                "error": directory.error_code,
                "topics": [
                    [topic.name, part.partition_index, part.is_future_key] for topic, part in _partitions(directory)
                ],
                "has_size": directory.total_bytes > 0,
                "is_cordoned": directory.is_cordoned,
            }
            for directory in sorted(answer.results, key=lambda directory: str(directory.log_dir))
        }

    def by_directory(self, topic: str) -> dict[str, list[int]]:
        found = {
            name: sorted(number for topic_name, number, future in entry["topics"] if topic_name == topic and not future)
            for name, entry in self.described().items()
        }
        return {name: numbers for name, numbers in found.items() if numbers}

    def where(self, topic: str, partition: int) -> str:
        return next(name for name, numbers in self.by_directory(topic).items() if partition in numbers)

    def futures(self) -> dict[tuple[str, int], str]:
        return {
            (topic, number): name
            for name, entry in self.described().items()
            for topic, number, future in entry["topics"]
            if future
        }

    def produce(self, topic: str, partition: int, value: bytes) -> int:
        records = build_batch([Record(0, int(time.time() * 1000), None, value)])  # Retention keeps the segment.
        data = produce.PartitionProduceData(index=partition, records=records)
        request = produce.ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[produce.TopicProduceData(name=topic, partition_data=[data])]
        )
        return int(self.client.call(request, 11).responses[0].partition_responses[0].error_code)

    def read(self, topic: str, partition: int) -> list[int]:
        """Fetch. Return the error and the number of bytes."""
        wanted = fetch.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
        request = fetch.FetchRequest(
            max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=[fetch.FetchTopic(topic=topic, partitions=[wanted])]
        )
        fetched = self.client.call(request, 11).responses[0].partitions[0]
        return [int(fetched.error_code), len(fetched.records or b"")]

    def offsets(self, topic: str, partition: int) -> list[int]:
        found = []
        for timestamp in (-2, -1):
            part = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            request = list_offsets.ListOffsetsRequest(
                replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[part])]
            )
            found.append(int(self.client.call(request, 7).topics[0].partitions[0].offset))
        return found

    def leader(self, topic: str, partition: int) -> list[Any]:
        """Return leader, ISR, offline replicas and error."""
        wanted = metadata.MetadataRequestTopic(topic_id=Uuid.ZERO, name=topic)
        answer = self.client.call(metadata.MetadataRequest(topics=[wanted]))
        state = next(candidate for candidate in answer.topics[0].partitions if candidate.partition_index == partition)
        return [state.leader_id, list(state.isr_nodes), list(state.offline_replicas), state.error_code]

    def configure(self, values: Mapping[str, str | None], broker: str = "1") -> int:
        configs = [
            incremental_alter_configs.AlterableConfig(name=name, config_operation=1 if text is None else 0, value=text)
            for name, text in values.items()
        ]
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=4, resource_name=broker, configs=configs
        )
        answer = self.client.call(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]))
        return int(answer.responses[0].error_code)


def _partitions(answer: Any) -> Iterator[tuple[Any, Any]]:
    for topic in sorted(answer.topics, key=lambda topic: str(topic.name)):
        for part in sorted(topic.partitions, key=lambda part: int(part.partition_index)):
            yield topic, part
