"""The rows of the table for requests of administrators: topics, configs, ACLs, credentials, tokens, the cluster."""

from __future__ import annotations

from dataclasses import replace

from barnabas.protocol.api_keys import ApiKey
from tests.peers.acl_matrix import NOTHING, Fields, Row, Rows, variants

__all__ = ["TOKEN_OWNERS", "rows"]

TOKEN_OWNERS = ("tok-a", "tok-b")
"""Users that own a token each, both created by the super user. tok-b may renew the token of tok-a."""

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
CREATES = (
    *variants("CREATE", "TOPIC", "{me}-new"),
    *variants("CREATE", "CLUSTER")[1:],
    "CREATE TOPIC {me}-new; deny CREATE CLUSTER kafka-cluster",
    "CREATE CLUSTER kafka-cluster; deny CREATE TOPIC {me}-new",
    "CREATE CLUSTER kafka-cluster; DESCRIBE_CONFIGS TOPIC {me}-new",
    "CREATE TOPIC {me}-new; ALTER_CONFIGS TOPIC {me}...",
    "CREATE TOPIC {me}-new; DESCRIBE_CONFIGS TOPIC *; deny DESCRIBE_CONFIGS TOPIC {me}-new",
    "CREATE TOPIC {me}-new; DESCRIBE TOPIC {me}-new",
)


def _topics() -> Rows:
    def new(*names: str, validate_only: bool = True) -> Fields:
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        return {"timeout_ms": 10_000, "validate_only": validate_only, "topics": topics}

    def grown(*names: str) -> Fields:
        topics = [{"name": name, "count": 9, "assignments": None} for name in names]
        return {"timeout_ms": 10_000, "validate_only": True, "topics": topics}

    def gone(*names: str) -> Fields:
        return {"timeout_ms": 10_000, "topic_names": list(names), "topics": [{"name": name} for name in names]}

    by_id: Fields = {
        "timeout_ms": 10_000,
        "topics": [{"name": None, "topic_id": topic_id} for topic_id in ("id:{me}-gone", "id:missing")],
    }
    delete = (
        *variants("DELETE", "TOPIC", "{me}-gone"),
        "DELETE TOPIC {me}-gone; deny DESCRIBE TOPIC {me}-gone",
        "DESCRIBE TOPIC {me}-gone",
        "READ TOPIC *",
        "ALL CLUSTER kafka-cluster",
        "DELETE CLUSTER kafka-cluster",
        "ALL CLUSTER kafka-cluster; deny DELETE CLUSTER kafka-cluster",
    )
    return [
        Row("CreateTopics", ApiKey.CREATE_TOPICS, new("{me}-new"), CREATES, (2, 4, 5, 7)),
        Row(
            "CreateTopics in earnest",
            ApiKey.CREATE_TOPICS,
            new("{me}-new", "{me}-two", validate_only=False),
            (NOTHING, "CREATE TOPIC {me}-two", "CREATE CLUSTER kafka-cluster", "ALL TOPIC {me}-new"),
            (7,),
        ),
        Row(
            "CreateTopics that exist",
            ApiKey.CREATE_TOPICS,
            new("orders", "bad name", "__cluster_metadata"),
            (NOTHING, "CREATE TOPIC orders", "CREATE CLUSTER kafka-cluster", "ALL TOPIC *"),
            (7,),
        ),
        Row("CreatePartitions", ApiKey.CREATE_PARTITIONS, grown("orders"), variants("ALTER", "TOPIC", "orders")),
        Row(
            "CreatePartitions of several",
            ApiKey.CREATE_PARTITIONS,
            grown("orders", "missing", "other"),
            (NOTHING, "ALTER TOPIC orders", "ALTER TOPIC missing; READ TOPIC *", "ALTER TOPIC *; deny ALL TOPIC other"),
        ),
        Row(
            "DeleteTopics",
            ApiKey.DELETE_TOPICS,
            gone("{me}-gone", "{me}-missing"),
            delete,
            (1, 5, 6),
            topics=("{me}-gone",),
        ),
        Row("DeleteTopics by id", ApiKey.DELETE_TOPICS, by_id, delete, (6,), topics=("{me}-gone",)),
    ]


