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

Scenario = Callable[[ReplicatedBroker], Awaitable[None]]


def run_scenario(
    tmp_path: Path, scenario: Scenario, state: PartitionRegistration | None = None, **settings: object
) -> None:
    async def main() -> None:
        world = ReplicatedBroker(tmp_path, state, **{name.replace("_", "."): value for name, value in settings.items()})
        try:
            await scenario(world)
        finally:
            world.close()

    asyncio.run(main())


class Follower:
    """A broker that fetches in a session."""

    def __init__(self, world: ReplicatedBroker, broker_id: int, *, epoch: int | None = None) -> None:
        self.world = world
        self.broker_id = broker_id
        self.epoch = EPOCHS[broker_id] if epoch is None else epoch
        self.session_id = self.session_epoch = 0

    async def fetch_without_session(self, offset: int) -> None:
        """Send a request of another connection; the session continues."""
        session = self.session_id, self.session_epoch
        self.session_id, self.session_epoch = 0, -1
        await self.fetch(offset)
        self.session_id, self.session_epoch = session

    async def fetch(self, offset: int | None = None, *, max_wait_ms: int = 0, **fields: Any) -> PartitionData | None:
        """Return the response for the partition, which the request names only with an offset; None if it is omitted."""
        partition = FetchPartition(
            partition=0,
            fetch_offset=offset or 0,
            **{"partition_max_bytes": 99_999, "current_leader_epoch": 5, "log_start_offset": 0, **fields},
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
    """Return the error of a consumer's fetch."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=99_999, current_leader_epoch=-1)
    request = FetchRequest(
        replica_id=-1, session_epoch=-1, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])]
    )
    answer: FetchResponse = await world.ask(handle_fetch, request, 17)
    return answer.responses[0].partitions[0].error_code


async def turn() -> None:
    """Run everything that is ready."""
    for _ in range(10):
        await asyncio.sleep(0)


# Produce


def test_acks_all_is_answered_when_all_in_sync_replicas_have_the_records(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        producing = asyncio.ensure_future(produce(world, 5))
        await turn()
        await second.fetch(5)
        assert not producing.done()
        await third.fetch(5)
        answer = await producing
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert world.partition.log.high_watermark == 5

    run_scenario(tmp_path, scenario)


def test_a_leadership_from_before_the_registration_of_this_process_takes_no_records(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        world.leader_replicas.follow_cluster(cluster(broker(1, epoch=EPOCHS[1] - 1)))
        assert (await produce(world, acks=1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert world.partition.log.log_end_offset == 0
        world.leader_replicas.follow_cluster(cluster())
        assert (await produce(world, acks=1)).error_code == 0

    run_scenario(tmp_path, scenario)


def test_acks_1_waits_for_no_follower(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        assert (await produce(world, acks=1)).error_code == 0
        assert world.partition.log.high_watermark == 0

    run_scenario(tmp_path, scenario)


def test_acks_all_times_out_with_the_request(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        answer = await produce(world, timeout_ms=1)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)

    run_scenario(tmp_path, scenario)


def test_acks_all_needs_enough_in_sync_replicas(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        assert (await produce(world)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert world.partition.log.log_end_offset == 0
        assert (await produce(world, acks=1)).error_code == 0

    run_scenario(tmp_path, scenario, registration(1), min_insync_replicas=2)


def test_a_producer_learns_immediately_that_leadership_was_lost(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        producing = asyncio.ensure_future(produce(world))
        await turn()
        world.follow(registration(2, 3, leader=2, leader_epoch=6, partition_epoch=11))
        assert (await producing).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_scenario(tmp_path, scenario)


# Fetch


def test_a_follower_reads_uncommitted_records_and_a_consumer_does_not(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        world.append(3)
        fetched = await Follower(world, 2).fetch(0)
        assert fetched is not None
        assert fetched.records
        assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (0, 0, 0)
        consumer = FetchRequest(
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=0, partition_max_bytes=9999)])]
        )
        answer = await world.ask(handle_fetch, consumer, 17)
        assert not answer.responses[0].partitions[0].records

    run_scenario(tmp_path, scenario)


def test_an_append_wakes_a_waiting_follower(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        follower = Follower(world, 2)
        await follower.fetch(0)
        waiting = asyncio.ensure_future(follower.fetch(max_wait_ms=60_000))
        await turn()
        assert not waiting.done()
        world.append()
        fetched = await waiting
        assert fetched is not None
        assert fetched.records

    run_scenario(tmp_path, scenario)


def test_a_new_high_watermark_is_sent_once_with_the_next_response(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        world.append()
        await second.fetch(0)
        await third.fetch(0)
        assert await second.fetch(1) is None
        fetched = await third.fetch(1)
        assert fetched is not None
        assert fetched.high_watermark == 1
        fetched = await second.fetch()
        assert fetched is not None
        assert (fetched.high_watermark, fetched.records) == (1, b"")
        assert await second.fetch() is None

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("leader_epoch", [5, 6])
def test_a_follower_that_restarts_a_partition_receives_the_high_watermark_again(
    tmp_path: Path, leader_epoch: int
) -> None:
    """It discarded the response that contained it, because the partition had changed meanwhile."""

    async def scenario(world: ReplicatedBroker) -> None:
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
        fetched = await second.fetch(1, current_leader_epoch=leader_epoch)
        assert fetched is not None
        assert fetched.high_watermark == 1
        assert await second.fetch() is None

    run_scenario(tmp_path, scenario)


def test_a_follower_that_continues_receives_only_changes(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        second = Follower(world, 2)
        world.append()
        world.append()
        await second.fetch(0)
        assert await second.fetch(1) is not None
        assert await second.fetch(2) is None

    run_scenario(tmp_path, scenario)


def test_a_session_in_use_keeps_partitions_in_sync_that_its_requests_omit(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        await second.fetch(0)
        await third.fetch(0)
        world.clock.ms += 10 * LAG_MS
        await second.fetch()
        world.append()
        world.leader_replicas._check_isrs()
        await turn()
        assert world.controller.proposals == [[1, 2]]

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"current_leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"fetch_offset": 4}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"last_fetched_epoch": 7}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_follower_with_a_wrong_state_receives_an_error_and_does_not_count(
    tmp_path: Path, fields: dict[str, int], error: ErrorCode
) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        world.append(3)
        fetched = await Follower(world, 2).fetch(fields.pop("fetch_offset", 3), **fields)
        assert fetched is not None
        assert fetched.error_code == error
        (leader,) = world.leader_replicas.all
        assert leader.leadership.replicas[2].log_end_offset == -1

    run_scenario(tmp_path, scenario)


def test_only_a_leader_that_cannot_have_been_replaced_reports_an_offset_out_of_range(tmp_path: Path) -> None:
    """A consumer then gives up its position, although a lagging replica may only lack the records so far."""

    async def scenario(world: ReplicatedBroker) -> None:
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

    run_scenario(tmp_path, scenario)


def test_a_follower_with_a_diverging_log_receives_the_diverging_epoch(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        world.append(3)
        world.follow(registration(leader_epoch=8, partition_epoch=11))
        world.append(3)
        fetched = await Follower(world, 2).fetch(5, current_leader_epoch=8, last_fetched_epoch=6)
        assert fetched is not None
        assert fetched.diverging_epoch is not None
        assert (fetched.diverging_epoch.epoch, fetched.diverging_epoch.end_offset) == (5, 3)
        assert not fetched.records
        (leader,) = world.leader_replicas.all
        assert leader.leadership.replicas[2].log_end_offset == -1

    run_scenario(tmp_path, scenario)


def test_a_broker_that_is_not_a_replica_is_refused(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        fetched = await Follower(world, 9, epoch=1).fetch(0)
        assert fetched is not None
        assert fetched.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    run_scenario(tmp_path, scenario)


# The ISR


def test_a_returning_follower_joins_the_isr_when_the_controller_agrees(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        await Follower(world, 3).fetch(0)
        await turn()
        assert world.controller.proposals == [[1, 2, 3]]
        assert world.partition.isr_count == 3

    run_scenario(tmp_path, scenario, registration(1, 2))


def test_an_unfenced_broker_joins_the_isr_without_another_fetch(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        world.leader_replicas.follow_cluster(cluster(broker(3, fenced=True)))
        third = Follower(world, 3)
        await third.fetch(0)
        await turn()
        assert world.controller.proposals == []
        world.clock.ms += 500
        assert await third.fetch() is None
        world.leader_replicas.follow_cluster(cluster())
        await turn()
        assert world.controller.proposals == [[1, 2, 3]]

    run_scenario(tmp_path, scenario, registration(1, 2))


def test_a_session_counts_for_its_partitions_after_a_fetch_without_a_session(tmp_path: Path) -> None:
    """A follower's second connection may be overtaken by its session, which does not name the partition again."""

    async def scenario(world: ReplicatedBroker) -> None:
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
        assert world.controller.proposals == [[1, 2, 3]]

    run_scenario(tmp_path, scenario, registration(1, 2))


def test_a_refused_isr_change_is_proposed_again(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        world.controller.refusal = ApiException(ErrorCode.NOT_CONTROLLER)
        await Follower(world, 3).fetch(0)
        await turn()
        world.controller.refusal = None
        assert world.leader_replicas._request is not None
        await world.leader_replicas._request
        assert world.controller.proposals == [[1, 2, 3]] * 2

    run_scenario(tmp_path, scenario, registration(1, 2))


def test_a_proposal_made_just_after_the_last_request_is_sent_too(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        second, third = Follower(world, 2), Follower(world, 3)
        await second.fetch(0)
        request = world.leader_replicas._request
        assert request is not None
        while not request.done():  # noqa: ASYNC110 - the loop shall look in before the request's callbacks do.
            await asyncio.sleep(0)
        await third.fetch(0)
        await turn()
        assert world.controller.proposals == [[1, 2], [1, 2, 3]]

    run_scenario(tmp_path, scenario, registration(1))


def test_an_invalid_response_of_the_controller_does_not_stop_proposals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(world.controller, "send", lambda request: None)
            await Follower(world, 2).fetch(0)
            await turn()
        world.leader_replicas._recheck()
        await turn()
        assert world.controller.proposals == [[1, 2]]

    run_scenario(tmp_path, scenario, registration(1))


# DeleteRecords and ListOffsets


async def delete_before(world: ReplicatedBroker, offset: int, timeout_ms: int) -> Any:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[wanted])], timeout_ms=timeout_ms)
    answer = await world.ask(handle_delete_records, request, 2)
    result: DeleteRecordsPartitionResult = answer.topics[0].partitions[0]
    return result


