"""A share consumer settles each record once, loses none, and knows which it still holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import UnsupportedVersion
from barnabas.clients.membership.acknowledgements import AcknowledgeType
from barnabas.clients.node_connection import SupportedVersions
from barnabas.clients.share.acquired_records import AcquiredRecord
from barnabas.clients.share.config import share_config
from barnabas.clients.share.share_consumer import ShareConsumer
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.unit.clients.memory_cluster import TOPIC
from tests.unit.clients.share.memory_queue import ACCEPT, GAP, REJECT, RELEASE, RENEW, MemoryQueue

EXPLICIT = {"share.acquire.mode": "record_limit", "share.acknowledgement.mode": "explicit", "fetch.max.wait.ms": "5"}
IMPLICIT = EXPLICIT | {"share.acknowledgement.mode": "implicit"}


def filled(partitions: int = 1, records: int = 10) -> MemoryQueue:
    """Five records in each batch."""
    queue = MemoryQueue(partitions)
    for partition in range(partitions):
        for number in range(records // 5):
            values = [b"%d-%d" % (partition, number * 5 + offset) for offset in range(5)]
            queue.append(partition, build_batch([Record(i, 0, b"k", value) for i, value in enumerate(values)]))
        queue.fill(partition, list(range(records)))
    return queue


def consuming(
    queue: MemoryQueue, use: Callable[[ShareConsumer], Awaitable[None]], properties: dict[str, str] | None = None
) -> None:
    async def main() -> None:
        consumer = ShareConsumer(queue.network, "g", [TOPIC], share_config(properties or EXPLICIT), member_id="m-1")
        consumer.start()
        try:
            async with asyncio.timeout(20):
                await use(consumer)
        finally:
            await consumer.close()

    asyncio.run(main())


def values(records: list[AcquiredRecord]) -> list[bytes | None]:
    return [record.record.value for record in records]


def test_records_are_acquired_up_to_the_limit_and_settled() -> None:
    queue = filled()

    async def use(consumer: ShareConsumer) -> None:
        records = await consumer.receive(4, 5)
        assert values(records) == [b"0-0", b"0-1", b"0-2", b"0-3"]
        assert {record.delivery_count for record in records} == {1}
        types = dict(zip((record.id for record in records), list(AcknowledgeType)[1:], strict=True))
        assert set((await consumer.acknowledge(types)).values()) == {None}
        assert queue.settled == [(0, 0, ACCEPT), (0, 1, RELEASE), (0, 2, REJECT), (0, 3, RENEW)]
        assert consumer.held_until() is not None  # The renewed one.
        (again,) = await consumer.receive(1, 5)
        assert (again.record.offset, again.delivery_count) == (1, 2)

    consuming(queue, use)
    # What was not settled is released at the end, and the member leaves.
    assert queue.available[0] == [1, 3, 4, 5, 6, 7, 8, 9]
    assert queue.asked[-1].member_epoch == -1


def test_a_record_is_settled_once() -> None:
    queue = filled()

    async def use(consumer: ShareConsumer) -> None:
        (record,) = await consumer.receive(1, 5)
        await consumer.acknowledge({record.id: AcknowledgeType.ACCEPT})
        assert consumer.held_until() is None
        error = (await consumer.acknowledge({record.id: AcknowledgeType.RELEASE}))[record.id]
        assert error is not None
        assert error.code is ErrorCode.INVALID_RECORD_STATE

    consuming(queue, use)
    assert queue.settled == [(0, 0, ACCEPT)]


def test_nothing_is_returned_when_nothing_arrives_in_time() -> None:
    async def use(consumer: ShareConsumer) -> None:
        assert len(await consumer.receive(10, 5)) == 10
        assert await consumer.receive(1, 0.05) == []
        assert await consumer.receive(1, 0) == []

    consuming(filled(), use)


def test_a_new_member_finds_what_exists_although_it_waits_for_no_more() -> None:
    queue = filled()
    available, queue.available[0] = queue.available[0], []

    async def use(consumer: ShareConsumer) -> None:
        receiving = asyncio.ensure_future(consumer.receive(1, 0))
        await asyncio.sleep(0.1)  # The node has no partition to offer yet: it loads its state.
        assert not receiving.done()
        queue.available[0] = available
        assert values(await receiving) == [b"0-0"]
        assert values(await consumer.receive(1, 0)) == [b"0-1"]

    consuming(queue, use)


def test_partitions_of_all_nodes_are_read_one_node_at_a_time() -> None:
    queue = filled(partitions=4)
    queue.leaders |= {1: 2, 3: 2}

    async def use(consumer: ShareConsumer) -> None:
        found: list[AcquiredRecord] = []
        while len(found) < 40:
            records = await consumer.receive(7, 5)
            assert sum(map(len, queue.acquired.values())) == len(records) <= 7
            await consumer.acknowledge({record.id: AcknowledgeType.ACCEPT for record in records})
            found += records
        assert {(record.partition.partition, record.record.offset) for record in found} == {
            (partition, offset) for partition in range(4) for offset in range(10)
        }

    consuming(queue, use)


def test_a_lost_session_gives_up_what_was_acquired_in_it() -> None:
    queue = filled()

    async def use(consumer: ShareConsumer) -> None:
        (record,) = await consumer.receive(1, 5)
        queue.lose_sessions()
        error = (await consumer.acknowledge({record.id: AcknowledgeType.ACCEPT}))[record.id]
        assert error is not None
        assert error.code is ErrorCode.INVALID_RECORD_STATE
        assert consumer.held_until() is None
        (again,) = await consumer.receive(1, 5)
        assert (again.record.offset, again.delivery_count) == (0, 2)
        await consumer.acknowledge({again.id: AcknowledgeType.ACCEPT})

    consuming(queue, use)
    assert queue.settled == [(0, 0, ACCEPT)]


@pytest.mark.parametrize("code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH])
def test_a_session_that_the_node_does_not_know_begins_again(code: ErrorCode) -> None:
    queue = filled()

    async def use(consumer: ShareConsumer) -> None:
        queue.errors[ApiKey.SHARE_FETCH].extend([ErrorCode.NONE, code])
        assert len(await consumer.receive(1, 5)) == 1
        assert len(await consumer.receive(1, 5)) == 1
        assert [message.share_session_epoch for message in queue.asked if message.API_KEY == ApiKey.SHARE_FETCH] == [
            0, 1, 0,
        ]  # fmt: skip

    consuming(queue, use)


def test_a_call_that_is_cancelled_loses_no_record() -> None:
    queue = filled(records=50)

    async def use(consumer: ShareConsumer) -> None:
        found: list[AcquiredRecord] = []
        for turns in range(40):  # Cancelled at each moment between request and answer.
            receiving = asyncio.ensure_future(consumer.receive(1, 5))
            for _ in range(turns):
                await asyncio.sleep(0)
            receiving.cancel()
            (outcome,) = await asyncio.gather(receiving, return_exceptions=True)
            found += outcome if isinstance(outcome, list) else await consumer.receive(1, 5)
        assert [record.record.offset for record in found] == list(range(40))
        assert {record.delivery_count for record in found} == {1}

    consuming(queue, use)


def test_offsets_without_a_record_are_gaps_and_unreadable_ones_are_rejected() -> None:
    queue = MemoryQueue()
    queue.append(0, build_batch([Record(0, 0, None, b"a")]))
    queue.append(0, build_batch([Record(0, 0, None, b"b")]))
    broken = bytearray(queue.logs[0][1])
    broken[-1] ^= 1
    queue.logs[0][1] = bytes(broken)
    queue.fill(0, [0, 1, 2])

    async def use(consumer: ShareConsumer) -> None:
        assert values(await consumer.receive(3, 5)) == [b"a"]

    consuming(queue, use)
    assert sorted(queue.settled) == [(0, 1, REJECT), (0, 2, GAP)]


def test_a_leader_that_has_moved_is_found() -> None:
    queue = filled()

    async def use(consumer: ShareConsumer) -> None:
        assert len(await consumer.receive(1, 5)) == 1
        queue.leaders[0] = 2
        assert len(await consumer.receive(1, 5)) == 1

    consuming(queue, use)


def test_what_was_delivered_is_accepted_by_the_next_call_and_at_the_end() -> None:
    queue = filled()

    async def use(consumer: ShareConsumer) -> None:
        await consumer.receive(2, 5)
        assert queue.settled == []
        records = await consumer.receive(2, 5)
        assert queue.settled == [(0, 0, ACCEPT), (0, 1, ACCEPT)]
        await consumer.acknowledge({records[0].id: AcknowledgeType.RELEASE})

    consuming(queue, use, IMPLICIT)
    assert queue.settled[2:] == [(0, 2, RELEASE), (0, 3, ACCEPT)]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_RECORD_STATE, ErrorCode.FENCED_STATE_EPOCH]
)
def test_an_acknowledgement_that_a_node_refuses_is_reported(code: ErrorCode) -> None:
    queue = filled()

    async def use(consumer: ShareConsumer) -> None:
        (record,) = await consumer.receive(1, 5)
        queue.part_errors[ApiKey.SHARE_ACKNOWLEDGE].append(code)
        error = (await consumer.acknowledge({record.id: AcknowledgeType.ACCEPT}))[record.id]
        assert error is not None
        assert error.code is code

    consuming(queue, use)


def test_a_missing_right_ends_the_call() -> None:
    queue = filled()

    async def use(consumer: ShareConsumer) -> None:
        queue.part_errors[ApiKey.SHARE_FETCH].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(AdminError, match="TOPIC_AUTHORIZATION_FAILED"):
            await consumer.receive(1, 5)

    consuming(queue, use)


def test_a_refused_member_fails_every_call() -> None:
    queue = filled()
    queue.errors[ApiKey.SHARE_GROUP_HEARTBEAT].append(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    async def use(consumer: ShareConsumer) -> None:
        with pytest.raises(AdminError, match="GROUP_AUTHORIZATION_FAILED"):
            await consumer.receive(1, 5)
        with pytest.raises(AdminError, match="GROUP_AUTHORIZATION_FAILED"):
            await consumer.acknowledge({})

    consuming(queue, use)


def test_an_older_node_can_not_renew() -> None:
    queue = filled()
    queue.versions = {**queue.versions, ApiKey.SHARE_ACKNOWLEDGE: SupportedVersions(1, 1)}

    async def use(consumer: ShareConsumer) -> None:
        (record,) = await consumer.receive(1, 5)
        with pytest.raises(UnsupportedVersion, match="can't renew locks"):
            await consumer.acknowledge({record.id: AcknowledgeType.RENEW})
        assert (await consumer.acknowledge({record.id: AcknowledgeType.ACCEPT}))[record.id] is None

    consuming(queue, use)