def _configs() -> Rows:
    def described(*resources: tuple[int, str]) -> Fields:
        wanted = [
            {"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in resources
        ]
        return {"resources": wanted}

    def altered(*resources: tuple[int, str, str, str]) -> Fields:
        return {
            "validate_only": True,
            "resources": [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [{"name": key, "value": value, "config_operation": 0}],
                }
                for kind, name, key, value in resources
            ],
        }

    topic = (TOPIC, "orders", "retention.ms", "600000")
    missing = (TOPIC, "missing", "retention.ms", "600000")
    group = (GROUP, "g1", "consumer.session.timeout.ms", "50000")
    broker = (BROKER, "1", "log.cleaner.threads", "2")
    cluster = (BROKER, "", "log.cleaner.threads", "2")
    logger = (BROKER_LOGGER, "1", "kafka.server", "INFO")
    metrics = (CLIENT_METRICS, "m1", "interval.ms", "5000")
    of_group = tuple(variants("ALTER_CONFIGS", "GROUP", "g1"))
    of_cluster = tuple(variants("ALTER_CONFIGS", "CLUSTER"))
    some = (NOTHING, "ALTER_CONFIGS TOPIC orders", "ALTER_CONFIGS TOPIC *", "ALTER_CONFIGS CLUSTER kafka-cluster")
    reads = (
        NOTHING,
        "DESCRIBE_CONFIGS TOPIC orders",
        "ALTER_CONFIGS TOPIC *",
        "DESCRIBE_CONFIGS CLUSTER kafka-cluster",
        "ALTER_CONFIGS GROUP *; DESCRIBE_CONFIGS TOPIC missing",
    )
    rows = [
        Row(
            "DescribeConfigs of a topic",
            ApiKey.DESCRIBE_CONFIGS,
            described((TOPIC, "orders")),
            variants("DESCRIBE_CONFIGS", "TOPIC", "orders"),
        ),
        Row(
            "DescribeConfigs of a group",
            ApiKey.DESCRIBE_CONFIGS,
            described((GROUP, "g1")),
            variants("DESCRIBE_CONFIGS", "GROUP", "g1"),
        ),
        Row(
            "DescribeConfigs of a broker",
            ApiKey.DESCRIBE_CONFIGS,
            described((BROKER, "1"), (BROKER, ""), (CLIENT_METRICS, "m1")),
            variants("DESCRIBE_CONFIGS", "CLUSTER"),
        ),
        Row(
            "DescribeConfigs of several",
            ApiKey.DESCRIBE_CONFIGS,
            described((TOPIC, "orders"), (TOPIC, "missing"), (GROUP, "g1"), (BROKER, "1"), (TOPIC, "other")),
            reads,
        ),
        Row("DescribeConfigs of a logger", ApiKey.DESCRIBE_CONFIGS, described((BROKER_LOGGER, "1")), (NOTHING,)),
    ]
    for api, name in (
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs"),
        (ApiKey.ALTER_CONFIGS, "AlterConfigs"),
    ):

        def of(
            *resources: tuple[int, str, str, str], incremental: bool = api is ApiKey.INCREMENTAL_ALTER_CONFIGS
        ) -> Fields:
            fields = altered(*resources)
            if not incremental:
                for resource in fields["resources"]:
                    del resource["configs"][0]["config_operation"]
            return fields

        rows += [
            Row(f"{name} of a topic", api, of(topic), variants("ALTER_CONFIGS", "TOPIC", "orders")),
            Row(f"{name} of several", api, of(topic, missing, broker, group), some),
            Row(f"{name} of a group", api, of(group), of_group),
            Row(f"{name} of a broker", api, of(broker), of_cluster),
            Row(f"{name} of the cluster", api, of(cluster, metrics), of_cluster),
        ]
    rows.append(
        Row("IncrementalAlterConfigs of a logger", ApiKey.INCREMENTAL_ALTER_CONFIGS, altered(logger), of_cluster)
    )
    return rows


