"""The transaction APIs of a broker that coordinates the transactions and leads their partitions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, PartitionResponse, TopicRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.storage.batch_header import HEADER, HEADER_SIZE
from tests.unit.broker.apis.transactional_broker import (
    BILLS,
    COORDINATOR_EPOCH,
    ELSEWHERE,
    FIRST_PRODUCER_ID,
    GROUP,
    ID,
    MISSING,
    NOW,
    ORDERS,
    Producer,
    TransactionalBroker,
    run_scenario,
)

NONE = ErrorCode.NONE
OFFSETS = TopicPartition("__consumer_offsets", 0)
CONTROL = 0x20


async def described(world: TransactionalBroker, transactional_id: str = ID) -> Any:
    answer = await world.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
    (state,) = answer.transaction_states
    assert state.transactional_id == transactional_id
    return state


async def state_of(world: TransactionalBroker) -> str:
    shown: str = (await described(world)).transaction_state
    return shown


async def producers(world: TransactionalBroker, partition: TopicPartition = ORDERS) -> PartitionResponse:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=partition.topic, partition_indexes=[partition.partition])]
    )
    answer = await world.ask(request, 0)
    found: PartitionResponse = answer.topics[0].partitions[0]
    return found


async def listed(world: TransactionalBroker, version: int = 1, **filters: Any) -> ListTransactionsResponse:
    answer: ListTransactionsResponse = await world.ask(ListTransactionsRequest(**filters), version)
    assert answer.error_code == NONE
    return answer


class Marker:
    """The last batch of a log, which must be a control batch."""

    def __init__(self, world: TransactionalBroker, partition: TopicPartition = ORDERS) -> None:
        log = world.replicas.partitions[partition].log
        batch = bytes(log.read(log.log_end_offset - 1, 1000, min_one_message=True).records)
        header = HEADER.unpack_from(batch)
        assert header[5] & CONTROL
        self.producer = Producer(header[9], header[10])
        # The record: length, attributes, two deltas and the key's length take one byte each; then version and type.
        self.is_commit = batch[HEADER_SIZE + 5 : HEADER_SIZE + 9] == b"\0\0\0\1"
        assert self.is_commit or batch[HEADER_SIZE + 5 : HEADER_SIZE + 9] == b"\0\0\0\0"


def log_of(world: TransactionalBroker, partition: TopicPartition = ORDERS) -> Any:
    return world.replicas.partitions[partition].log


# --- a transaction's life


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_begun_written_ended_and_shown(tmp_path: Path, committed: bool) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        assert producer == (FIRST_PRODUCER_ID, 0)
        assert await state_of(world) == "Empty"
        assert await world.add(producer, ORDERS, BILLS) == {ORDERS: NONE, BILLS: NONE}
        assert [await world.produce(producer, sequence=number) for number in range(2)] == [NONE, NONE]

        open_ = await described(world)
        assert (open_.error_code, open_.transaction_state, open_.transaction_timeout_ms) == (NONE, "Ongoing", 60_000)
        assert (open_.transaction_start_time_ms, open_.producer_id, open_.producer_epoch) == (NOW, *producer)
        assert [(topic.topic, topic.partitions) for topic in open_.topics] == [("bills", [0]), ("orders", [0])]
        (writer,) = (await producers(world)).active_producers
        assert (writer.producer_id, writer.producer_epoch, writer.last_sequence) == (*producer, 1)
        assert (writer.current_txn_start_offset, writer.coordinator_epoch) == (0, -1)
        assert log_of(world).last_stable_offset == 0

        assert (await world.end(producer, committed=committed)).error_code == NONE
        for partition in (ORDERS, BILLS):
            marker = Marker(world, partition)
            assert (marker.producer, marker.is_commit) == (producer, committed)
        assert log_of(world).last_stable_offset == log_of(world).log_end_offset == 3
        (writer,) = (await producers(world)).active_producers
        assert (writer.current_txn_start_offset, writer.coordinator_epoch) == (-1, COORDINATOR_EPOCH)
        ended = await described(world)
        assert ended.transaction_state == ("CompleteCommit" if committed else "CompleteAbort")
        assert ended.topics == []

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("version", [12, 13])
def test_produce_adds_the_partition_for_a_client_whose_epoch_grows_with_each_transaction(
    tmp_path: Path, version: int
) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        assert await world.produce(producer, version=version) == NONE
        assert [topic.topic for topic in (await described(world)).topics] == ["orders"]
        answer = await world.end(producer, version=5)
        following = Producer(answer.producer_id, answer.producer_epoch)
        assert (answer.error_code, following) == (NONE, (producer.id, 1))
        assert Marker(world).producer == following
        assert await world.produce(producer, sequence=1, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await world.produce(following, version=version) == NONE
        assert await state_of(world) == "Ongoing"

    run_scenario(tmp_path, scenario)


def test_a_transaction_without_partitions_ends_without_markers(tmp_path: Path) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        assert (await world.end(producer, version=4)).error_code == ErrorCode.INVALID_TXN_STATE
        aborted = await world.end(producer, committed=False, version=5)
        assert (aborted.error_code, aborted.producer_epoch) == (NONE, 1)
        assert log_of(world).log_end_offset == 0

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("version", [3, 5])
def test_the_first_request_of_the_next_transaction_waits_for_the_markers_of_the_last(
    tmp_path: Path, version: int
) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        await world.add(producer, ORDERS)
        await world.produce(producer)
        await world.end(producer, settles=False)
        assert await state_of(world) == "PrepareCommit"
        assert await world.add(producer, BILLS, version=version) == {BILLS: NONE}
        assert [topic.topic for topic in (await described(world)).topics] == ["bills"]

    run_scenario(tmp_path, scenario)


def test_it_is_refused_if_that_takes_too_long(tmp_path: Path) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        await world.add(producer, ORDERS, ELSEWHERE)
        await world.end(producer)
        both = asyncio.gather(world.add(producer, BILLS), world.add(producer, BILLS, version=5))
        assert await both == [{BILLS: ErrorCode.CONCURRENT_TRANSACTIONS}] * 2
        assert await state_of(world) == "PrepareCommit"

    run_scenario(tmp_path, scenario, patience_ms=0)


# --- producers


def test_a_new_producer_aborts_the_open_transaction_of_the_one_before(tmp_path: Path) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        before = await world.init()
        await world.add(before, ORDERS)
        await world.produce(before)
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        assert (await world.ask(request, 5)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        await world.settle()
        assert not Marker(world).is_commit
        after = await world.init()
        assert after.id == before.id
        assert after.epoch > before.epoch

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("version", range(6))
def test_a_fenced_producer_receives_the_error_that_its_version_knows(tmp_path: Path, version: int) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        fenced = await world.init()
        assert (await world.init()) == (fenced.id, 1)
        old, new = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED
        assert await world.add(fenced, ORDERS, version=version) == {ORDERS: old if version < 2 else new}
        assert (await world.end(fenced, version=version)).error_code == (old if version < 2 else new)
        if version <= 4:
            answer = await world.ask(add_offsets(fenced), version)
            assert answer.error_code == (old if version < 2 else new)
        if version >= 3:  # Earlier requests do not name the producer.
            request = InitProducerIdRequest(
                transactional_id=ID,
                transaction_timeout_ms=60_000,
                producer_id=fenced.id,
                producer_epoch=fenced.epoch,
            )
            answer = await world.ask(request, version)
            assert (answer.error_code, answer.producer_id) == (old if version < 4 else new, -1)
        assert await world.produce(fenced) == old
        assert await commit_offset(world, fenced, version=version) == {ORDERS: old}

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_producer_is_refused(tmp_path: Path, fields: dict[str, Any], code: ErrorCode) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        request = InitProducerIdRequest(**{"transactional_id": ID, "transaction_timeout_ms": 60_000, **fields})
        answer = await world.ask(request, 5)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)

    run_scenario(tmp_path, scenario)


# --- partitions


@pytest.mark.parametrize("version", range(6))
def test_one_unknown_partition_keeps_all_others_out_of_a_transaction(tmp_path: Path, version: int) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        unknown = TopicPartition("orders", 7)
        assert await world.add(producer, BILLS, unknown, MISSING, version=version) == {
            BILLS: ErrorCode.OPERATION_NOT_ATTEMPTED,
            unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await state_of(world) == "Empty"

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_verifies_partitions_without_adding_them(tmp_path: Path, version: int) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        await world.add(producer, ORDERS)
        assert await world.add(producer, ORDERS, BILLS, version=version, verify_only=True) == {
            ORDERS: NONE,
            BILLS: ErrorCode.TRANSACTION_ABORTABLE,
        }
        assert [topic.topic for topic in (await described(world)).topics] == ["orders"]
        assert await world.add(producer, ORDERS, MISSING, version=version, verify_only=True) == {
            ORDERS: ErrorCode.OPERATION_NOT_ATTEMPTED,
            MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    run_scenario(tmp_path, scenario)


# --- verification


@pytest.mark.parametrize(
    ("version", "code"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_records_outside_the_transaction_are_refused(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        await world.add(producer, BILLS)
        assert await world.produce(producer, version=version) == code
        assert log_of(world).log_end_offset == 0
        stranger = Producer(producer.id + 50, 0)
        assert await world.produce(stranger, version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("version", [10, 11])
def test_without_verification_records_outside_the_transaction_are_accepted(tmp_path: Path, version: int) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        assert await world.produce(producer, version=version) == NONE
        assert (log_of(world).log_end_offset, log_of(world).last_stable_offset) == (1, 0)
        assert await state_of(world) == "Empty"

    run_scenario(tmp_path, scenario, verifies=False)


# --- offsets


def add_offsets(producer: Producer) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer.id, producer_epoch=producer.epoch, group_id=GROUP
    )


async def commit_offset(
    world: TransactionalBroker, producer: Producer, *partitions: TopicPartition, version: int = 3
) -> dict[TopicPartition, int]:
    """Commit offset 5 of the partitions, or of ORDERS; return the error codes."""
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="")
            ],
        )
        for topic, index in partitions or (ORDERS,)
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=ID, group_id=GROUP, producer_id=producer.id, producer_epoch=producer.epoch, topics=topics
    )
    answer = await world.ask(request, version)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }


async def fetch_offset(world: TransactionalBroker, *, require_stable: bool) -> tuple[int, int]:
    """Return the error code and the offset."""
    wanted = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=wanted)], require_stable=require_stable
    )
    answer = await world.ask(request, 9)
    partition = answer.groups[0].topics[0].partitions[0]
    return partition.error_code, partition.committed_offset


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_offsets_become_visible_with_the_commit(tmp_path: Path, version: int, committed: bool) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        if version < 5:
            assert (await world.ask(add_offsets(producer), min(version, 4))).error_code == NONE
        assert await commit_offset(world, producer, version=version) == {ORDERS: NONE}
        assert [topic.topic for topic in (await described(world)).topics] == ["__consumer_offsets"]
        assert await fetch_offset(world, require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert await fetch_offset(world, require_stable=False) == (NONE, -1)
        assert (await world.end(producer, committed=committed, version=version)).error_code == NONE
        assert Marker(world, OFFSETS).is_commit == committed
        assert await fetch_offset(world, require_stable=True) == (NONE, 5 if committed else -1)

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize(
    ("version", "code"),
    [*((version, ErrorCode.INVALID_TXN_STATE) for version in range(4)), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_offsets_of_a_group_outside_the_transaction_are_refused(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        await world.add(producer, ORDERS)
        assert await commit_offset(world, producer, version=version) == {ORDERS: code}
        assert await fetch_offset(world, require_stable=True) == (NONE, -1)

    run_scenario(tmp_path, scenario)


def test_offsets_of_unknown_partitions_are_refused_and_the_others_are_committed(tmp_path: Path) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        assert await commit_offset(world, producer, MISSING, version=5) == {
            MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        assert await state_of(world) == "Empty"
        assert await commit_offset(world, producer, ORDERS, MISSING, version=5) == {
            ORDERS: NONE,
            MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        await world.end(producer, version=5)
        assert await fetch_offset(world, require_stable=True) == (NONE, 5)

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize("version", range(6))
def test_an_old_client_does_not_learn_that_the_coordinator_is_loading(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers before version 2 stop at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""

    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()

        async def unreachable(*_: object, **__: object) -> dict[TopicPartition, ErrorCode]:
            return {OFFSETS: ErrorCode.NETWORK_EXCEPTION}

        monkeypatch.setattr(world.transactions.verifier, "verify", unreachable)
        assert await commit_offset(world, producer, version=version) == {
            ORDERS: ErrorCode.COORDINATOR_NOT_AVAILABLE if version < 2 else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        }

    run_scenario(tmp_path, scenario)


# --- markers of other coordinators


@pytest.mark.parametrize("version", [1, 2])
def test_markers_are_written_for_other_coordinators(tmp_path: Path, version: int) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        await world.add(producer, ORDERS)
        await world.produce(producer)

        async def write(coordinator_epoch: int) -> dict[TopicPartition, int]:
            topics = [
                WritableTxnMarkerTopic(name=topic, partition_indexes=[index]) for topic, index in (ORDERS, MISSING)
            ]
            marker = WritableTxnMarker(
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                transaction_result=True,
                topics=topics,
                coordinator_epoch=coordinator_epoch,
            )
            (result,) = (await world.ask(WriteTxnMarkersRequest(markers=[marker]), version)).markers
            assert result.producer_id == producer.id
            return {
                TopicPartition(topic.name, partition.partition_index): partition.error_code
                for topic in result.topics
                for partition in topic.partitions
            }

        assert await write(9) == {ORDERS: NONE, MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert Marker(world).is_commit
        assert (await write(8))[ORDERS] == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        (writer,) = (await producers(world)).active_producers
        assert (writer.current_txn_start_offset, writer.coordinator_epoch) == (-1, 9)

    run_scenario(tmp_path, scenario)


def test_a_late_marker_does_not_end_the_next_transaction(tmp_path: Path) -> None:
    """From transaction version 2 on, a marker has a later epoch than the records that it ends."""

    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        await world.produce(producer, version=12)
        marker = WritableTxnMarker(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0])],
            coordinator_epoch=COORDINATOR_EPOCH,
            transaction_version=2,
        )
        answer = await world.ask(WriteTxnMarkersRequest(markers=[marker]), 2)
        assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert log_of(world).last_stable_offset == 0

    run_scenario(tmp_path, scenario)


# --- descriptions


def test_transactions_are_listed_by_state_producer_and_duration(tmp_path: Path) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        producer = await world.init()
        other = await world.init("mover")
        await world.add(producer, ORDERS)

        async def names(version: int = 1, **filters: Any) -> set[str]:
            answer = await listed(world, version, **filters)
            return {state.transactional_id for state in answer.transaction_states}

        assert await names() == await names(0) == {ID, "mover"}
        assert await names(state_filters=["Ongoing"]) == {ID}
        assert await names(state_filters=["Empty", "Ongoing"]) == {ID, "mover"}
        assert await names(producer_id_filters=[other.id]) == {"mover"}
        assert await names(producer_id_filters=[other.id], state_filters=["Ongoing"]) == set()
        (open_,) = (await listed(world, state_filters=["Ongoing"])).transaction_states
        assert (open_.producer_id, open_.transaction_state) == (producer.id, "Ongoing")
        unknown = await listed(world, state_filters=["Nonsense", "Ongoing"])
        assert unknown.unknown_state_filters == ["Nonsense"]
        assert [state.transactional_id for state in unknown.transaction_states] == [ID]

    run_scenario(tmp_path, scenario)


@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [("never-used", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), ("", ErrorCode.INVALID_REQUEST)],
)
def test_an_unknown_transaction_is_not_described(tmp_path: Path, transactional_id: str, code: ErrorCode) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        assert (await described(world, transactional_id)).error_code == code

    run_scenario(tmp_path, scenario)


def test_only_the_leader_describes_the_producers_of_a_partition(tmp_path: Path) -> None:
    async def scenario(world: TransactionalBroker) -> None:
        assert (await producers(world, ORDERS)).active_producers == []
        for partition, code in (
            (MISSING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (TopicPartition("orders", 7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (ELSEWHERE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ):
            found = await producers(world, partition)
            assert (found.error_code, found.active_producers) == (code, [])

    run_scenario(tmp_path, scenario)
