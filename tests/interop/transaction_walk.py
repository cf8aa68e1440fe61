"""A random walk through the requests of transactions, drawn from a seed: the same one for every node.

What a step sends depends on the node only through its earlier answers (ids and epochs). Producer ids are shown by the
order in which they appeared, so two nodes that decide alike tell the same story.
"""

from __future__ import annotations

import time
from contextlib import closing
from random import Random
from typing import Any, NamedTuple

from barnabas.common.error_code import ErrorCode
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.interop.raw_client import RawClient

__all__ = ["Step", "walk"]

PARTITIONS = 2
_SETTLE_S = 20.0
_PREPARED = ("PrepareCommit", "PrepareAbort")


class Step(NamedTuple):
    what: str
    answer: str


class _Producer:
    """What is known of a transactional id's producers: (id, epoch) in the order of the answers."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.sequences: dict[tuple[int, int, int], int] = {}

    def learn(self, producer_id: int, epoch: int) -> None:
        if producer_id >= 0 and (not self.seen or self.seen[-1] != (producer_id, epoch)):
            self.seen.append((producer_id, epoch))


class _Walk:
    def __init__(self, client: RawClient, seed: int) -> None:
        self.client = client
        self.random = Random(seed)
        self.prefix = f"walk-{seed}"
        self.topic = f"{self.prefix}-records"
        self.ids = [f"{self.prefix}-{number}" for number in range(3)]
        self.group = f"{self.prefix}-group"
        self.producers = {name: _Producer() for name in self.ids}
        self.names: dict[int, str] = {-1: "none"}
        self.steps: list[Step] = []

    # --- set-up

    def prepare(self) -> None:
        topic = CreatableTopic(name=self.topic, num_partitions=PARTITIONS, replication_factor=1)
        self.client.call(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7)
        for key_type, key in ((1, self.ids[0]), (0, self.group)):
            self._until(
                lambda key_type=key_type, key=key: (
                    self.client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
                    .coordinators[0]
                    .error_code
                    == 0
                )
            )
        for name in self.ids:
            self._until(lambda name=name: self._describe(name).error_code not in (14, 15, 16))
        self._until(lambda: self._fetch_offsets().error_code not in (14, 15, 16))
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False)
        found: list[Any] = []

        def has_leaders() -> bool:
            found[:] = self.client.call(wanted, 12).topics
            return all(partition.leader_id >= 0 for partition in found[0].partitions) and bool(found[0].partitions)

        self._until(has_leaders)
        self.topic_id = found[0].topic_id

    def _until(self, is_true: Any) -> None:
        deadline = time.monotonic() + _SETTLE_S
        while not is_true():
            assert time.monotonic() < deadline, "the node did not settle"
            time.sleep(0.02)

    def _settle(self) -> None:
        """Wait for the markers of ended transactions."""
        self._until(lambda: all(self._describe(name).transaction_state not in _PREPARED for name in self.ids))

    # --- steps

    def run(self, count: int) -> list[Step]:
        kinds = ["init"] * 4 + ["add"] * 6 + ["add for broker"] * 3 + ["end"] * 7 + ["produce"] * 6
        kinds += ["offsets"] * 2 + ["commit offsets"] * 4 + ["list", "producers", "fetch offsets"]
        for _ in range(count):
            kind = self.random.choice(kinds)
            name = self.random.choice(self.ids)
            self.steps.append(self._take(kind, name))
            self._settle()
            self.steps.append(Step("state", self._describe_step(name)))
        return self.steps

    def _take(self, kind: str, name: str) -> Step:
        if kind == "fetch offsets":
            return Step(kind, self._fetch_offsets_step())
        taken: Step = getattr(self, "_" + kind.replace(" ", "_"))(name)
        return taken

    def _pick(self, name: str) -> tuple[int, int]:
        """Return an id and an epoch: mostly the present ones, else older or impossible ones."""
        seen = self.producers[name].seen
        if not seen:
            return 987654, 0
        kind = self.random.random()
        producer_id, epoch = seen[-1]
        if kind < 0.75:
            return producer_id, epoch
        if kind < 0.87 and len(seen) > 1:
            return seen[-2]
        if kind < 0.93:
            return producer_id, epoch + 1
        if kind < 0.97:
            return producer_id, max(epoch - 1, 0)
        return producer_id + 1000, epoch

    def _shown(self, producer_id: int) -> str:
        return self.names.setdefault(producer_id, f"producer {len(self.names)}")

    def _who(self, name: str, producer: tuple[int, int]) -> str:
        return f"{name} {self._shown(producer[0])}/{producer[1]}"

    def _init(self, name: str) -> Step:
        version = self.random.choice([0, 1, 2, 3, 4, 5])
        timeout_ms = self.random.choice([60_000] * 8 + [0, -1, 900_001])
        expected = (-1, -1)
        if version >= 3 and self.random.random() < 0.5:
            expected = self._pick(name)
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = self.client.call(request, version)
        while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # Kafka has no block of producer ids yet.
            time.sleep(0.02)
            answer = self.client.call(request, version)
        if answer.error_code == 0:
            self.producers[name].learn(answer.producer_id, answer.producer_epoch)
        what = f"init v{version} {self._who(name, expected)} timeout {timeout_ms}"
        return Step(what, f"{_code(answer)} {self._shown(answer.producer_id)}/{answer.producer_epoch}")

    def _topics(self) -> list[AddPartitionsToTxnTopic]:
        partitions = self.random.sample(range(PARTITIONS), self.random.randint(1, PARTITIONS))
        topics = [AddPartitionsToTxnTopic(name=self.topic, partitions=sorted(partitions))]
        odd = self.random.random()
        if odd < 0.07:
            topics.append(AddPartitionsToTxnTopic(name="no-such-topic", partitions=[0]))
        elif odd < 0.1:
            topics.append(AddPartitionsToTxnTopic(name="__consumer_offsets", partitions=[0]))
        return topics

    def _add(self, name: str) -> Step:
        version, producer, topics = self.random.randint(0, 3), self._pick(name), self._topics()
        answer = self.client.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            ),
            version,
        )
        shown = _results(answer.results_by_topic_v3_and_below)
        return Step(f"add v{version} {self._who(name, producer)} {_wanted(topics)}", shown)

    def _add_for_broker(self, name: str) -> Step:
        version, producer, topics = self.random.randint(4, 5), self._pick(name), self._topics()
        verify_only = self.random.random() < 0.5
        answer = self.client.call(
            AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnTransaction(
                        transactional_id=name,
                        producer_id=producer[0],
                        producer_epoch=producer[1],
                        verify_only=verify_only,
                        topics=topics,
                    )
                ]
            ),
            version,
        )
        shown = "; ".join(_results(result.topic_results) for result in answer.results_by_transaction)
        what = "verify" if verify_only else "add"
        return Step(f"{what} for broker v{version} {self._who(name, producer)} {_wanted(topics)}", shown)

    def _end(self, name: str) -> Step:
        version, producer, committed = self.random.randint(0, 5), self._pick(name), self.random.random() < 0.6
        answer = self.client.call(
            EndTxnRequest(
                transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=committed
            ),
            version,
        )
        if version >= 5 and answer.error_code == 0:
            self.producers[name].learn(answer.producer_id, answer.producer_epoch)
        what = f"{'commit' if committed else 'abort'} v{version} {self._who(name, producer)}"
        return Step(what, f"{_code(answer)} {self._shown(answer.producer_id)}/{answer.producer_epoch}")

    def _produce(self, name: str) -> Step:
        version = self.random.choice([9, 10, 11, 12, 13])
        producer, partition = self._pick(name), self.random.randrange(PARTITIONS)
        if producer not in self.producers[name].seen:
            # Kafka keeps the sequence of a refused batch in a later epoch, and refuses the real producer's next batch.
            producer = (987654, 0)
        sequences = self.producers[name].sequences
        key = (*producer, partition)
        sequence = sequences.get(key, 0)
        batch = build_batch(
            [Record(0, 1_700_000_000_000, None, b"value", ())],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        data = [PartitionProduceData(index=partition, records=batch)]
        topic = TopicProduceData(topic_id=self.topic_id, partition_data=data)
        if version < 13:
            topic = TopicProduceData(name=self.topic, partition_data=data)
        request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=[topic])
        result = self.client.call(request, version).responses[0].partition_responses[0]
        while result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # The topic is new.
            time.sleep(0.02)
            result = self.client.call(request, version).responses[0].partition_responses[0]
        if result.error_code == 0:
            sequences[key] = sequence + 1
        what = f"produce v{version} {self._who(name, producer)} to {partition} sequence {sequence}"
        return Step(what, f"{_code(result)} at {result.base_offset}")

    def _offsets(self, name: str) -> Step:
        version, producer = self.random.randint(0, 4), self._pick(name)
        answer = self.client.call(
            AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], group_id=self.group
            ),
            version,
        )
        return Step(f"add offsets v{version} {self._who(name, producer)}", _code(answer))

    def _commit_offsets(self, name: str) -> Step:
        version, producer = self.random.randint(0, 5), self._pick(name)
        topics = [self.topic] if self.random.random() < 0.9 else [self.topic, "no-such-topic"]
        offset = self.random.randrange(100)
        generation_id = 7 if version >= 3 and self.random.random() < 0.1 else -1
        answer = self.client.call(
            TxnOffsetCommitRequest(
                transactional_id=name,
                group_id=self.group,
                producer_id=producer[0],
                producer_epoch=producer[1],
                generation_id=generation_id,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            TxnOffsetCommitRequestPartition(
                                partition_index=0, committed_offset=offset, committed_metadata="m"
                            )
                        ],
                    )
                    for topic in topics
                ],
            ),
            version,
        )
        shown = ", ".join(
            f"{topic.name.removeprefix(self.prefix)}-{item.partition_index} {_code(item)}"
            for topic in sorted(answer.topics, key=lambda topic: topic.name)
            for item in topic.partitions
        )
        return Step(f"commit offsets v{version} {self._who(name, producer)} {offset} of {topics}", shown)

    def _describe(self, name: str) -> Any:
        return self.client.call(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states[0]

    def _describe_step(self, name: str) -> str:
        found = self._describe(name)
        if found.error_code:
            return _code(found)
        topics = sorted((topic.topic, sorted(topic.partitions)) for topic in found.topics)
        has_start = found.transaction_start_time_ms >= 0
        return (
            f"{_code(found)} {found.transaction_state} {self._shown(found.producer_id)}/{found.producer_epoch} "
            f"timeout {found.transaction_timeout_ms} started {has_start} {topics}"
        )

    def _list(self, name: str) -> Step:
        states = self.random.choice([[], ["Ongoing"], ["CompleteCommit", "Empty"], ["NoSuchState"]])
        answer = self.client.call(ListTransactionsRequest(state_filters=states), 1)
        listed = sorted(
            f"{item.transactional_id} {self._shown(item.producer_id)} {item.transaction_state}"
            for item in answer.transaction_states
            if item.transactional_id in self.ids
        )
        return Step(f"list {states}", f"{_code(answer)} {answer.unknown_state_filters} {listed}")

    def _producers(self, name: str) -> Step:
        wanted = [TopicRequest(name=self.topic, partition_indexes=list(range(PARTITIONS)))]
        answer = self.client.call(DescribeProducersRequest(topics=wanted), 0)
        shown = [
            f"{item.partition_index} {_code(item)} "
            + str(
                sorted(
                    f"{self._shown(found.producer_id)}/{found.producer_epoch} {found.last_sequence} "
                    f"{found.current_txn_start_offset}"
                    for found in item.active_producers
                )
            )
            for item in sorted(answer.topics[0].partitions, key=lambda item: item.partition_index)
        ]
        return Step("producers", "; ".join(shown))

    def _fetch_offsets(self) -> Any:
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=self.group, topics=topics)
        return self.client.call(OffsetFetchRequest(groups=[group], require_stable=True), 9).groups[0]

    def _fetch_offsets_step(self) -> str:
        found = self._fetch_offsets()
        partition = found.topics[0].partitions[0] if found.topics else None
        return f"{_code(found)} {partition and (_code(partition), partition.committed_offset)}"


def _code(answer: Any) -> str:
    return ErrorCode(answer.error_code).name


def _wanted(topics: list[AddPartitionsToTxnTopic]) -> str:
    return ", ".join(f"{topic.name}{topic.partitions}" for topic in topics)


def _results(topics: Any) -> str:
    return ", ".join(
        sorted(
            f"{topic.name}-{item.partition_index} {ErrorCode(item.partition_error_code).name}"
            for topic in topics
            for item in topic.results_by_partition
        )
    )


def walk(port: int, seed: int, count: int) -> list[Step]:
    """Take ``count`` steps, and after each of them describe the state of its transactional id."""
    with closing(RawClient(port, timeout_s=30)) as client:
        walker = _Walk(client, seed)
        walker.prepare()
        return walker.run(count)
