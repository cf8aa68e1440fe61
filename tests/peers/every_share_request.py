"""A small, valid request for each API of share groups. A part of ``every_request``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_share_group_offsets,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    write_share_group_state,
)

if TYPE_CHECKING:
    from tests.peers.every_request import Target

__all__ = ["SHARE_MAKERS"]

_MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


def _group(at: Target) -> str:
    return f"{at.group}-queue"


def _heartbeat(at: Target, version: int) -> Any:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=_group(at), member_id=_MEMBER, member_epoch=0, subscribed_topic_names=[at.topic]
    )


def _fetch(at: Target, version: int) -> Any:
    return share_fetch.ShareFetchRequest(
        group_id=_group(at),
        member_id=_MEMBER,
        share_session_epoch=0,
        max_wait_ms=10,
        max_records=5,
        batch_size=5,
        topics=[share_fetch.FetchTopic(topic_id=at.topic_id, partitions=[share_fetch.FetchPartition()])],
    )


def _acknowledge(at: Target, version: int) -> Any:
    return share_acknowledge.ShareAcknowledgeRequest(group_id=_group(at), member_id=_MEMBER, share_session_epoch=1)


def _describe_offsets(at: Target, version: int) -> Any:
    message = describe_share_group_offsets
    topic = message.DescribeShareGroupOffsetsRequestTopic(topic_name=at.topic, partitions=[0])
    group = message.DescribeShareGroupOffsetsRequestGroup(group_id=_group(at), topics=[topic])
    return message.DescribeShareGroupOffsetsRequest(groups=[group])


def _alter_offsets(at: Target, version: int) -> Any:
    message = alter_share_group_offsets
    partition = message.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topic = message.AlterShareGroupOffsetsRequestTopic(topic_name=at.topic, partitions=[partition])
    return message.AlterShareGroupOffsetsRequest(group_id=f"{_group(at)}-altered", topics=[topic])


def _delete_offsets(at: Target, version: int) -> Any:
    message = delete_share_group_offsets
    topic = message.DeleteShareGroupOffsetsRequestTopic(topic_name=at.topic)
    return message.DeleteShareGroupOffsetsRequest(group_id=f"{_group(at)}-altered", topics=[topic])


def _initialize_state(at: Target, version: int) -> Any:
    message = initialize_share_group_state
    partition = message.PartitionData(partition=0, state_epoch=1, start_offset=0)
    topic = message.InitializeStateData(topic_id=at.topic_id, partitions=[partition])
    return message.InitializeShareGroupStateRequest(group_id="every-state", topics=[topic])


def _read_state(at: Target, version: int) -> Any:
    message = read_share_group_state
    topic = message.ReadStateData(topic_id=at.topic_id, partitions=[message.PartitionData(leader_epoch=0)])
    return message.ReadShareGroupStateRequest(group_id="every-state", topics=[topic])


def _write_state(at: Target, version: int) -> Any:
    message = write_share_group_state
    partition = message.PartitionData(partition=0, state_epoch=1, leader_epoch=0, start_offset=0)
    topic = message.WriteStateData(topic_id=at.topic_id, partitions=[partition])
    return message.WriteShareGroupStateRequest(group_id="every-state", topics=[topic])


def _delete_state(at: Target, version: int) -> Any:
    message = delete_share_group_state
    topic = message.DeleteStateData(topic_id=at.topic_id, partitions=[message.PartitionData()])
    return message.DeleteShareGroupStateRequest(group_id="every-state", topics=[topic])


def _read_summary(at: Target, version: int) -> Any:
    message = read_share_group_state_summary
    topic = message.ReadStateSummaryData(topic_id=at.topic_id, partitions=[message.PartitionData()])
    return message.ReadShareGroupStateSummaryRequest(group_id="every-state", topics=[topic])


SHARE_MAKERS: dict[ApiKey, Callable[[Target, int], Any]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: _heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: lambda at, version: share_group_describe.ShareGroupDescribeRequest(
        group_ids=[_group(at)]
    ),
    ApiKey.SHARE_FETCH: _fetch,
    ApiKey.SHARE_ACKNOWLEDGE: _acknowledge,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _delete_offsets,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _initialize_state,
    ApiKey.READ_SHARE_GROUP_STATE: _read_state,
    ApiKey.WRITE_SHARE_GROUP_STATE: _write_state,
    ApiKey.DELETE_SHARE_GROUP_STATE: _delete_state,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _read_summary,
}