def _acls(*, on_controller: bool) -> Rows:
    created: Fields = {
        "creations": [
            {
                "resource_type": 2,
                "resource_name": name,
                "principal": "User:nobody",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
            for name in ("{me}-one", "")
        ]
    }
    own: Fields = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": "User:{me}",
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    nobodys: Fields = {**own, "principal_filter": "User:{me}-nobody"}
    describe, alter = variants("DESCRIBE", "CLUSTER"), variants("ALTER", "CLUSTER")
    where = " of the controller" if on_controller else ""
    return [
        Row(f"DescribeAcls{where}", ApiKey.DESCRIBE_ACLS, own, describe, on_controller=on_controller),
        Row(f"CreateAcls{where}", ApiKey.CREATE_ACLS, created, alter, on_controller=on_controller),
        Row(
            f"DeleteAcls{where}",
            ApiKey.DELETE_ACLS,
            {"filters": [nobodys, nobodys]},
            alter,
            on_controller=on_controller,
        ),
    ]


def _credentials() -> Rows:
    changed: Fields = {
        "deletions": [{"name": "{me}-nobody", "mechanism": 1}],
        "upsertions": [
            {"name": "{me}-new", "mechanism": 2, "iterations": 4096, "salt": b"salt" * 4, "salted_password": b"p" * 64}
        ],
    }
    return [
        Row(
            "AlterUserScramCredentials",
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            changed,
            variants("ALTER", "CLUSTER"),
        ),
        Row(
            "DescribeUserScramCredentials",
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            {"users": [{"name": "{me}-nobody"}, {"name": "scram-user"}]},
            variants("DESCRIBE", "CLUSTER"),
        ),
        Row(
            "DescribeClientQuotas",
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            {"components": [{"entity_type": "user", "match_type": 0, "match": "{me}"}], "strict": False},
            variants("DESCRIBE_CONFIGS", "CLUSTER"),
        ),
    ]


def _tokens() -> Rows:
    own: Fields = {"renewers": [], "max_lifetime_ms": 60_000}
    of_another: Fields = {**own, "owner_principal_type": "User", "owner_principal_name": "{me}-owner"}
    bad_renewer: Fields = {**own, "renewers": [{"principal_type": "Group", "principal_name": "g"}]}
    described: Fields = {"owners": [{"principal_type": "User", "principal_name": name} for name in TOKEN_OWNERS]}
    rows = [
        Row("CreateDelegationToken", ApiKey.CREATE_DELEGATION_TOKEN, own, (NOTHING,), (1, 3)),
        Row("CreateDelegationToken, bad renewer", ApiKey.CREATE_DELEGATION_TOKEN, bad_renewer, (NOTHING,), (3,)),
        Row(
            "CreateDelegationToken of another",
            ApiKey.CREATE_DELEGATION_TOKEN,
            of_another,
            (*variants("CREATE_TOKENS", "USER", "User:{me}-owner"), "CREATE_TOKENS USER {me}-owner"),
            (3,),
        ),
        Row(
            "DescribeDelegationToken",
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            described,
            (
                *variants("DESCRIBE_TOKENS", "USER", "User:tok-a"),
                *variants("DESCRIBE", "DELEGATION_TOKEN", "{token:tok-a}")[1:3],
                "DESCRIBE DELEGATION_TOKEN *",
                "DESCRIBE DELEGATION_TOKEN {token:tok-b}; DESCRIBE_TOKENS USER User:tok-a",
                "DESCRIBE DELEGATION_TOKEN *; deny DESCRIBE DELEGATION_TOKEN {token:tok-a}",
                "DESCRIBE_TOKENS USER *; deny DESCRIBE DELEGATION_TOKEN *",
                "DESCRIBE DELEGATION_TOKEN *; deny DESCRIBE_TOKENS USER *",
            ),
            (1, 3),
        ),
        Row("DescribeDelegationToken of all", ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}, (NOTHING,), (1, 3)),
    ]
    for user in (*TOKEN_OWNERS, None):
        who = user or "another"
        for kind, api, period in (
            ("Renew", ApiKey.RENEW_DELEGATION_TOKEN, {"renew_period_ms": 3_600_000}),
            ("Expire", ApiKey.EXPIRE_DELEGATION_TOKEN, {"expiry_time_period_ms": 7_200_000}),
        ):
            fields: Fields = {"hmac": "hmac:tok-a", **period}
            rights = (NOTHING,) if user else (NOTHING, "ALL CLUSTER kafka-cluster; ALL DELEGATION_TOKEN *; ALL USER *")
            rows.append(Row(f"{kind}DelegationToken by {who}", api, fields, rights, user=user))
            unknown: Fields = {"hmac": b"nothing", **period}
            rows.append(Row(f"{kind}DelegationToken that is none by {who}", api, unknown, (NOTHING,), user=user))
        rows.append(
            Row(f"DescribeDelegationToken by {who}", ApiKey.DESCRIBE_DELEGATION_TOKEN, described, (NOTHING,), user=user)
        )
    return rows


