"""A small, valid request for each API that a broker serves, in each of its versions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    remove_raft_voter,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    streams_group_describe,
    streams_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.peers.every_share_request import SHARE_MAKERS

__all__ = ["Target", "request_for"]

_ANOTHER_CLUSTER = "another cluster"
_UNUSED_TRANSACTIONAL_ID = "never-initialized"


class Target(NamedTuple):
    """The subjects of the requests: an existing topic, a group, and a topic that may be created and deleted."""

    topic: str
    topic_id: Uuid
    group: str
    new_topic: str


def _produce(at: Target, version: int) -> Any:
    batch = build_batch([Record(0, int(time.time() * 1000), b"key", b"value", ())])
    data = [produce.PartitionProduceData(index=0, records=batch)]
    named = {"topic_id": at.topic_id} if version >= 13 else {"name": at.topic}
    return produce.ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[produce.TopicProduceData(partition_data=data, **named)]
    )


def _fetch(at: Target, version: int) -> Any:
    named = {"topic_id": at.topic_id} if version >= 13 else {"topic": at.topic}
    wanted = [fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
    return fetch.FetchRequest(max_wait_ms=10, min_bytes=0, topics=[fetch.FetchTopic(partitions=wanted, **named)])


def _list_offsets(at: Target, version: int) -> Any:
    partitions = [list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=at.topic, partitions=partitions)]
    )


def _metadata(at: Target, version: int) -> Any:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=at.topic)])


def _offset_commit(at: Target, version: int) -> Any:
    partitions = [
        offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    ]
    named = {"topic_id": at.topic_id} if version >= 10 else {"name": at.topic}
    return offset_commit.OffsetCommitRequest(
        group_id=at.group, topics=[offset_commit.OffsetCommitRequestTopic(partitions=partitions, **named)]
    )


def _offset_fetch(at: Target, version: int) -> Any:
    if version < 8:
        topics = [offset_fetch.OffsetFetchRequestTopic(name=at.topic, partition_indexes=[0])]
        return offset_fetch.OffsetFetchRequest(group_id=at.group, topics=topics)
    named = {"topic_id": at.topic_id} if version >= 10 else {"name": at.topic}
    wanted = [offset_fetch.OffsetFetchRequestTopics(partition_indexes=[0], **named)]
    return offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id=at.group, topics=wanted)]
    )


def _find_coordinator(at: Target, version: int) -> Any:
    if version < 4:
        return find_coordinator.FindCoordinatorRequest(key=at.group)
    return find_coordinator.FindCoordinatorRequest(coordinator_keys=[at.group])


def _join_group(at: Target, version: int) -> Any:
    return join_group.JoinGroupRequest(
        group_id=f"{at.group}-joined-{version}",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=10_000 if version else -1,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def _heartbeat(at: Target, version: int) -> Any:
    return heartbeat.HeartbeatRequest(group_id=at.group, generation_id=1, member_id="nobody")


def _leave_group(at: Target, version: int) -> Any:
    if version < 3:
        return leave_group.LeaveGroupRequest(group_id=at.group, member_id="nobody")
    return leave_group.LeaveGroupRequest(group_id=at.group, members=[leave_group.MemberIdentity(member_id="nobody")])


def _sync_group(at: Target, version: int) -> Any:
    named: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return sync_group.SyncGroupRequest(group_id=at.group, generation_id=1, member_id="nobody", **named)


def _create_topics(at: Target, version: int) -> Any:
    topic = create_topics.CreatableTopic(
        name=at.new_topic,
        num_partitions=1,
        replication_factor=1,
        configs=[create_topics.CreatableTopicConfig(name="retention.ms", value="60000")],
    )
    return create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def _delete_topics(at: Target, version: int) -> Any:
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=[at.new_topic], timeout_ms=10_000)
    return delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=at.new_topic)], timeout_ms=10_000
    )


def _delete_records(at: Target, version: int) -> Any:
    partitions = [delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
    return delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name=at.topic, partitions=partitions)], timeout_ms=10_000
    )


def _init_producer_id(at: Target, version: int) -> Any:
    return init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def _offset_for_leader_epoch(at: Target, version: int) -> Any:
    partitions = [offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic=at.topic, partitions=partitions)]
    )


def _create_acls(at: Target, version: int) -> Any:
    acl = create_acls.AclCreation(
        resource_type=2, resource_name=at.topic, principal="User:alice", host="*", operation=3, permission_type=3
    )
    return create_acls.CreateAclsRequest(creations=[acl])


def _delete_acls(at: Target, version: int) -> Any:
    filter_ = delete_acls.DeleteAclsFilter(
        resource_type_filter=2, resource_name_filter=at.topic, operation=1, permission_type=1,
        principal_filter=None, host_filter=None,
    )  # fmt: skip
    return delete_acls.DeleteAclsRequest(filters=[filter_])


def _describe_acls(at: Target, version: int) -> Any:
    return describe_acls.DescribeAclsRequest(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, operation=1, permission_type=1,
        principal_filter=None, host_filter=None,
    )  # fmt: skip


def _describe_configs(at: Target, version: int) -> Any:
    resources = [
        describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((2, at.topic), (4, "1"), (32, at.group))
    ]
    return describe_configs.DescribeConfigsRequest(resources=resources, include_synonyms=True)


def _alter_replica_log_dirs(at: Target, version: int) -> Any:
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name=at.topic, partitions=[0])
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[alter_replica_log_dirs.AlterReplicaLogDir(path="/nowhere", topics=[topic])]
    )


def _describe_log_dirs(at: Target, version: int) -> Any:
    return describe_log_dirs.DescribeLogDirsRequest(
        topics=[describe_log_dirs.DescribableLogDirTopic(topic=at.topic, partitions=[0])]
    )


def _create_partitions(at: Target, version: int) -> Any:
    topic = create_partitions.CreatePartitionsTopic(name=at.topic, count=40, assignments=None)
    return create_partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)


def _incremental_alter_configs(at: Target, version: int) -> Any:
    change = incremental_alter_configs.AlterableConfig(name="max.message.bytes", config_operation=0, value="1000000")
    resources = [
        incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=at.topic, configs=[change])
    ]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources)


def _alter_configs(at: Target, version: int) -> Any:
    config = alter_configs.AlterableConfig(name="max.message.bytes", value="1000000")
    resources = [alter_configs.AlterConfigsResource(resource_type=2, resource_name=at.topic, configs=[config])]
    return alter_configs.AlterConfigsRequest(resources=resources)


def _list_config_resources(at: Target, version: int) -> Any:
    types = [2, 4, 8, 16, 32] if version > 0 else []
    return list_config_resources.ListConfigResourcesRequest(resource_types=types)


def _offset_delete(at: Target, version: int) -> Any:
    partitions = [offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
    return offset_delete.OffsetDeleteRequest(
        group_id=at.group, topics=[offset_delete.OffsetDeleteRequestTopic(name=at.topic, partitions=partitions)]
    )


def _describe_topic_partitions(at: Target, version: int) -> Any:
    return describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=at.topic)]
    )


def _alter_user_scram_credentials(at: Target, version: int) -> Any:
    upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(
        name="somebody", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"salted password"
    )
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=[upsertion])


def _create_delegation_token(at: Target, version: int) -> Any:
    named: dict[str, Any] = {"owner_principal_type": "User", "owner_principal_name": "somebody"} if version >= 3 else {}
    renewer = create_delegation_token.CreatableRenewers(principal_type="User", principal_name="renewer")
    return create_delegation_token.CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1, **named)


def _api_versions(at: Target, version: int) -> Any:
    if version < 3:
        return api_versions.ApiVersionsRequest()
    return api_versions.ApiVersionsRequest(client_software_name="every-request", client_software_version="1.0")


def _alter_client_quotas(at: Target, version: int) -> Any:
    entry = alter_client_quotas.AlterClientQuotasRequestEntryData(
        entity=[alter_client_quotas.EntityData(entity_type="user", entity_name="nobody-yet")],
        ops=[alter_client_quotas.OpData(key="consumer_byte_rate", value=1e9)],
    )
    return alter_client_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=True)


def _alter_partition_reassignments(at: Target, version: int) -> Any:
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=[1])
    topic = alter_partition_reassignments.ReassignableTopic(name=at.topic, partitions=[partition])
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])


def _elect_leaders(at: Target, version: int) -> Any:
    wanted = elect_leaders.TopicPartitions(topic=at.topic, partitions=[0])
    return elect_leaders.ElectLeadersRequest(topic_partitions=[wanted])


def _describe_quorum(at: Target, version: int) -> Any:
    partition = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
    topic = describe_quorum.DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return describe_quorum.DescribeQuorumRequest(topics=[topic])


def _update_features(at: Target, version: int) -> Any:
    level = update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=30)
    return update_features.UpdateFeaturesRequest(feature_updates=[level])


def _add_partitions_to_txn(at: Target, version: int) -> Any:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=at.topic, partitions=[0])]
    if version < 4:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_UNUSED_TRANSACTIONAL_ID, v3_and_below_topics=topics
        )
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id=_UNUSED_TRANSACTIONAL_ID, topics=topics
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def _write_txn_markers(at: Target, version: int) -> Any:
    topic = write_txn_markers.WritableTxnMarkerTopic(name=at.topic, partition_indexes=[0])
    marker = write_txn_markers.WritableTxnMarker(producer_id=77, transaction_result=True, topics=[topic])
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])


def _txn_offset_commit(at: Target, version: int) -> Any:
    offset = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name=at.topic, partitions=[offset])
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=_UNUSED_TRANSACTIONAL_ID, group_id=at.group, topics=[topic]
    )


def _describe_producers(at: Target, version: int) -> Any:
    return describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=at.topic, partition_indexes=[0])]
    )


_MAKERS: dict[ApiKey, Callable[[Target, int], Any]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda at, version: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=at.group,
        member_id="somebody",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[at.topic],
        topic_partitions=[],
    ),
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.DESCRIBE_GROUPS: lambda at, version: describe_groups.DescribeGroupsRequest(groups=[at.group]),
    ApiKey.LIST_GROUPS: lambda at, version: list_groups.ListGroupsRequest(),
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.SASL_AUTHENTICATE: lambda at, version: sasl_authenticate.SaslAuthenticateRequest(),
    ApiKey.SASL_HANDSHAKE: lambda at, version: sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: lambda at, version: renew_delegation_token.RenewDelegationTokenRequest(hmac=b"none"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: lambda at, version: expire_delegation_token.ExpireDelegationTokenRequest(
        hmac=b"none"
    ),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda at, version: describe_delegation_token.DescribeDelegationTokenRequest(
        owners=None
    ),
    ApiKey.DELETE_GROUPS: lambda at, version: delete_groups.DeleteGroupsRequest(groups_names=["no-such-group"]),
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.LIST_CONFIG_RESOURCES: _list_config_resources,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda at, version: describe_client_quotas.DescribeClientQuotasRequest(),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda at, version: (
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda at, version: (
        list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)
    ),
    ApiKey.DESCRIBE_QUORUM: _describe_quorum,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.ADD_RAFT_VOTER: lambda at, version: add_raft_voter.AddRaftVoterRequest(cluster_id=_ANOTHER_CLUSTER),
    ApiKey.REMOVE_RAFT_VOTER: lambda at, version: remove_raft_voter.RemoveRaftVoterRequest(cluster_id=_ANOTHER_CLUSTER),
    ApiKey.UNREGISTER_BROKER: lambda at, version: unregister_broker.UnregisterBrokerRequest(broker_id=77),
    ApiKey.DESCRIBE_CLUSTER: lambda at, version: describe_cluster.DescribeClusterRequest(),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda at, version: streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id=at.group, member_id="somebody", member_epoch=1
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: lambda at, version: streams_group_describe.StreamsGroupDescribeRequest(
        group_ids=[at.group]
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: lambda at, version: add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id=_UNUSED_TRANSACTIONAL_ID, group_id=at.group
    ),
    ApiKey.END_TXN: lambda at, version: end_txn.EndTxnRequest(transactional_id=_UNUSED_TRANSACTIONAL_ID),
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: lambda at, version: describe_transactions.DescribeTransactionsRequest(
        transactional_ids=[_UNUSED_TRANSACTIONAL_ID]
    ),
    ApiKey.LIST_TRANSACTIONS: lambda at, version: list_transactions.ListTransactionsRequest(),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda at, version: consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=[at.group]
    ),
    **SHARE_MAKERS,
}


def request_for(api_key: ApiKey, version: int, target: Target) -> Any:
    """Return the request. Raise KeyError for an API that is not listed: add it here when it is served."""
    return _MAKERS[api_key](target, version)
