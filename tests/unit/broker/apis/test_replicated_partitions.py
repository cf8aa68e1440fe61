"""Produce, Fetch of followers, DeleteRecords and ListOffsets on a partition with three replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.apis.delete_records import handle_delete_records
from barnabas.broker.apis.fetch import handle_fetch
from barnabas.broker.apis.list_offsets import handle_list_offsets
from barnabas.broker.apis.produce import handle_produce
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.segment import Segment
from tests.unit.broker.apis.replicated_broker import LAG_MS, TOPIC, TOPIC_ID, ReplicatedBroker, batch
from tests.unit.broker.replication.leader import EPOCHS, broker, cluster, registration

Story = Callable[[ReplicatedBroker], Awaitable[None]]


def tell(tmp_path: Path, story: Story, state: PartitionRegistration | None = None, **settings: object) -> None:
    async def main() -> None:
        world = ReplicatedBroker(tmp_path, state, **{name.replace("_", "."): value for name, value in settings.items()})
        try:
            await story(world)
        finally:
            world.close()

    asyncio.run(main())


class Follower:
    """A broker that fetches in a session, as far as it is told to."""

    def __init__(self, world: ReplicatedBroker, broker_id: int, *, epoch: int | None = None) -> None:
        self.world = world
        self.broker_id = broker_id
        self.epoch = EPOCHS[broker_id] if epoch is None else epoch
        self.session_id = self.session_epoch = 0

    async def fetch_without_session(self, offset: int) -> None:
        """A request of another connection; the session goes on."""
        session = self.session_id, self.session_epoch
        self.session_id, self.session_epoch = 0, -1
        await self.fetch(offset)
        self.session_id, self.session_epoch = session

    async def fetch(self, offset: int | None = None, *, max_wait_ms: int = 0, **asked: Any) -> PartitionData | None:
        """The answer of the partition, which is named with an offset only; None when it is not mentioned."""
        partition = FetchPartition(
            partition=0,
            fetch_offset=offset or 0,
            **{"partition_max_bytes": 99_999, "current_leader_epoch": 5, "log_start_offset": 0, **asked},
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.broker_id, replica_epoch=self.epoch),
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            min_bytes=1,
            max_wait_ms=max_wait_ms,
            topics=[] if offset is None else [FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )
        answer: FetchResponse = await self.world.ask(handle_fetch, request, 17)
        assert answer.error_code == 0
        self.session_id, self.session_epoch = answer.session_id, self.session_epoch + 1
        return answer.responses[0].partitions[0] if answer.responses else None


async def produce(world: ReplicatedBroker, count: int = 1, *, acks: int = -1, timeout_ms: int = 5_000) -> Any:
    data = PartitionProduceData(index=0, records=batch(count))
    request = ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    answer = await world.ask(handle_produce, request, 12)
    partition: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return partition


async def consume(world: ReplicatedBroker, offset: int) -> int:
    """The error of a consumer's fetch."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=99_999, current_leader_epoch=-1)
    request = FetchRequest(
        replica_id=-1, session_epoch=-1, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])]
    )
    answer: FetchResponse = await world.ask(handle_fetch, request, 17)
    return answer.responses[0].partitions[0].error_code


async def turn() -> None:
    """Let everybody do what can be done now."""
    for _ in range(10):
        await asyncio.sleep(0)


# Produce