def test_delete_records_is_answered_when_every_live_replica_deleted_them(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
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

    run_scenario(tmp_path, scenario)


def test_delete_records_times_out_with_the_request(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        world.append(4)
        await Follower(world, 2).fetch(4)
        await Follower(world, 3).fetch(4)
        answer = await delete_before(world, 3, 1)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)

    run_scenario(tmp_path, scenario)


async def list_offset(world: ReplicatedBroker, timestamp: int, *, replica_id: int = -1, version: int = 9) -> Any:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])])
    answer = await world.ask(handle_list_offsets, request, version)
    found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
    return found


def test_a_new_leader_returns_no_end_offset_before_it_knows_the_high_watermark(tmp_path: Path) -> None:
    async def scenario(world: ReplicatedBroker) -> None:
        world.append(4)
        world.follow(registration(leader_epoch=6, partition_epoch=11))
        assert (await list_offset(world, -1)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await list_offset(world, -1, version=4)).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (await list_offset(world, 0)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await list_offset(world, -2)).offset == 0
        assert (await list_offset(world, -1, replica_id=2)).offset == 4
        for broker_id in (2, 3):
            await Follower(world, broker_id).fetch(4, current_leader_epoch=6)
        assert (await list_offset(world, -1)).offset == 4

    run_scenario(tmp_path, scenario)


def test_an_error_of_the_disk_is_a_storage_error_and_not_an_unknown_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    async def scenario(world: ReplicatedBroker) -> None:
        world.append(4)
        for broker_id in (2, 3):
            await Follower(world, broker_id).fetch(4)
        monkeypatch.setattr(Segment, "find", refused)
        monkeypatch.setattr(PartitionLog, "delete_records_before", refused)
        assert (await list_offset(world, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await delete_before(world, 3, 1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run_scenario(tmp_path, scenario)
