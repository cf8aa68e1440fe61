"""Unmodified Python clients against our node: create, produce, consume in a group that rebalances, commit, restart the
node in between, delete.

Each client runs the same steps through a small adapter, so that a step that one of them cannot do stands out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Protocol

import pytest

from barnabas.testing import Node

pytestmark = [
    pytest.mark.interop,
    # Warnings of the client libraries are not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

RECORDS = 300


class Adapter(Protocol):
    """One client library, blocking."""

    def create(self, topic: str, partitions: int) -> None: ...

    def produce(self, topic: str, start: int, end: int) -> None: ...

    def consume(self, topic: str, group: str, count: int) -> list[int]:
        """Read ``count`` records as a member of the group, commit and leave. Return the numbers in the values."""
        ...

    def consume_with_two_members(self, topic: str, group: str, count: int) -> tuple[list[int], set[int], set[int]]:
        """Two members share the partitions. Return the records read, and the final partitions of each member."""
        ...

    def committed(self, topic: str, group: str, partitions: int) -> int:
        """The sum of the committed offsets."""
        ...

    def delete(self, topic: str) -> None: ...

    def topics(self) -> set[str]: ...


def value(number: int) -> bytes:
    return b"%06d" % number


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        from kafka import KafkaAdminClient

        self._bootstrap = bootstrap
        self._admin = KafkaAdminClient

    def create(self, topic: str, partitions: int) -> None:
        from kafka.admin import NewTopic

        with closing(self._admin(bootstrap_servers=self._bootstrap)) as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)])

    def produce(self, topic: str, start: int, end: int) -> None:
        from kafka import KafkaProducer

        with closing(KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", compression_type="gzip")) as producer:
            sent = [producer.send(topic, key=value(n), value=value(n)) for n in range(start, end)]
            producer.flush()
            assert all(future.get(10).offset >= 0 for future in sent)

    def _consumer(self, topic: str, group: str) -> Any:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=50,
        )
        # The client may assign partitions before it has metadata, and then waits minutes for the next refresh.
        consumer.partitions_for_topic(topic)
        consumer.subscribe([topic])
        return consumer

    def consume(self, topic: str, group: str, count: int) -> list[int]:
        with closing(self._consumer(topic, group)) as consumer:
            numbers = _read([consumer], count)
            self._commit(consumer, consumer.assignment())
            return numbers

    def _commit(self, consumer: Any, partitions: set[Any]) -> None:
        """Commit where the consumer stands. A rebalance refuses a commit until a poll has ended it."""
        from kafka.errors import RebalanceInProgressError
        from kafka.structs import OffsetAndMetadata

        reached = {partition: OffsetAndMetadata(consumer.position(partition), "", -1) for partition in partitions}
        deadline = time.monotonic() + 30
        while True:
            try:
                return consumer.commit(reached)
            except RebalanceInProgressError:
                if time.monotonic() > deadline:
                    raise
                consumer.poll(timeout_ms=200)

    def consume_with_two_members(self, topic: str, group: str, count: int) -> tuple[list[int], set[int], set[int]]:
        import threading

        numbers: list[int] = []
        stop = threading.Event()

        def run(consumer: Any) -> None:
            while not stop.is_set():
                for records in consumer.poll(timeout_ms=200).values():
                    numbers.extend(int(record.value) for record in records)

        with closing(self._consumer(topic, group)) as first, closing(self._consumer(topic, group)) as second:
            threads = [threading.Thread(target=run, args=(consumer,)) for consumer in (first, second)]
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and not (
                len(numbers) >= count and _shared(first.assignment(), second.assignment())
            ):
                time.sleep(0.05)
            stop.set()
            for thread in threads:
                thread.join()
            owned = [{tp.partition for tp in consumer.assignment()} for consumer in (first, second)]
        return sorted(set(numbers)), owned[0], owned[1]

    def committed(self, topic: str, group: str, partitions: int) -> int:
        with closing(self._admin(bootstrap_servers=self._bootstrap)) as admin:
            offsets = admin.list_group_offsets([group])[group] if hasattr(admin, "list_group_offsets") else {}
            if not offsets:
                offsets = admin.list_consumer_group_offsets(group)
        return sum(found.offset for tp, found in offsets.items() if tp.topic == topic and found.offset > 0)

    def delete(self, topic: str) -> None:
        with closing(self._admin(bootstrap_servers=self._bootstrap)) as admin:
            admin.delete_topics([topic])

    def topics(self) -> set[str]:
        with closing(self._admin(bootstrap_servers=self._bootstrap)) as admin:
            return set(admin.list_topics())


def _shared(first: Any, second: Any) -> bool:
    """Both members have partitions, and none has those of the other: the rebalance for the second one is over."""
    return bool(first and second and not set(first) & set(second))


def _read(consumers: list[Any], count: int) -> list[int]:
    numbers: list[int] = []
    deadline = time.monotonic() + 30
    while len(numbers) < count and time.monotonic() < deadline:
        for consumer in consumers:
            for records in consumer.poll(timeout_ms=200).values():
                numbers.extend(int(record.value) for record in records)
    return sorted(numbers)


class ConfluentKafka:
    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewTopic

        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)

    def produce(self, topic: str, start: int, end: int) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "compression.type": "lz4"}
        )
        failures: list[Any] = []
        for n in range(start, end):
            producer.produce(
                topic,
                key=value(n),
                value=value(n),
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(20) == 0
        assert failures == []

    def _consumer(self, group: str) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )

    def consume(self, topic: str, group: str, count: int) -> list[int]:
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        numbers: list[int] = []
        deadline = time.monotonic() + 30
        while len(numbers) < count and time.monotonic() < deadline:
            for message in consumer.consume(50, 0.2):
                assert message.error() is None
                numbers.append(int(message.value()))
        consumer.commit(asynchronous=False)
        consumer.close()
        return sorted(numbers)

    def consume_with_two_members(self, topic: str, group: str, count: int) -> tuple[list[int], set[int], set[int]]:
        consumers = [self._consumer(group) for _ in range(2)]
        for consumer in consumers:
            consumer.subscribe([topic])
        numbers: set[int] = set()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (
            len(numbers) >= count and _shared(*(consumer.assignment() for consumer in consumers))
        ):
            for consumer in consumers:
                numbers.update(int(m.value()) for m in consumer.consume(50, 0.1) if m.error() is None)
        owned = [{tp.partition for tp in consumer.assignment()} for consumer in consumers]
        for consumer in consumers:
            consumer.close()
        return sorted(numbers), owned[0], owned[1]

    def committed(self, topic: str, group: str, partitions: int) -> int:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(group)
        found = consumer.committed([TopicPartition(topic, p) for p in range(partitions)], 10)
        consumer.close()
        return sum(max(tp.offset, 0) for tp in found)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(20)

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=10).topics)


class AioKafka:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create(self, topic: str, partitions: int) -> None:
        from aiokafka.admin import NewTopic

        self._with_admin(lambda admin: admin.create_topics([NewTopic(topic, partitions, 1)]))

    def _with_admin(self, call: Any) -> Any:
        from aiokafka.admin import AIOKafkaAdminClient

        async def run() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await call(admin)
            finally:
                await admin.close()

        return asyncio.run(run())

    def produce(self, topic: str, start: int, end: int) -> None:
        from aiokafka import AIOKafkaProducer

        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap, enable_idempotence=True, compression_type="zstd"
            )
            await producer.start()
            sent = [await producer.send(topic, key=value(n), value=value(n)) for n in range(start, end)]
            await asyncio.gather(*sent)
            await producer.stop()

        asyncio.run(run())

    def _consumer(self, topic: str, group: str) -> Any:
        from aiokafka import AIOKafkaConsumer

        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=1000,
        )

    def consume(self, topic: str, group: str, count: int) -> list[int]:
        async def run() -> list[int]:
            consumer = self._consumer(topic, group)
            await consumer.start()
            numbers: list[int] = []
            deadline = time.monotonic() + 30
            while len(numbers) < count and time.monotonic() < deadline:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    numbers.extend(int(record.value) for record in records)
            await consumer.commit()
            await consumer.stop()
            return sorted(numbers)

        return asyncio.run(run())

    def consume_with_two_members(self, topic: str, group: str, count: int) -> tuple[list[int], set[int], set[int]]:
        async def run() -> tuple[list[int], set[int], set[int]]:
            consumers = [self._consumer(topic, group) for _ in range(2)]
            await asyncio.gather(*(consumer.start() for consumer in consumers))
            numbers: set[int] = set()
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and not (
                len(numbers) >= count and _shared(*(consumer.assignment() for consumer in consumers))
            ):
                for consumer in consumers:
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        numbers.update(int(record.value) for record in records)
            owned = [{tp.partition for tp in consumer.assignment()} for consumer in consumers]
            await asyncio.gather(*(consumer.stop() for consumer in consumers))
            return sorted(numbers), owned[0], owned[1]

        return asyncio.run(run())

    def committed(self, topic: str, group: str, partitions: int) -> int:
        offsets = self._with_admin(lambda admin: admin.list_consumer_group_offsets(group))
        return sum(found.offset for tp, found in offsets.items() if tp.topic == topic and found.offset > 0)

    def delete(self, topic: str) -> None:
        self._with_admin(lambda admin: admin.delete_topics([topic]))

    def topics(self) -> set[str]:
        return set(self._with_admin(lambda admin: admin.list_topics()))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "ERROR" not in started.log_path.read_text()
        assert "Traceback" not in started.log_path.read_text()


@pytest.fixture(params=[KafkaPython, ConfluentKafka, AioKafka], ids=lambda adapter: adapter.__name__)
def client(request: pytest.FixtureRequest, node: Node) -> Adapter:
    adapter: Adapter = request.param(node.bootstrap_servers)
    return adapter


@pytest.mark.timeout(180)
def test_a_client_works_from_start_to_close_across_a_restart(client: Adapter, node: Node) -> None:
    topic, group = f"story-{type(client).__name__}", f"group-{type(client).__name__}"
    client.create(topic, 4)
    client.produce(topic, 0, RECORDS)
    assert client.consume(topic, group, RECORDS) == list(range(RECORDS))
    assert client.committed(topic, group, 4) == RECORDS

    node.stop()
    node.start()

    assert client.committed(topic, group, 4) == RECORDS
    client.produce(topic, RECORDS, 2 * RECORDS)
    assert client.consume(topic, group, RECORDS) == list(range(RECORDS, 2 * RECORDS))

    numbers, first, second = client.consume_with_two_members(topic, f"{group}-shared", 2 * RECORDS)
    assert numbers == list(range(2 * RECORDS))
    assert first | second == {0, 1, 2, 3}
    assert not first & second

    client.delete(topic)
    deadline = time.monotonic() + 10
    while topic in client.topics() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert topic not in client.topics()