def test_acks_all_is_answered_when_everybody_in_sync_has_the_records(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        producing = asyncio.ensure_future(produce(world, 5))
        await turn()
        await second.fetch(5)
        assert not producing.done()
        await third.fetch(5)
        answer = await producing
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert world.partition.log.high_watermark == 5

    tell(tmp_path, story)


def test_a_leadership_from_before_the_registration_of_this_process_takes_no_records(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        world.leader_replicas.follow_cluster(cluster(broker(1, epoch=EPOCHS[1] - 1)))
        assert (await produce(world, acks=1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert world.partition.log.log_end_offset == 0
        world.leader_replicas.follow_cluster(cluster())
        assert (await produce(world, acks=1)).error_code == 0

    tell(tmp_path, story)


def test_acks_1_waits_for_nobody(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        assert (await produce(world, acks=1)).error_code == 0
        assert world.partition.log.high_watermark == 0

    tell(tmp_path, story)


def test_acks_all_is_given_up_when_the_time_of_the_request_is_over(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        answer = await produce(world, timeout_ms=1)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)

    tell(tmp_path, story)


def test_acks_all_needs_enough_replicas_in_sync(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        assert (await produce(world)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert world.partition.log.log_end_offset == 0
        assert (await produce(world, acks=1)).error_code == 0

    tell(tmp_path, story, registration(1), min_insync_replicas=2)


def test_a_producer_hears_at_once_that_leadership_has_gone(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        producing = asyncio.ensure_future(produce(world))
        await turn()
        world.follow(registration(2, 3, leader=2, leader_epoch=6, partition_epoch=11))
        assert (await producing).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell(tmp_path, story)


# Fetch


def test_a_follower_reads_what_is_not_committed_and_a_consumer_does_not(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        world.append(3)
        told = await Follower(world, 2).fetch(0)
        assert told is not None
        assert told.records
        assert (told.high_watermark, told.last_stable_offset, told.log_start_offset) == (0, 0, 0)
        consumer = FetchRequest(
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=0, partition_max_bytes=9999)])]
        )
        answer = await world.ask(handle_fetch, consumer, 17)
        assert not answer.responses[0].partitions[0].records

    tell(tmp_path, story)


def test_a_waiting_follower_is_woken_by_what_is_appended(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        follower = Follower(world, 2)
        await follower.fetch(0)
        waiting = asyncio.ensure_future(follower.fetch(max_wait_ms=60_000))
        await turn()
        assert not waiting.done()
        world.append()
        told = await waiting
        assert told is not None
        assert told.records

    tell(tmp_path, story)


def test_a_moved_high_watermark_is_told_with_the_next_answer_and_only_once(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        world.append()
        await second.fetch(0)
        await third.fetch(0)
        assert await second.fetch(1) is None
        told = await third.fetch(1)
        assert told is not None
        assert told.high_watermark == 1
        told = await second.fetch()
        assert told is not None
        assert (told.high_watermark, told.records) == (1, b"")
        assert await second.fetch() is None

    tell(tmp_path, story)


@pytest.mark.parametrize("leader_epoch", [5, 6])
def test_a_follower_that_begins_a_partition_anew_is_told_the_high_watermark_again(
    tmp_path: Path, leader_epoch: int
) -> None:
    """It has thrown away the answer that told it, for the partition had changed meanwhile."""

    async def story(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        world.append()
        await second.fetch(0)
        await third.fetch(0)
        assert await second.fetch(1) is None
        await third.fetch(1)
        thrown_away = await second.fetch()
        assert thrown_away is not None
        assert thrown_away.high_watermark == 1
        world.follow(registration(leader_epoch=leader_epoch, partition_epoch=11))
        told = await second.fetch(1, current_leader_epoch=leader_epoch)
        assert told is not None
        assert told.high_watermark == 1
        assert await second.fetch() is None

    tell(tmp_path, story)


def test_a_follower_that_goes_on_is_told_only_what_is_new(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        second = Follower(world, 2)
        world.append()
        world.append()
        await second.fetch(0)
        assert await second.fetch(1) is not None
        assert await second.fetch(2) is None

    tell(tmp_path, story)


def test_a_session_that_is_used_keeps_partitions_in_sync_that_it_does_not_name(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        await second.fetch(0)
        await third.fetch(0)
        world.clock.ms += 10 * LAG_MS
        await second.fetch()
        world.append()
        world.leader_replicas._check_isrs()
        await turn()
        assert world.controller.asked == [[1, 2]]

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"current_leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"fetch_offset": 4}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"last_fetched_epoch": 7}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_follower_that_is_wrong_is_told_so_and_counts_for_nothing(
    tmp_path: Path, asked: dict[str, int], error: ErrorCode
) -> None:
    async def story(world: ReplicatedBroker) -> None:
        world.append(3)
        told = await Follower(world, 2).fetch(asked.pop("fetch_offset", 3), **asked)
        assert told is not None
        assert told.error_code == error
        (leader,) = world.leader_replicas.all
        assert leader.leadership.replicas[2].log_end_offset == -1

    tell(tmp_path, story)


def test_only_a_leader_that_none_can_have_replaced_says_that_an_offset_does_not_exist(tmp_path: Path) -> None:
    """A consumer gives its place up then; a replica that lags may only not have the records yet."""

    async def story(world: ReplicatedBroker) -> None:
        world.append()
        assert await consume(world, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        now_s = asyncio.get_running_loop().time()
        world.lease.renewed(sent_s=now_s, answered_s=now_s)
        world.lease.caught_up(world.lease.session)
        assert await consume(world, 5) == ErrorCode.OFFSET_OUT_OF_RANGE
        world.lease.fenced()
        assert await consume(world, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await consume(world, -1) == ErrorCode.OFFSET_OUT_OF_RANGE
        world.leader_replicas.end(world.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        world.follow(registration(leader=2, leader_epoch=6, partition_epoch=11))
        world.lease.renewed(sent_s=now_s, answered_s=now_s)
        assert await consume(world, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell(tmp_path, story)


def test_a_follower_whose_log_went_another_way_is_told_where(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        world.append(3)
        world.follow(registration(leader_epoch=8, partition_epoch=11))
        world.append(3)
        told = await Follower(world, 2).fetch(5, current_leader_epoch=8, last_fetched_epoch=6)
        assert told is not None
        assert told.diverging_epoch is not None
        assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (5, 3)
        assert not told.records
        (leader,) = world.leader_replicas.all
        assert leader.leadership.replicas[2].log_end_offset == -1

    tell(tmp_path, story)


def test_a_broker_that_is_no_replica_is_sent_away(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        told = await Follower(world, 9, epoch=1).fetch(0)
        assert told is not None
        assert told.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    tell(tmp_path, story)


# The ISR


def test_a_follower_that_comes_back_joins_by_the_controllers_leave(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        await Follower(world, 3).fetch(0)
        await turn()
        assert world.controller.asked == [[1, 2, 3]]
        assert world.partition.isr_count == 3

    tell(tmp_path, story, registration(1, 2))


def test_a_broker_that_is_unfenced_joins_without_another_word_of_it(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        world.leader_replicas.follow_cluster(cluster(broker(3, fenced=True)))
        third = Follower(world, 3)
        await third.fetch(0)
        await turn()
        assert world.controller.asked == []
        world.clock.ms += 500
        assert await third.fetch() is None
        world.leader_replicas.follow_cluster(cluster())
        await turn()
        assert world.controller.asked == [[1, 2, 3]]

    tell(tmp_path, story, registration(1, 2))


def test_a_session_speaks_for_its_partitions_after_a_fetch_without_one(tmp_path: Path) -> None:
    """A follower's second connection may be overtaken by its session, which does not name the partition again."""

    async def story(world: ReplicatedBroker) -> None:
        world.append()
        world.leader_replicas.follow_cluster(cluster(broker(3, fenced=True)))
        third = Follower(world, 3)
        await third.fetch(0)
        await third.fetch(1)
        waiting = asyncio.ensure_future(third.fetch(max_wait_ms=1))
        await turn()
        await third.fetch_without_session(0)
        assert await waiting is None
        world.clock.ms += 500
        assert await third.fetch() is None
        world.leader_replicas.follow_cluster(cluster())
        await turn()
        assert world.controller.asked == [[1, 2, 3]]

    tell(tmp_path, story, registration(1, 2))


def test_a_controller_that_is_away_is_asked_again(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        world.controller.refusal = ApiException(ErrorCode.NOT_CONTROLLER)
        await Follower(world, 3).fetch(0)
        await turn()
        world.controller.refusal = None
        assert world.leader_replicas._request is not None
        await world.leader_replicas._request
        assert world.controller.asked == [[1, 2, 3]] * 2

    tell(tmp_path, story, registration(1, 2))


def test_a_proposal_that_comes_when_the_last_request_has_just_ended_goes_too(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        await second.fetch(0)
        request = world.leader_replicas._request
        assert request is not None
        while not request.done():  # noqa: ASYNC110 - the loop shall look in before the request's callbacks do.
            await asyncio.sleep(0)
        await third.fetch(0)
        await turn()
        assert world.controller.asked == [[1, 2], [1, 2, 3]]

    tell(tmp_path, story, registration(1))


def test_a_controllers_answer_that_makes_no_sense_is_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: ReplicatedBroker) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(world.controller, "send", lambda request: None)
            await Follower(world, 2).fetch(0)
            await turn()
        world.leader_replicas._look_again()
        await turn()
        assert world.controller.asked == [[1, 2]]

    tell(tmp_path, story, registration(1))


# DeleteRecords and ListOffsets


async def delete_before(world: ReplicatedBroker, offset: int, timeout_ms: int) -> Any:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[wanted])], timeout_ms=timeout_ms)
    answer = await world.ask(handle_delete_records, request, 2)
    result: DeleteRecordsPartitionResult = answer.topics[0].partitions[0]
    return result


def test_records_are_deleted_when_every_live_replica_has_deleted_them(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        world.append(4)
        await second.fetch(4)
        await third.fetch(4)
        deleting = asyncio.ensure_future(delete_before(world, 3, 5_000))
        await turn()
        await second.fetch(4, log_start_offset=3)
        assert not deleting.done()
        await third.fetch(4, log_start_offset=3)
        answer = await deleting
        assert (answer.error_code, answer.low_watermark) == (0, 3)

    tell(tmp_path, story)


def test_deleting_is_given_up_when_the_time_of_the_request_is_over(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        world.append(4)
        await Follower(world, 2).fetch(4)
        await Follower(world, 3).fetch(4)
        answer = await delete_before(world, 3, 1)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)

    tell(tmp_path, story)


async def list_offset(world: ReplicatedBroker, timestamp: int, *, replica_id: int = -1, version: int = 9) -> Any:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])])
    answer = await world.ask(handle_list_offsets, request, version)
    found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
    return found


def test_a_new_leader_tells_no_end_before_it_knows_what_was_committed(tmp_path: Path) -> None:
    async def story(world: ReplicatedBroker) -> None:
        world.append(4)
        world.follow(registration(leader_epoch=6, partition_epoch=11))
        assert (await list_offset(world, -1)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await list_offset(world, -1, version=4)).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (await list_offset(world, 0)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await list_offset(world, -2)).offset == 0
        assert (await list_offset(world, -1, replica_id=2)).offset == 4
        for each in (2, 3):
            await Follower(world, each).fetch(4, current_leader_epoch=6)
        assert (await list_offset(world, -1)).offset == 4

    tell(tmp_path, story)


def test_what_the_disk_refuses_is_an_error_of_the_storage_and_not_an_unknown_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    async def story(world: ReplicatedBroker) -> None:
        world.append(4)
        for each in (2, 3):
            await Follower(world, each).fetch(4)
        monkeypatch.setattr(Segment, "find", refused)
        monkeypatch.setattr(PartitionLog, "delete_records_before", refused)
        assert (await list_offset(world, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await delete_before(world, 3, 1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    tell(tmp_path, story)
