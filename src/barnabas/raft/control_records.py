"""Encodes and decodes the quorum's own records.

They take offsets in the log like any other record; the layers above the quorum never see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.protocol.control_record import ControlRecordType, decode_control_record, encode_control_record
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.protocol.records.kraft_version_record import KRaftVersionRecord
from barnabas.protocol.records.leader_change_message import LeaderChangeMessage
from barnabas.protocol.records.leader_change_message import Voter as ChangeVoter
from barnabas.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.protocol.records.voters_record import Endpoint as VoterEndpoint
from barnabas.protocol.records.voters_record import KRaftVersionFeature, Voter, VotersRecord
from barnabas.protocol.schema import Message
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet

__all__ = [
    "QuorumRecord",
    "build_control_batch",
    "leader_change",
    "read_control_records",
    "voter_set_of",
    "voters_record",
]

QuorumRecord = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord

_TYPE_OF_CLASS: dict[type[Message], ControlRecordType] = {
    LeaderChangeMessage: ControlRecordType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlRecordType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlRecordType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlRecordType.KRAFT_VERSION,
    VotersRecord: ControlRecordType.KRAFT_VOTERS,
}


def build_control_batch(
    records: Iterable[QuorumRecord], *, base_offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)
    for index, record in enumerate(records):
        key, value = encode_control_record(_TYPE_OF_CLASS[type(record)], record)
        builder.append(base_offset + index, timestamp_ms, key, value)
    return builder.build()


def read_control_records(batch: BatchView) -> list[tuple[int, Message]]:
    """Return (offset, message) of each record of a control batch; anything malformed is a DecodeError."""
    return [(record.offset, decode_control_record(record.key, record.value).message) for record in batch.records()]


def leader_change(leader_id: int, voters: Sequence[ReplicaKey], granting: Sequence[ReplicaKey]) -> LeaderChangeMessage:
    """Always version 0: Kafka 4.3 knows version 1 and does not write it."""
    return LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[ChangeVoter(voter_id=key.id) for key in voters],
        granting_voters=[ChangeVoter(voter_id=key.id) for key in granting],
    )


def voters_record(voters: VoterSet) -> VotersRecord:
    return VotersRecord(
        version=0,
        voters=[
            Voter(
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[
                    VoterEndpoint(name=name, host=endpoint.host, port=endpoint.port)
                    for name, endpoint in voter.listeners.items()
                ],
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=voter.kraft_version_min, max_supported_version=voter.kraft_version_max
                ),
            )
            for voter in voters
        ],
    )


def voter_set_of(record: VotersRecord) -> VoterSet:
    return VoterSet(
        VoterNode(
            key=ReplicaKey(voter.voter_id, voter.voter_directory_id),
            listeners={endpoint.name: Endpoint(endpoint.host, endpoint.port) for endpoint in voter.endpoints},
            kraft_version_min=voter.kraft_version_feature.min_supported_version,
            kraft_version_max=voter.kraft_version_feature.max_supported_version,
        )
        for voter in record.voters
    )
