"""How ISR proposals of several partitions are sent to the controller, and how its results are applied."""

from __future__ import annotations

from barnabas.broker.replication.isr_changes import IsrChanges
from barnabas.broker.replication.leader_replica import LeaderReplica
from barnabas.broker.replication.partition_leadership import IsrProposal
from barnabas.common.errors import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from tests.unit.broker.replication.leader import Leader, registration


def proposing(changes: IsrChanges, index: int = 0) -> Leader:
    """A leader whose follower 3 has just returned; its proposal waits in ``changes``."""
    leader = Leader(state=registration(1, 2))
    leader.replica.topic_partition = TopicPartition("orders", index)

    def submit(replica: LeaderReplica, proposal: IsrProposal) -> None:
        leader.proposals.append(proposal)
        changes.submit(replica, proposal)

    leader.replica._submit = submit
    leader.fetch(3, 0)
    return leader


def send(changes: IsrChanges, version: int = 3) -> AlterPartitionRequest | None:
    return changes.next_request(1, 101, version)


def proposed_partitions(request: AlterPartitionRequest | None) -> list[int]:
    assert request is not None
    return [partition.partition_index for topic in request.topics for partition in topic.partitions]


def answer(leader: Leader, *outcomes: tuple[int, ErrorCode]) -> AlterPartitionResponse:
    data = [
        AlterPartitionResponsePartitionData(
            partition_index=index, error_code=code, leader_id=1, leader_epoch=5, isr=[1, 2, 3], partition_epoch=11
        )
        for index, code in outcomes
    ]
    topic = AlterPartitionResponseTopicData(topic_id=leader.partition.topic_id, partitions=data)
    return AlterPartitionResponse(topics=[topic])


def test_queued_proposals_are_sent_in_one_request_at_a_time() -> None:
    changes = IsrChanges()
    leaders = [proposing(changes, index) for index in range(3)]
    request = send(changes)
    assert proposed_partitions(request) == [0, 1, 2]
    assert request is not None
    (asks, *_) = request.topics[0].partitions
    assert (request.broker_id, request.broker_epoch, len(request.topics)) == (1, 101, 1)
    assert [(state.broker_id, state.broker_epoch) for state in asks.new_isr_with_epochs] == [
        (1, 101),
        (2, -1),
        (3, 103),
    ]
    assert (asks.leader_epoch, asks.partition_epoch, asks.new_isr) == (5, 10, [])
    proposing(changes, 7)
    assert send(changes) is None
    changes.answered(answer(leaders[0], *((index, ErrorCode.NONE) for index in range(3))), 0)
    assert [leader.partition.isr_count for leader in leaders] == [3, 3, 3]
    assert proposed_partitions(send(changes)) == [7]


def test_an_older_controller_receives_no_broker_epochs() -> None:
    changes = IsrChanges()
    proposing(changes)
    request = send(changes, version=2)
    assert request is not None
    (asks,) = request.topics[0].partitions
    assert (asks.new_isr, asks.new_isr_with_epochs) == ([1, 2, 3], [])


def test_a_refused_partition_does_not_affect_the_others() -> None:
    changes = IsrChanges()
    refused, taken = proposing(changes, 0), proposing(changes, 1)
    send(changes)
    changes.answered(answer(refused, (0, ErrorCode.INELIGIBLE_REPLICA), (1, ErrorCode.NONE)), 0)
    assert (refused.partition.isr_count, taken.partition.isr_count) == (2, 3)
    assert (refused.stats.failed_updates, len(changes)) == (1, 0)


def test_proposals_that_the_response_omits_are_sent_again() -> None:
    changes = IsrChanges()
    leader, _ = proposing(changes, 0), proposing(changes, 1)
    send(changes)
    changes.answered(answer(leader, (0, ErrorCode.NONE)), 0)
    assert proposed_partitions(send(changes)) == [1]


def test_all_proposals_are_sent_again_after_a_top_level_error() -> None:
    changes = IsrChanges()
    proposing(changes, 0)
    send(changes)
    proposing(changes, 1)
    refusal = AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert changes.answered(refusal, 0) is ErrorCode.STALE_BROKER_EPOCH
    assert proposed_partitions(send(changes)) == [0, 1]
    changes.failed()
    assert proposed_partitions(send(changes)) == [0, 1]


def test_an_abandoned_proposal_is_dropped() -> None:
    changes = IsrChanges()
    leader = proposing(changes)
    leader.replica.update(registration(1, 2, partition_epoch=11), 0)
    changes.submit(leader.replica, leader.proposals[0])
    assert send(changes) is None


def test_a_newer_proposal_replaces_a_failed_one() -> None:
    changes = IsrChanges()
    leader = proposing(changes)
    send(changes)
    leader.replica.update(registration(1, 2, partition_epoch=12), 0)
    leader.fetch(3, 0)
    newer = leader.proposals[-1]
    assert newer.partition_epoch == 12
    changes.failed()
    request = send(changes)
    assert request is not None
    assert request.topics[0].partitions[0].partition_epoch == 12


def test_an_unknown_error_code_is_an_error() -> None:
    changes = IsrChanges()
    leader = proposing(changes)
    send(changes)
    changes.answered(answer(leader, (0, 9_999)), 0)  # type: ignore[arg-type]
    assert leader.partition.isr_count == 2
    assert proposed_partitions(send(changes)) == [0]


def test_only_the_first_of_many_proposals_are_logged_in_full() -> None:
    changes = IsrChanges()
    for index in range(7):
        proposing(changes, index)
    send(changes)
    assert changes.describe_sent().startswith("orders-0 [1, 2, 3], orders-1 [1, 2, 3]")
    assert changes.describe_sent().endswith("orders-4 [1, 2, 3] and 2 more")
