"""Fetch sessions over real partition logs: which partitions an incremental fetch returns, and which it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.broker.apis import fetch as fetch_module
from barnabas.broker.apis.fetch import handle_fetch
from barnabas.broker.fetch_session import FetchSessionCache
from barnabas.broker.partition import Partition
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.network.api_handler import Access
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_manager import LogManager
from barnabas.storage.partition_log import PartitionLog

NOW = 1_750_000_000_000
TOPIC, TOPIC_ID = "orders", Uuid.from_int(5)
COUNT = 4


class Clock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_ms(self) -> int:
        return 0


class Rights(Authorizer):
    """Allows everything except what ``denied`` contains."""

    def __init__(self) -> None:
        self.denied: set[str] = set()

    def authorize(
        self,
        context: Any,
        operation: Any,
        resource_type: Any,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        return resource_name not in self.denied

    def filter_authorized(self, context: Any, operation: Any, resource_type: Any, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.denied]


class Client:
    """A broker with one topic, and a client with one fetch session on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pool = FilePool(100)
        self.rights = Rights()
        self.replicas = ReplicaManager(
            broker_id=1, logs=LogManager(["unused"]), clock=Clock(), defaults=TopicConfig({})
        )
        for index in range(COUNT):
            partition = Partition(TopicPartition(TOPIC, index), TOPIC_ID, self.create_log)
            partition.update(registration())
            self.replicas.partitions[partition.topic_partition] = partition
        self.topics = {TOPIC_ID: TOPIC}
        self.replicas.topic_name = lambda topic_id: self.topics.get(topic_id)  # type: ignore[method-assign]
        self.sessions = FetchSessionCache(slots=2, eviction_ms=1000, new_session_id=lambda: 7)
        self.broker = SimpleNamespace(
            replicas=self.replicas,
            quotas=None,
            fetch_sessions=self.sessions,
            clock=Clock(),
            settings=SimpleNamespace(fetch_max_bytes=10_000_000),
        )
        self.epoch = 0

    def create_log(self, partition: Partition) -> PartitionLog:
        return PartitionLog.create(
            str(self.directory / str(partition.topic_partition)),
            partition.topic_partition,
            topic_id=partition.topic_id,
            config=TopicConfig({}),
            pool=self.pool,
            now_ms=NOW,
        )

    def partition(self, index: int) -> Partition:
        return self.replicas.partitions[TopicPartition(TOPIC, index)]

    def produce(self, index: int, count: int = 1) -> None:
        batch = build_batch([Record(i, NOW, None, b"value") for i in range(count)])
        self.replicas.append(self.partition(index), batch, requires_all_in_sync=False)

    def send(
        self,
        wanted: dict[int, int] | None = None,
        *,
        forget: Sequence[int] = (),
        max_wait_ms: int = 0,
        committed: bool = False,
        max_bytes: int = 10_000_000,
        leader_epoch: int = 0,
    ) -> FetchResponse | Awaitable[FetchResponse]:
        partitions = [
            FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=9999, current_leader_epoch=leader_epoch)
            for p, o in (wanted or {}).items()
        ]
        request = FetchRequest(
            session_id=7 if self.epoch else 0,
            session_epoch=self.epoch,
            min_bytes=1,
            max_wait_ms=max_wait_ms,
            max_bytes=max_bytes,
            isolation_level=int(committed),
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=list(forget))] if forget else [],
        )
        self.epoch += 1
        context = RequestContext(api_key=ApiKey.FETCH, api_version=15, correlation_id=1)
        rules = handle_fetch.api_handler.acl  # type: ignore[attr-defined]
        return handle_fetch(cast("Any", self.broker), request, Access(cast("Any", self.rights), context, rules))

    def fetch(self, wanted: dict[int, int] | None = None, **options: Any) -> dict[int, int]:
        """Return the partitions in the response, with their error codes."""
        answer = self.send(wanted, **options)
        assert isinstance(answer, FetchResponse)
        return mentioned(answer)

    def answers(self, wanted: dict[int, int], *, leader_epoch: int) -> list[PartitionData]:
        """Return the partitions of a fetch without a session."""
        self.epoch = -1
        answer = self.send(wanted, leader_epoch=leader_epoch)
        assert isinstance(answer, FetchResponse)
        return [partition for topic in answer.responses for partition in topic.partitions]


def mentioned(answer: FetchResponse) -> dict[int, int]:
    assert answer.error_code == 0
    return {p.partition_index: p.error_code for topic in answer.responses for p in topic.partitions}


