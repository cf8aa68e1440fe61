"""Every API of Kafka 4.3.1: its number, its versions, and the listeners that serve it.

The table lists Kafka's APIs, not the advertised ones: a node advertises the APIs that it has handlers for.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = ["API_TABLE", "ApiInfo", "ApiKey"]


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class ApiInfo(NamedTuple):
    """``lowest`` to ``highest`` are the stable versions; both flexible fields are the first flexible version."""

    name: str
    lowest: int
    highest: int
    request_flexible_since: int
    response_flexible_since: int
    on_broker: bool
    on_controller: bool
    forwardable: bool
    cluster_action: bool


_NEVER = 32767

API_TABLE: dict[ApiKey, ApiInfo] = {
    ApiKey.PRODUCE: ApiInfo("Produce", 3, 13, 9, 9, True, False, False, False),
    ApiKey.FETCH: ApiInfo("Fetch", 4, 18, 12, 12, True, True, False, False),
    ApiKey.LIST_OFFSETS: ApiInfo("ListOffsets", 1, 11, 6, 6, True, False, False, False),
    ApiKey.METADATA: ApiInfo("Metadata", 0, 13, 9, 9, True, False, False, False),
    ApiKey.OFFSET_COMMIT: ApiInfo("OffsetCommit", 2, 10, 8, 8, True, False, False, False),
    ApiKey.OFFSET_FETCH: ApiInfo("OffsetFetch", 1, 10, 6, 6, True, False, False, False),
    ApiKey.FIND_COORDINATOR: ApiInfo("FindCoordinator", 0, 6, 3, 3, True, False, False, False),
    ApiKey.JOIN_GROUP: ApiInfo("JoinGroup", 0, 9, 6, 6, True, False, False, False),
    ApiKey.HEARTBEAT: ApiInfo("Heartbeat", 0, 4, 4, 4, True, False, False, False),
    ApiKey.LEAVE_GROUP: ApiInfo("LeaveGroup", 0, 5, 4, 4, True, False, False, False),
    ApiKey.SYNC_GROUP: ApiInfo("SyncGroup", 0, 5, 4, 4, True, False, False, False),
    ApiKey.DESCRIBE_GROUPS: ApiInfo("DescribeGroups", 0, 6, 5, 5, True, False, False, False),
    ApiKey.LIST_GROUPS: ApiInfo("ListGroups", 0, 5, 3, 3, True, False, False, False),
    ApiKey.SASL_HANDSHAKE: ApiInfo("SaslHandshake", 0, 1, _NEVER, _NEVER, True, True, False, False),
    ApiKey.API_VERSIONS: ApiInfo("ApiVersions", 0, 4, 3, 3, True, True, False, False),
    ApiKey.CREATE_TOPICS: ApiInfo("CreateTopics", 2, 7, 5, 5, True, True, True, False),
    ApiKey.DELETE_TOPICS: ApiInfo("DeleteTopics", 1, 6, 4, 4, True, True, True, False),
    ApiKey.DELETE_RECORDS: ApiInfo("DeleteRecords", 0, 2, 2, 2, True, False, False, False),
    ApiKey.INIT_PRODUCER_ID: ApiInfo("InitProducerId", 0, 5, 2, 2, True, False, False, False),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ApiInfo("OffsetForLeaderEpoch", 2, 4, 4, 4, True, False, False, False),
    ApiKey.ADD_PARTITIONS_TO_TXN: ApiInfo("AddPartitionsToTxn", 0, 5, 3, 3, True, False, False, False),
    ApiKey.ADD_OFFSETS_TO_TXN: ApiInfo("AddOffsetsToTxn", 0, 4, 3, 3, True, False, False, False),
    ApiKey.END_TXN: ApiInfo("EndTxn", 0, 5, 3, 3, True, False, False, False),
    ApiKey.WRITE_TXN_MARKERS: ApiInfo("WriteTxnMarkers", 1, 2, 1, 1, True, False, False, True),
    ApiKey.TXN_OFFSET_COMMIT: ApiInfo("TxnOffsetCommit", 0, 5, 3, 3, True, False, False, False),
    ApiKey.DESCRIBE_ACLS: ApiInfo("DescribeAcls", 1, 3, 2, 2, True, True, False, False),
    ApiKey.CREATE_ACLS: ApiInfo("CreateAcls", 1, 3, 2, 2, True, True, True, False),
    ApiKey.DELETE_ACLS: ApiInfo("DeleteAcls", 1, 3, 2, 2, True, True, True, False),
    ApiKey.DESCRIBE_CONFIGS: ApiInfo("DescribeConfigs", 1, 4, 4, 4, True, True, False, False),
    ApiKey.ALTER_CONFIGS: ApiInfo("AlterConfigs", 0, 2, 2, 2, True, True, True, False),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ApiInfo("AlterReplicaLogDirs", 1, 2, 2, 2, True, False, False, False),
    ApiKey.DESCRIBE_LOG_DIRS: ApiInfo("DescribeLogDirs", 1, 5, 2, 2, True, False, False, False),
    ApiKey.SASL_AUTHENTICATE: ApiInfo("SaslAuthenticate", 0, 2, 2, 2, True, True, False, False),
    ApiKey.CREATE_PARTITIONS: ApiInfo("CreatePartitions", 0, 3, 2, 2, True, True, True, False),
    ApiKey.CREATE_DELEGATION_TOKEN: ApiInfo("CreateDelegationToken", 1, 3, 2, 2, True, True, True, False),
    ApiKey.RENEW_DELEGATION_TOKEN: ApiInfo("RenewDelegationToken", 1, 2, 2, 2, True, True, True, False),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ApiInfo("ExpireDelegationToken", 1, 2, 2, 2, True, True, True, False),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ApiInfo("DescribeDelegationToken", 1, 3, 2, 2, True, True, False, False),
    ApiKey.DELETE_GROUPS: ApiInfo("DeleteGroups", 0, 2, 2, 2, True, False, False, False),
    ApiKey.ELECT_LEADERS: ApiInfo("ElectLeaders", 0, 2, 2, 2, True, True, True, False),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ApiInfo("IncrementalAlterConfigs", 0, 1, 1, 1, True, True, True, False),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ApiInfo("AlterPartitionReassignments", 0, 1, 0, 0, True, True, True, False),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ApiInfo("ListPartitionReassignments", 0, 0, 0, 0, True, True, True, False),
    ApiKey.OFFSET_DELETE: ApiInfo("OffsetDelete", 0, 0, _NEVER, _NEVER, True, False, False, False),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ApiInfo("DescribeClientQuotas", 0, 1, 1, 1, True, False, False, False),
    ApiKey.ALTER_CLIENT_QUOTAS: ApiInfo("AlterClientQuotas", 0, 1, 1, 1, True, True, True, False),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ApiInfo(
        "DescribeUserScramCredentials", 0, 0, 0, 0, True, True, False, False
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ApiInfo("AlterUserScramCredentials", 0, 0, 0, 0, True, True, True, False),
    ApiKey.VOTE: ApiInfo("Vote", 0, 2, 0, 0, False, True, False, True),
    ApiKey.BEGIN_QUORUM_EPOCH: ApiInfo("BeginQuorumEpoch", 0, 1, 1, 1, False, True, False, True),
    ApiKey.END_QUORUM_EPOCH: ApiInfo("EndQuorumEpoch", 0, 1, 1, 1, False, True, False, True),
    ApiKey.DESCRIBE_QUORUM: ApiInfo("DescribeQuorum", 0, 2, 0, 0, True, True, True, True),
    ApiKey.ALTER_PARTITION: ApiInfo("AlterPartition", 2, 3, 0, 0, False, True, False, True),
    ApiKey.UPDATE_FEATURES: ApiInfo("UpdateFeatures", 0, 2, 0, 0, True, True, True, True),
    ApiKey.ENVELOPE: ApiInfo("Envelope", 0, 0, 0, 0, False, True, False, True),
    ApiKey.FETCH_SNAPSHOT: ApiInfo("FetchSnapshot", 0, 1, 0, 0, False, True, False, False),
    ApiKey.DESCRIBE_CLUSTER: ApiInfo("DescribeCluster", 0, 2, 0, 0, True, True, False, False),
    ApiKey.DESCRIBE_PRODUCERS: ApiInfo("DescribeProducers", 0, 0, 0, 0, True, False, False, False),
    ApiKey.BROKER_REGISTRATION: ApiInfo("BrokerRegistration", 0, 4, 0, 0, False, True, False, True),
    ApiKey.BROKER_HEARTBEAT: ApiInfo("BrokerHeartbeat", 0, 2, 0, 0, False, True, False, True),
    ApiKey.UNREGISTER_BROKER: ApiInfo("UnregisterBroker", 0, 0, 0, 0, True, True, True, False),
    ApiKey.DESCRIBE_TRANSACTIONS: ApiInfo("DescribeTransactions", 0, 0, 0, 0, True, False, False, False),
    ApiKey.LIST_TRANSACTIONS: ApiInfo("ListTransactions", 0, 2, 0, 0, True, False, False, False),
    ApiKey.ALLOCATE_PRODUCER_IDS: ApiInfo("AllocateProducerIds", 0, 0, 0, 0, False, True, True, True),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ApiInfo("ConsumerGroupHeartbeat", 0, 1, 0, 0, True, False, False, False),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ApiInfo("ConsumerGroupDescribe", 0, 1, 0, 0, True, False, False, False),
    ApiKey.CONTROLLER_REGISTRATION: ApiInfo("ControllerRegistration", 0, 0, 0, 0, False, True, False, False),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: ApiInfo("GetTelemetrySubscriptions", 0, 0, 0, 0, True, False, False, False),
    ApiKey.PUSH_TELEMETRY: ApiInfo("PushTelemetry", 0, 0, 0, 0, True, False, False, False),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ApiInfo("AssignReplicasToDirs", 0, 0, 0, 0, False, True, False, False),
    ApiKey.LIST_CONFIG_RESOURCES: ApiInfo("ListConfigResources", 0, 1, 0, 0, True, False, False, False),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ApiInfo("DescribeTopicPartitions", 0, 0, 0, 0, True, False, False, False),
    ApiKey.SHARE_GROUP_HEARTBEAT: ApiInfo("ShareGroupHeartbeat", 1, 1, 0, 0, True, False, False, False),
    ApiKey.SHARE_GROUP_DESCRIBE: ApiInfo("ShareGroupDescribe", 1, 1, 0, 0, True, False, False, False),
    ApiKey.SHARE_FETCH: ApiInfo("ShareFetch", 1, 2, 0, 0, True, False, False, False),
    ApiKey.SHARE_ACKNOWLEDGE: ApiInfo("ShareAcknowledge", 1, 2, 0, 0, True, False, False, False),
    ApiKey.ADD_RAFT_VOTER: ApiInfo("AddRaftVoter", 0, 1, 0, 0, True, True, True, False),
    ApiKey.REMOVE_RAFT_VOTER: ApiInfo("RemoveRaftVoter", 0, 0, 0, 0, True, True, True, False),
    ApiKey.UPDATE_RAFT_VOTER: ApiInfo("UpdateRaftVoter", 0, 0, 0, 0, False, True, False, False),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ApiInfo("InitializeShareGroupState", 0, 0, 0, 0, True, False, False, True),
    ApiKey.READ_SHARE_GROUP_STATE: ApiInfo("ReadShareGroupState", 0, 0, 0, 0, True, False, False, True),
    ApiKey.WRITE_SHARE_GROUP_STATE: ApiInfo("WriteShareGroupState", 0, 1, 0, 0, True, False, False, True),
    ApiKey.DELETE_SHARE_GROUP_STATE: ApiInfo("DeleteShareGroupState", 0, 0, 0, 0, True, False, False, True),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ApiInfo("ReadShareGroupStateSummary", 0, 1, 0, 0, True, False, False, True),
    ApiKey.STREAMS_GROUP_HEARTBEAT: ApiInfo("StreamsGroupHeartbeat", 0, 0, 0, 0, True, False, False, False),
    ApiKey.STREAMS_GROUP_DESCRIBE: ApiInfo("StreamsGroupDescribe", 0, 0, 0, 0, True, False, False, False),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ApiInfo("DescribeShareGroupOffsets", 0, 1, 0, 0, True, False, False, False),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ApiInfo("AlterShareGroupOffsets", 0, 0, 0, 0, True, False, False, False),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ApiInfo("DeleteShareGroupOffsets", 0, 0, 0, 0, True, False, False, False),
}
