"""Every API module declares the rights that Kafka 4.3.1 requires, and no others.

An API that the controller decides declares none: the controller checks the rights of the client's principal.
Creating a delegation token requires rights on both.
"""

from __future__ import annotations

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.network.api_handler import HandlerTable
from barnabas.protocol.api_keys import API_TABLE, ApiKey

RIGHTS = {
    ApiKey.PRODUCE: "TRANSACTIONAL_ID:WRITE TOPIC:WRITE",
    ApiKey.FETCH: "TOPIC:READ CLUSTER:CLUSTER_ACTION",
    ApiKey.LIST_OFFSETS: "TOPIC:DESCRIBE",
    ApiKey.METADATA: "TOPIC:DESCRIBE TOPIC:CREATE CLUSTER:CREATE CLUSTER:DESCRIBE",
    ApiKey.OFFSET_COMMIT: "GROUP:READ TOPIC:READ",
    ApiKey.OFFSET_FETCH: "GROUP:DESCRIBE TOPIC:DESCRIBE",
    ApiKey.FIND_COORDINATOR: "GROUP:DESCRIBE TRANSACTIONAL_ID:DESCRIBE CLUSTER:CLUSTER_ACTION",
    ApiKey.JOIN_GROUP: "GROUP:READ",
    ApiKey.HEARTBEAT: "GROUP:READ",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "",  # Refused, whatever the rights, as by a Kafka without the protocol.
    ApiKey.LEAVE_GROUP: "GROUP:READ",
    ApiKey.SYNC_GROUP: "GROUP:READ",
    ApiKey.DESCRIBE_GROUPS: "GROUP:DESCRIBE",
    ApiKey.LIST_GROUPS: "CLUSTER:DESCRIBE GROUP:DESCRIBE",
    ApiKey.SASL_HANDSHAKE: "",
    ApiKey.API_VERSIONS: "",
    ApiKey.SASL_AUTHENTICATE: "",
    ApiKey.DELETE_RECORDS: "TOPIC:DELETE",
    ApiKey.INIT_PRODUCER_ID: "TRANSACTIONAL_ID:WRITE CLUSTER:IDEMPOTENT_WRITE TOPIC:WRITE",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "CLUSTER:CLUSTER_ACTION TOPIC:DESCRIBE",
    ApiKey.DESCRIBE_ACLS: "CLUSTER:DESCRIBE",
    ApiKey.DESCRIBE_CONFIGS: "TOPIC:DESCRIBE_CONFIGS GROUP:DESCRIBE_CONFIGS CLUSTER:DESCRIBE_CONFIGS",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "CLUSTER:ALTER",
    ApiKey.DESCRIBE_LOG_DIRS: "CLUSTER:DESCRIBE",
    ApiKey.CREATE_DELEGATION_TOKEN: "USER:CREATE_TOKENS",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "DELEGATION_TOKEN:DESCRIBE USER:DESCRIBE_TOKENS",
    ApiKey.DELETE_GROUPS: "GROUP:DELETE",
    ApiKey.ALTER_CONFIGS: "CLUSTER:ALTER_CONFIGS",  # Checked before the request is forwarded.
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "CLUSTER:ALTER_CONFIGS",
    ApiKey.OFFSET_DELETE: "GROUP:DELETE TOPIC:READ",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "CLUSTER:DESCRIBE_CONFIGS",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "CLUSTER:DESCRIBE",
    ApiKey.DESCRIBE_CLUSTER: "CLUSTER:DESCRIBE",
    ApiKey.LIST_CONFIG_RESOURCES: "CLUSTER:DESCRIBE_CONFIGS",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "TOPIC:DESCRIBE",
}
TABLE = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)


@pytest.mark.parametrize("key", SERVED_BY_BROKER, ids=lambda key: key.name)
def test_an_api_declares_the_rights_that_kafka_requires(key: ApiKey) -> None:
    declared = {f"{rule.resource_type.name}:{rule.operation.name}" for rule in TABLE.handler(key).acl}
    if API_TABLE[key].forwardable and key not in RIGHTS:
        assert declared == set()
    else:
        assert declared == set(RIGHTS[key].split())