def _cluster() -> Rows:
    alter, describe = variants("ALTER", "CLUSTER"), variants("DESCRIBE", "CLUSTER")
    quota = {
        "entity": [{"entity_type": "user", "entity_name": "{me}"}],
        "ops": [{"key": "request_percentage", "value": 5.0}],
    }
    quorum = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    features: Fields = {
        "feature_updates": [{"feature": "metadata.version", "max_version_level": 30, "upgrade_type": 1}],
        "validate_only": True,
    }
    nothing_to_elect: Fields = {"topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout_ms": 5000}
    reassign: Fields = {"topics": [{"name": "missing", "partitions": [{"partition_index": 0, "replicas": [1]}]}]}
    return [
        Row("ElectLeaders", ApiKey.ELECT_LEADERS, nothing_to_elect, alter),
        Row("AlterPartitionReassignments", ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassign, alter),
        Row("ListPartitionReassignments", ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None}, describe),
        Row(
            "AlterClientQuotas",
            ApiKey.ALTER_CLIENT_QUOTAS,
            {"entries": [quota], "validate_only": True},
            variants("ALTER_CONFIGS", "CLUSTER"),
        ),
        Row("DescribeQuorum", ApiKey.DESCRIBE_QUORUM, {"topics": quorum}, describe),
        Row("UpdateFeatures", ApiKey.UPDATE_FEATURES, features, alter, (1, 2)),
        Row("UnregisterBroker", ApiKey.UNREGISTER_BROKER, {"broker_id": 77}, alter),
        Row("AddRaftVoter", ApiKey.ADD_RAFT_VOTER, {"cluster_id": "another cluster"}, alter),
        Row("RemoveRaftVoter", ApiKey.REMOVE_RAFT_VOTER, {"cluster_id": "another cluster"}, alter),
        Row(
            "ListConfigResources",
            ApiKey.LIST_CONFIG_RESOURCES,
            {"resource_types": [CLIENT_METRICS, BROKER]},
            variants("DESCRIBE_CONFIGS", "CLUSTER"),
        ),
    ]


def _controller() -> Rows:
    with_bits: Fields = {"endpoint_type": 2, "include_cluster_authorized_operations": True}
    configs = [{"name": "log.cleaner.threads", "config_operation": 0, "value": "2"}]
    altered: Fields = {
        "validate_only": True,
        "resources": [{"resource_type": BROKER, "resource_name": "1", "configs": configs}],
    }
    topic: Fields = {
        "validate_only": True,
        "resources": [
            {
                "resource_type": TOPIC,
                "resource_name": "orders",
                "configs": [{"name": "retention.ms", "config_operation": 0, "value": "700000"}],
            }
        ],
    }
    rows = [
        Row(
            "ApiVersions",
            ApiKey.API_VERSIONS,
            {"client_software_name": "acl", "client_software_version": "1"},
            (NOTHING,),
        ),
        Row("DescribeCluster", ApiKey.DESCRIBE_CLUSTER, with_bits, variants("ALTER", "CLUSTER"), (1, 2)),
        Row("DescribeCluster of brokers", ApiKey.DESCRIBE_CLUSTER, {}, (NOTHING, "ALTER CLUSTER kafka-cluster")),
        Row(
            "IncrementalAlterConfigs of a broker",
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            altered,
            variants("ALTER_CONFIGS", "CLUSTER"),
        ),
        Row(
            "IncrementalAlterConfigs of a topic",
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            topic,
            variants("ALTER_CONFIGS", "TOPIC", "orders"),
        ),
    ]
    return [
        *(Row(f"{r.name} of the controller", r.api, r.fields, r.rights, r.versions, on_controller=True) for r in rows),
        *_acls(on_controller=True),
    ]


ALSO_ON_CONTROLLERS = {
    ApiKey.ALTER_CONFIGS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ELECT_LEADERS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
}


def _also_on_controllers(rows: Rows) -> Rows:
    return [
        replace(row, name=f"{row.name} of the controller", on_controller=True)
        for row in rows
        if row.api in ALSO_ON_CONTROLLERS
    ]


def rows() -> Rows:
    on_both = [*_configs(), *_credentials(), *_tokens(), *_cluster()]
    return [
        *_topics(),
        *_acls(on_controller=False),
        *on_both,
        *_controller(),
        *_also_on_controllers(on_both),
    ]
