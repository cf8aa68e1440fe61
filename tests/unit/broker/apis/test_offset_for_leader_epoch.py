"""OffsetForLeaderEpoch returns where an epoch ended, so that a client can check whether its records still hold."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.broker.apis.offset_for_leader_epoch import handle_offset_for_leader_epoch
from barnabas.common.errors import ErrorCode
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.broker.apis.replicated_broker import TOPIC, ReplicatedBroker
from tests.unit.broker.replication.leader import registration


def _ask(
    tmp_path: Path,
    epoch: int,
    *,
    state: PartitionRegistration | None = None,
    then: PartitionRegistration | None = None,
    current_leader_epoch: int = -1,
    partition: int = 0,
) -> EpochEndOffset:
    """Ask a leader that has written two records in the epoch of ``state`` (5), and follows ``then`` afterwards."""

    async def main() -> EpochEndOffset:
        world = ReplicatedBroker(tmp_path, state)
        world.append(2)
        if then is not None and len(then.replicas) == 1:
            world.leader_replicas.end(world.partition, ErrorCode.NONE)
            world.partition.update(then)
        elif then is not None:
            world.follow(then)
        wanted = OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=epoch
        )
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[wanted])])
        answer = await world.ask(handle_offset_for_leader_epoch, request, 4)
        world.close()
        result: EpochEndOffset = answer.topics[0].partitions[0]
        return result

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (3, (3, 0)),  # Before all known epochs.
        (5, (5, 2)),
        (6, (5, 2)),  # No leader wrote in it.
        (7, (7, 2)),  # The leader's own epoch, in which it has not written yet.
        (8, (-1, -1)),
    ],
)
@pytest.mark.parametrize("replicas", [(1, 2, 3), (1,)])
def test_an_epoch_ends_where_the_next_one_begins(
    tmp_path: Path, replicas: tuple[int, ...], epoch: int, expected: tuple[int, int]
) -> None:
    state = registration(*replicas, replicas=replicas)
    then = registration(*replicas, replicas=replicas, leader_epoch=7, partition_epoch=11)
    answer = _ask(tmp_path, epoch, state=state, then=then)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (ErrorCode.NONE, *expected)


@pytest.mark.parametrize(
    ("current_leader_epoch", "error"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.NONE), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_request_with_another_leader_epoch_receives_an_error(
    tmp_path: Path, current_leader_epoch: int, error: ErrorCode
) -> None:
    assert _ask(tmp_path, 5, current_leader_epoch=current_leader_epoch).error_code == error


def test_only_the_leader_returns_epoch_ends(tmp_path: Path) -> None:
    led_by_another = registration(2, 3, leader=2, leader_epoch=6, partition_epoch=11)
    assert _ask(tmp_path, 5, then=led_by_another).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_unknown_partition_has_no_epochs(tmp_path: Path) -> None:
    answer = _ask(tmp_path, 5, partition=9)
    assert (answer.error_code, answer.end_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
