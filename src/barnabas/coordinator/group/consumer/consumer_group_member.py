"""A member of a consumer group: its subscription, and how far it has come on the way to its target assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.protocol.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from barnabas.protocol.records.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)

__all__ = [
    "NO_PARTITIONS",
    "ClassicMember",
    "ConsumerGroupMember",
    "MemberState",
    "PartitionEpochs",
    "with_epoch",
]

PartitionEpochs = Mapping[Uuid, Mapping[int, int]]
"""Partitions of topics, each with the epoch in which the member received it."""

NO_PARTITIONS: PartitionEpochs = {}


class MemberState(Enum):
    """The value is that of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions before it receives others."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not given up yet."""
    UNKNOWN = 127
    """A newer coordinator wrote a state that this one does not know."""


_STATES = {state.value: state for state in MemberState}


class ClassicMember(NamedTuple):
    """What only a member of the classic protocol has."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names of assignors, with the member's subscription in the embedded protocol."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)
    classic: ClassicMember | None = None
    """None for a member of the consumer protocol."""

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def epoch_of(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the epoch in which the member received a partition that it has, or must give up."""
        for partitions in (self.assigned, self.pending_revocation):
            epoch = partitions.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    # -- records

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        classic = self.classic
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
            subscribed_topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols],
            ),
        )

    def current_assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state.value,
            assigned_partitions=_to_record(self.assigned),
            partitions_pending_revocation=_to_record(self.pending_revocation),
        )


def classic_member(value: ClassicMemberMetadata | None) -> ClassicMember | None:
    if value is None:
        return None
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in value.supported_protocols)
    return ClassicMember(value.session_timeout_ms, protocols)


def state_of(value: int) -> MemberState:
    return _STATES.get(value, MemberState.UNKNOWN)


def with_epoch(partitions: Mapping[Uuid, Iterable[int]], epoch: int) -> PartitionEpochs:
    """Return the partitions, all received in one epoch."""
    return {topic_id: dict.fromkeys(of_topic, epoch) for topic_id, of_topic in partitions.items()}


def partitions_of(value: Sequence[TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """Read partitions of a record. Older records have no epochs: then the member's epoch applies."""
    if not value:
        return NO_PARTITIONS
    partitions: dict[Uuid, Mapping[int, int]] = {}
    for topic in value:
        epochs = topic.assignment_epochs
        if epochs is not None and len(epochs) == len(topic.partitions):
            partitions[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
        else:
            partitions[topic.topic_id] = dict.fromkeys(topic.partitions, max(member_epoch, 0))
    return partitions


def _to_record(partitions: PartitionEpochs) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic_id, epochs in partitions.items()
    ]