def registration(leader: int = 1, leader_epoch: int = 0) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=(1,), directories=(Uuid.ZERO,), isr=(1,), leader=leader, leader_epoch=leader_epoch
    )


@pytest.fixture
def client(tmp_path: Path) -> Client:
    made = Client(tmp_path)
    assert made.fetch(dict.fromkeys(range(COUNT), 0)) == dict.fromkeys(range(COUNT), 0)
    return made


@pytest.fixture
def reads(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that were read, as a live list."""
    seen: list[int] = []
    original = fetch_module._read

    def read(partition: Partition, *args: Any, **options: Any) -> bool:
        seen.append(partition.topic_partition.partition)
        return original(partition, *args, **options)

    monkeypatch.setattr(fetch_module, "_read", read)
    return seen


def test_a_poll_without_changes_reads_no_partition(client: Client, reads: list[int]) -> None:
    assert client.fetch() == {}
    assert reads == []


def test_a_poll_reads_only_what_changed(client: Client, reads: list[int]) -> None:
    client.produce(2)
    assert client.fetch() == {2: 0}
    assert reads == [2]
    client.produce(3)
    assert client.fetch({2: 1}) == {3: 0}
    assert reads == [2, 3, 2]  # The partition that was served last comes last.
    assert client.fetch({3: 1}) == {}
    assert client.fetch() == {}
    assert reads == [2, 3, 2, 3]


def test_data_that_the_client_did_not_receive_is_sent_again(client: Client) -> None:
    client.produce(1)
    assert client.fetch() == {1: 0}
    assert client.fetch() == {1: 0}


def test_data_that_did_not_fit_is_returned_by_the_next_poll(client: Client) -> None:
    client.produce(0)
    client.produce(1)
    # The high watermark of the second partition changed, but its data does not fit.
    first = client.send(max_bytes=1)
    assert isinstance(first, FetchResponse)
    assert [bool(p.records) for p in first.responses[0].partitions] == [True, False]
    second = client.send({0: 1}, max_bytes=1)
    assert isinstance(second, FetchResponse)
    assert [(p.partition_index, bool(p.records)) for p in second.responses[0].partitions] == [(1, True)]


def test_a_new_log_start_offset_is_returned(client: Client) -> None:
    client.produce(1, 3)
    client.fetch({1: 3})
    assert client.fetch() == {}
    client.partition(1).log.delete_records_before(2, now_ms=NOW)
    assert client.fetch() == {1: 0}
    assert client.fetch() == {}


def test_an_error_about_another_leader_is_returned_until_this_broker_leads(client: Client) -> None:
    client.partition(3).update(registration(leader=2, leader_epoch=1))
    for _ in range(2):
        assert client.fetch() == {3: ErrorCode.FENCED_LEADER_EPOCH}
    client.partition(3).update(registration(leader=1, leader_epoch=2))
    assert client.fetch() == {3: ErrorCode.FENCED_LEADER_EPOCH}
    assert client.fetch({3: 0}, leader_epoch=2) == {3: 0}
    assert client.fetch() == {}


def test_a_follower_serves_consumers_only_in_versions_that_support_it(client: Client) -> None:
    client.produce(3)
    client.partition(3).update(registration(leader=2, leader_epoch=1))
    assert client.fetch({3: 0}, leader_epoch=1) == {3: 0}
    assert client.fetch({3: 1}, leader_epoch=1) == {}
    with pytest.raises(ApiException) as old:
        client.replicas.leader_of(TopicPartition(TOPIC, 3), 1)
    assert old.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_returns_records_up_to_its_high_watermark(client: Client) -> None:
    """Later offsets are not out of range: the leader may have committed them, and the follower will learn of it."""
    client.produce(3, count=5)
    log = client.partition(3).log
    client.partition(3).update(registration(leader=2, leader_epoch=1))
    batch = build_batch([Record(5, NOW, None, b"value")], base_offset=5, leader_epoch=1)
    log.append_as_follower(batch, now_ms=NOW, leader_epoch=1)
    assert (log.high_watermark, log.log_end_offset) == (5, 6)
    for offset, error in ((5, 0), (6, 0), (7, ErrorCode.OFFSET_OUT_OF_RANGE)):
        (partition,) = client.answers({3: offset}, leader_epoch=1)
        assert (partition.error_code, partition.records) == (error, b"")
    (partition,) = client.answers({3: 0}, leader_epoch=1)
    assert partition.high_watermark == 5
    log.maybe_advance_high_watermark(6)
    (partition,) = client.answers({3: 5}, leader_epoch=1)
    assert partition.records


def test_an_unreadable_disk_is_an_error_of_its_partition_and_is_taken_out_of_use(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PartitionLog.read

    def read_or_fail(log: PartitionLog, *args: Any, **options: Any) -> Any:
        if log.topic_partition.partition == 1:
            raise OSError(5, "Input/output error")
        return read(log, *args, **options)

    logs = client.replicas.logs = LogManager([str(client.directory)])
    logs.table.add(client.partition(1).log, logs.directories.all[0])
    for index in range(2):
        client.produce(index)
    monkeypatch.setattr(PartitionLog, "read", read_or_fail)
    assert client.fetch({0: 0, 1: 0}) == {0: 0, 1: ErrorCode.KAFKA_STORAGE_ERROR}
    failure = logs.directories.failures.take()
    assert failure is not None
    assert failure[0] == str(client.directory)


def test_a_deleted_partition_is_reported(client: Client) -> None:
    client.replicas.partitions.pop(TopicPartition(TOPIC, 0)).notify(0)
    assert client.fetch() == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    del client.topics[TOPIC_ID]
    assert client.fetch() == {0: ErrorCode.UNKNOWN_TOPIC_ID}


def test_a_lost_right_and_its_return_are_reported(client: Client) -> None:
    client.rights.denied.add(TOPIC)
    assert client.fetch() == dict.fromkeys(range(COUNT), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    client.rights.denied.clear()
    assert client.fetch() == dict.fromkeys(range(COUNT), 0)
    assert client.fetch() == {}


def test_another_isolation_level_reads_everything_again(client: Client, reads: list[int]) -> None:
    assert client.fetch(committed=True) == {}
    assert reads == list(range(COUNT))
    assert client.fetch(committed=True) == {}
    assert len(reads) == COUNT


def test_a_forgotten_partition_is_not_watched_any_longer(client: Client) -> None:
    assert client.fetch(forget=[1]) == {}
    assert client.partition(1).watchers is None
    client.produce(1)
    assert client.fetch() == {}


def test_a_closed_session_watches_nothing(client: Client) -> None:
    client.epoch = -1
    assert client.sessions.partition_count() == COUNT
    request = FetchRequest(session_id=7, session_epoch=-1)
    client.sessions.context(request, 15, NOW, is_follower=False)
    assert [client.partition(index).watchers for index in range(COUNT)] == [None] * COUNT


def test_a_waiting_poll_is_woken_by_new_records_and_by_a_lost_partition(client: Client) -> None:
    async def scenario() -> None:
        def produce() -> None:
            client.produce(2)

        def lose_leadership() -> None:
            client.partition(3).update(registration(leader=2, leader_epoch=1))

        for change, expected in ((produce, {2: 0}), (lose_leadership, {3: ErrorCode.FENCED_LEADER_EPOCH})):
            waiting = client.send(max_wait_ms=60_000)
            assert not isinstance(waiting, FetchResponse)
            task = asyncio.ensure_future(waiting)
            await asyncio.sleep(0)
            assert not task.done()
            change()
            assert mentioned(await task) == expected
            client.fetch({2: 1})

    asyncio.run(scenario())


@pytest.mark.parametrize("has_session", [True, False])
def test_records_that_arrive_before_a_poll_begins_to_wait_wake_it(client: Client, has_session: bool) -> None:
    """The wait is a task: requests of other connections are handled before its first turn."""

    async def scenario() -> None:
        if not has_session:
            client.epoch = -1
        waiting = client.send({2: 0}, max_wait_ms=60_000)
        assert not isinstance(waiting, FetchResponse)
        client.produce(2)
        async with asyncio.timeout(5):
            assert mentioned(await waiting)[2] == 0
        await asyncio.sleep(0)
        assert client.partition(2).listeners is None

    asyncio.run(scenario())


def test_a_poll_whose_client_left_leaves_nothing_behind(client: Client) -> None:
    async def scenario() -> None:
        client.epoch = -1
        waiting = client.send({2: 0}, max_wait_ms=60_000)
        assert not isinstance(waiting, FetchResponse)
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert client.partition(2).listeners is None

    asyncio.run(scenario())


@pytest.fixture
def in_turns(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each partition a turn of the loop."""
    monkeypatch.setattr(fetch_module, "_AT_ONCE", 1)
    monkeypatch.setattr(fetch_module, "_STEP", 1)
    monkeypatch.setattr(fetch_module, "pause_after", lambda busy_s: 0)


async def after_turns(task: asyncio.Future[FetchResponse], count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
    assert not task.done()


@pytest.mark.usefixtures("in_turns")
@pytest.mark.parametrize("has_session", [True, False])
def test_new_records_in_a_partition_already_read_wake_a_poll_in_turns(
    client: Client, reads: list[int], has_session: bool
) -> None:
    async def scenario() -> None:
        client.epoch = client.epoch if has_session else -1
        waiting = client.send(dict.fromkeys(range(COUNT), 0), max_wait_ms=60_000)
        assert not isinstance(waiting, FetchResponse)
        task = asyncio.ensure_future(waiting)
        await after_turns(task, 3)
        assert 1 <= len(reads) < COUNT
        client.produce(0)
        async with asyncio.timeout(5):
            answer = await task
        records = {p.partition_index: p.records for topic in answer.responses for p in topic.partitions}
        assert records[0]
        await asyncio.sleep(0)
        assert client.partition(0).listeners is None

    asyncio.run(scenario())


@pytest.mark.usefixtures("in_turns")
def test_records_that_arrive_while_others_are_read_are_in_the_next_response(client: Client, reads: list[int]) -> None:
    """A partition without data when it was read is read again, although the response says so."""

    async def scenario() -> None:
        waiting = client.send(dict.fromkeys(range(COUNT), 0))
        assert not isinstance(waiting, FetchResponse)
        task = asyncio.ensure_future(waiting)
        await after_turns(task, 3)
        assert 1 <= len(reads) < COUNT
        client.produce(0)
        await task
        assert client.fetch() == {0: 0}

    asyncio.run(scenario())


@pytest.mark.usefixtures("in_turns")
@pytest.mark.parametrize("has_session", [True, False])
def test_a_poll_in_turns_whose_client_left_leaves_nothing_behind(client: Client, has_session: bool) -> None:
    async def scenario() -> None:
        client.epoch = client.epoch if has_session else -1
        waiting = client.send(dict.fromkeys(range(COUNT), 0), max_wait_ms=60_000)
        assert not isinstance(waiting, FetchResponse)
        task = asyncio.ensure_future(waiting)
        await after_turns(task, 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert [client.partition(index).listeners for index in range(COUNT)] == [None] * COUNT
        assert all(not session._listeners for session in client.sessions._sessions.values())

    asyncio.run(scenario())


def test_a_consumer_of_many_unreadable_partitions_has_no_session(tmp_path: Path) -> None:
    client, useless = Client(tmp_path), range(COUNT, COUNT + 101)
    answer = client.send(dict.fromkeys((*range(COUNT), *useless), 0))
    assert isinstance(answer, FetchResponse)
    assert answer.session_id == 0
    assert mentioned(answer).keys() == {*range(COUNT), *useless}
    assert len(client.sessions) == 0
    assert [client.partition(index).watchers for index in range(COUNT)] == [None] * COUNT
    client.epoch = 0
    fewer = client.send(dict.fromkeys((*range(COUNT), *useless[1:]), 0))
    assert isinstance(fewer, FetchResponse)
    assert fewer.session_id == 7


def test_a_session_ends_when_too_many_partitions_are_unreadable(client: Client) -> None:
    answer = client.send(dict.fromkeys(range(COUNT, COUNT + 101), 0))
    assert isinstance(answer, FetchResponse)
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert len(mentioned(answer)) == 101
    assert len(client.sessions) == 0


@pytest.mark.parametrize("count", [501, 2_000])
def test_a_session_of_many_partitions_whose_client_left_is_not_kept(tmp_path: Path, count: int) -> None:
    client = Client(tmp_path)

    async def scenario() -> None:
        waiting = client.send(dict.fromkeys(range(count), 0), max_wait_ms=60_000)
        assert not isinstance(waiting, FetchResponse)
        task = asyncio.ensure_future(waiting)
        async with asyncio.timeout(5):
            while client.sessions.partition_count() != count:
                await asyncio.wait([task], timeout=0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(client.sessions) == 0

    asyncio.run(scenario())


def test_many_partitions_are_answered_in_turns(tmp_path: Path) -> None:
    """The loop serves others between some hundred partitions, while decoding, reading and answering."""
    client, ticks = Client(tmp_path), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def scenario(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fetch_module, "pause_after", lambda busy_s: 0)
        waiting = client.send(dict.fromkeys(range(5_000), 0))
        assert not isinstance(waiting, FetchResponse)
        ticker = asyncio.ensure_future(tick())
        answer = await asyncio.ensure_future(waiting)
        ticker.cancel()
        assert len(mentioned(answer)) == 5_000

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(scenario(monkeypatch))
    assert ticks > 10 + 50 + 5
