"""The quorum's own records, and the control batches that carry them.

A control record has a four-byte key (version 0, type) and an unframed message as its value. They take offsets in
the log like any other record; the layers above the quorum never see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from struct import Struct

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.protocol.records.kraft_version_record import KRaftVersionRecord
from barnabas.protocol.records.leader_change_message import LeaderChangeMessage
from barnabas.protocol.records.leader_change_message import Voter as ChangeVoter
from barnabas.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.protocol.records.voters_record import Endpoint as VoterEndpoint
from barnabas.protocol.records.voters_record import KRaftVersionFeature, Voter, VotersRecord
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet

__all__ = [
    "ControlRecord",
    "ControlRecordType",
    "build_control_batch",
    "leader_change",
    "read_control_records",
    "voter_set_of",
    "voters_record",
]

_KEY = Struct(">hh")

ControlRecord = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord


class ControlRecordType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CLASS_OF_TYPE: dict[int, type[ControlRecord]] = {
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}
_TYPE_OF_CLASS = {cls: type_ for type_, cls in _CLASS_OF_TYPE.items()}


def build_control_batch(
    records: Iterable[ControlRecord], *, base_offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)
    for index, record in enumerate(records):
        key = _KEY.pack(0, _TYPE_OF_CLASS[type(record)])
        builder.append(base_offset + index, timestamp_ms, key, record.encode(record.version))
    return builder.build()


def read_control_records(batch: BatchView) -> list[tuple[int, ControlRecord]]:
    """(offset, record) of each control record; one of a type or version that isn't known is a DecodeError."""
    found: list[tuple[int, ControlRecord]] = []
    for record in batch.records():
        if record.key is None or len(record.key) < _KEY.size or record.value is None:
            raise DecodeError(f"control record at offset {record.offset} has no key or no value")
        _, type_ = _KEY.unpack_from(record.key)
        cls = _CLASS_OF_TYPE.get(type_)
        if cls is None:
            raise DecodeError(f"control record at offset {record.offset} has type {type_}, known are 2 to 6")
        version = int.from_bytes(record.value[:2], "big", signed=True)
        if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
            raise DecodeError(f"{cls.__name__} at offset {record.offset} has version {version}, which is not known")
        found.append((record.offset, cls.decode(record.value, version)))
    return found


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
