"""ISR changes proposed to the controller: one request at a time, with all waiting proposals.

A proposal is dropped if its partition no longer waits for it. A proposal that the controller does not answer is sent
again. If a request fails as a whole, all its proposals are sent again.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from barnabas.broker.replication.partition_leadership import CommittedState
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)

if TYPE_CHECKING:
    from barnabas.broker.replication.leader_replica import LeaderReplica
    from barnabas.broker.replication.partition_leadership import IsrProposal
    from barnabas.common.uuid import Uuid
    from barnabas.protocol.messages.alter_partition import AlterPartitionResponse

__all__ = ["IsrChanges"]

_EPOCHS_SINCE = 3
_LOGGED_MAX = 5

_Key = tuple["Uuid", int]
_Item = tuple["LeaderReplica", "IsrProposal"]


class IsrChanges:
    def __init__(self) -> None:
        self._waiting: dict[_Key, _Item] = {}
        self._sent: dict[_Key, _Item] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    def submit(self, leader: LeaderReplica, proposal: IsrProposal) -> None:
        """Add a proposal, replacing an older one of the same partition that was not sent yet."""
        self._waiting[leader.partition.topic_id, leader.topic_partition.partition] = (leader, proposal)

    def next_request(self, broker_id: int, broker_epoch: int, version: int = 3) -> AlterPartitionRequest | None:
        """Return the proposals to send; None if a request is in flight or no proposal waits."""
        if self._sent:
            return None
        self._sent = {key: item for key, item in self._waiting.items() if item[0].is_waiting_for(item[1])}
        self._waiting = {}
        if not self._sent:
            return None
        topics: dict[Uuid, AlterPartitionRequestTopicData] = {}
        for (topic_id, index), (_, proposal) in self._sent.items():
            topic = topics.setdefault(topic_id, AlterPartitionRequestTopicData(topic_id=topic_id))
            topic.partitions.append(_to_request(index, proposal, version))
        return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))

    def describe_sent(self) -> str:
        """Describe the first few of the proposals in flight."""
        some = [
            f"{leader.topic_partition} {list(proposal.members)}"
            for leader, proposal in islice(self._sent.values(), _LOGGED_MAX)
        ]
        more = len(self._sent) - len(some)
        return ", ".join(some) + (f" and {more} more" if more else "")

    def answered(self, response: AlterPartitionResponse, now_ms: int) -> ErrorCode:
        """Deliver the controller's answers. Return the top-level error; if one is set, all proposals are sent again."""
        error = _error_code(response.error_code)
        if error is not ErrorCode.NONE:
            self.failed()
            return error
        sent, self._sent = self._sent, {}
        for topic in response.topics:
            for data in topic.partitions:
                item = sent.pop((topic.topic_id, data.partition_index), None)
                if item is None:
                    continue
                leader, proposal = item
                error = _error_code(data.error_code)
                if error is not ErrorCode.NONE:
                    leader.isr_refused(proposal, error, now_ms)
                    continue
                state = CommittedState(
                    data.leader_id, data.leader_epoch, tuple(data.isr), data.partition_epoch, data.leader_recovery_state
                )
                leader.isr_changed(proposal, state, now_ms)
        self._waiting = {**sent, **self._waiting}
        return ErrorCode.NONE

    def failed(self) -> None:
        """Handle a request without an answer, or with an answer that lacks the partitions."""
        self._waiting = {**self._sent, **self._waiting}
        self._sent = {}


def _to_request(index: int, proposal: IsrProposal, version: int) -> AlterPartitionRequestPartitionData:
    requested = AlterPartitionRequestPartitionData(
        partition_index=index,
        leader_epoch=proposal.leader_epoch,
        leader_recovery_state=proposal.leader_recovery_state,
        partition_epoch=proposal.partition_epoch,
    )
    if version >= _EPOCHS_SINCE:
        requested.new_isr_with_epochs = [
            BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in proposal.isr
        ]
    else:
        requested.new_isr = list(proposal.members)
    return requested


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
