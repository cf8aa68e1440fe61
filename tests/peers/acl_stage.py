"""The node that every case of the ACL table uses: its content, its setup, and the execution of a case.

Topics ``orders`` (two partitions), ``orders-eu`` and ``other``, with records; groups ``g1`` and ``g2`` with offsets and
no members; share state of the group ``shared``; the share groups ``queue``, ``workers`` and ``idle``; the streams group
``builders``; tokens of ``TOKEN_OWNERS``; a SCRAM user ``scram-user``. Parts that a node does not serve yet are omitted.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from barnabas.broker.apis import SHARE_STATE_APIS
from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.coordinator.share.persister import SharePartitionKey
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.interop.raw_client import RawClient
from tests.peers import (
    acl_rows_admin,
    acl_rows_consumer_groups,
    acl_rows_data,
    acl_rows_groups,
    acl_rows_share_groups,
    acl_rows_share_state,
    acl_rows_streams_groups,
    acl_rows_transactions,
)
from tests.peers.acl_matrix import ADMIN, PASSWORD, Case, Rows, World, cases_of, comparable
from tests.peers.acl_rows_admin import TOKEN_OWNERS
from tests.peers.acl_rows_data import BATCH
from tests.peers.acl_rows_share_state import SHARED
from tests.peers.share_state_client import ShareStateClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.peers.node_process import NodeProcess

__all__ = [
    "CLOSED",
    "SILENT",
    "Stage",
    "all_rows",
    "create_acls",
    "delete_acls",
    "described_acls",
    "log_in",
    "secure_settings",
    "served_apis",
]

TOPICS = {"orders": 2, "orders-eu": 1, "other": 1}
CLOSED = "the connection was closed"
SILENT = "no answer, as there should be"


def all_rows() -> Rows:
    return [
        *acl_rows_data.rows(),
        *acl_rows_groups.rows(),
        *acl_rows_transactions.rows(),
        *acl_rows_admin.rows(),
        *acl_rows_share_state.rows(),
        *acl_rows_share_groups.rows(),
        *acl_rows_streams_groups.rows(),
        *acl_rows_consumer_groups.rows(),
    ]


def secure_settings(node: NodeProcess, users: Iterable[str]) -> dict[str, str]:
    """SASL/PLAIN on both listeners for these users beside those of the stage, and Kafka's own authorizer."""
    users = [ADMIN, *TOKEN_OWNERS, *users]
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{ADMIN}" password="{PASSWORD}" ' + " ".join(f'user_{user}="{PASSWORD}"' for user in users) + ";"
    )
    return {
        "node.id": "1",
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
        "delegation.token.secret.key": "one-key-for-all-nodes",
        **acl_rows_share_groups.SETTINGS,
        **acl_rows_streams_groups.SETTINGS,
        **acl_rows_consumer_groups.SETTINGS,
    }


def log_in(port: int, user: str, *, host: str | None = None, timeout_s: float = 20) -> RawClient:
    client = RawClient(port, source_host=host, client_id="acl-matrix", timeout_s=timeout_s)
    client.log_in(user, PASSWORD)
    return client


def served_apis(port: int) -> set[ApiKey]:
    client = log_in(port, ADMIN)
    keys = {key.api_key for key in client.call(ApiVersionsRequest(), 0).api_keys}
    client.close()
    return {ApiKey(key) for key in keys if key in ApiKey.__members__.values()}


class Stage:
    """A node with all resources that the cases need; without rows it is only the stage."""

    def __init__(self, node: NodeProcess, rows: Rows) -> None:
        self._node = node
        self._admin = log_in(node.port, ADMIN)
        self.served = served_apis(node.port)
        self.served_by_controller = served_apis(node.controller_port)
        self._make_topics(rows)
        _until(lambda: self._admin.call(InitProducerIdRequest(transactional_id=None)).error_code == 0)
        self._make_groups()
        tokens = self._make_tokens()
        self._make_scram_user()
        topics = self._admin.call(MetadataRequest(topics=None)).topics
        self._make_share_state(rows, {topic.name: topic.topic_id for topic in topics})
        self._make_share_groups(rows)
        self._make_streams_groups()
        self._make_consumer_groups()
        cluster_id = self._admin.call(DescribeClusterRequest(), 2).cluster_id
        self.world = World({topic.name: topic.topic_id for topic in topics}, tokens, cluster_id)
        self.cases = cases_of(rows, self.world)
        self.grant(binding for case in self.cases for binding in case.bindings)

    def close(self) -> None:
        self._admin.close()

    def serves(self, case: Case) -> bool:
        return case.row.api in (self.served_by_controller if case.row.on_controller else self.served)

    def ask(self, case: Case) -> Any:
        """Return the answer as JSON, or a description of the failure."""
        port = self._node.controller_port if case.row.on_controller else self._node.port
        client = log_in(port, case.row.user or case.me, host=case.row.host)
        try:
            if case.row.is_answered:
                return client.call(case.request(self.world), case.version).to_json(case.version)
            client.send(case.request(self.world), case.version)
            client.forget_expected()
            client.call(ApiVersionsRequest(), 0)
        except ConnectionError:
            return CLOSED
        finally:
            client.close()
        return SILENT

    def comparable(self, case: Case, answer: Any) -> Any:
        return comparable(answer, case, self.world)

    def _make_topics(self, rows: Rows) -> None:
        wanted = dict(TOPICS)
        for case in cases_of(rows):
            wanted.update((name.replace("{me}", case.me), 1) for name in case.row.topics)
        remaining = iter(wanted.items())
        while batch := list(islice(remaining, 100)):
            topics = [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in batch]
            response = self._admin.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
            assert {topic.error_code for topic in response.topics} == {0}, response
        for name, partitions in TOPICS.items():
            for partition in range(partitions):
                _until(partial(self._produce, name, partition))

    def _produce(self, topic: str, partition: int) -> bool:
        data = [PartitionProduceData(index=partition, records=BATCH)]
        topic_data = [TopicProduceData(name=topic, partition_data=data)]
        response = self._admin.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topic_data), 12)
        return bool(response.responses[0].partition_responses[0].error_code == 0)

    def _make_groups(self) -> None:
        _until(lambda: self._find_coordinator(0, "g1"))
        if ApiKey.END_TXN in self.served:
            _until(lambda: self._find_coordinator(1, "tx1"))
        for group in ("g1", "g2", "nobody"):
            _until(partial(self._is_loaded, group))
        # Offsets that the cases commit to g1 exist from the start, because the order of the cases is random.
        for group, metadata in (("g1", ""), ("g2", "m")):
            partitions = [
                OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
            ]
            topics = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in ("orders", "other")]
            response = self._admin.call(OffsetCommitRequest(group_id=group, topics=topics), 9)
            assert {part.error_code for topic in response.topics for part in topic.partitions} == {0}, response

    def _find_coordinator(self, kind: int, key: str) -> bool:
        response = self._admin.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
        return bool(response.coordinators[0].error_code == 0)

    def _is_loaded(self, group: str) -> bool:
        return self._admin.call(DescribeGroupsRequest(groups=[group])).groups[0].error_code not in (14, 15, 16)

    def _make_tokens(self) -> dict[str, tuple[str, bytes]]:
        if ApiKey.CREATE_DELEGATION_TOKEN not in self.served:
            return dict.fromkeys(TOKEN_OWNERS, ("none", b"none"))
        tokens = {}
        for owner in TOKEN_OWNERS:
            request = CreateDelegationTokenRequest(
                owner_principal_type="User",
                owner_principal_name=owner,
                renewers=[CreatableRenewers(principal_type="User", principal_name="tok-b")],
                max_lifetime_ms=86_400_000,
            )
            made = self._admin.call(request, 3)
            assert made.error_code == 0, made
            tokens[owner] = (made.token_id, made.hmac)
        _until(lambda: len(self._admin.call(DescribeDelegationTokenRequest(owners=None)).tokens) == len(TOKEN_OWNERS))
        return tokens

    def _make_scram_user(self) -> None:
        if ApiKey.ALTER_USER_SCRAM_CREDENTIALS not in self.served:
            return
        credential = ScramCredentialUpsertion(
            name="scram-user", mechanism=1, iterations=8192, salt=b"pepper", salted_password=b"p" * 32
        )
        response = self._admin.call(AlterUserScramCredentialsRequest(upsertions=[credential]))
        assert {result.error_code for result in response.results} == {0}, response

    def _make_share_state(self, rows: Rows, topic_ids: dict[str, Uuid]) -> None:
        if ApiKey.WRITE_SHARE_GROUP_STATE not in self.served:
            return
        client, key = ShareStateClient(self._admin), SharePartitionKey(SHARED, topic_ids["orders"], 0)
        users = [case.me for case in cases_of(rows) if case.row.api in SHARE_STATE_APIS]
        client.prepare([key._replace(group_id=group) for group in (SHARED, *users)])
        assert client.initialize(key).error_code == 0

    def _make_share_groups(self, rows: Rows) -> None:
        if ApiKey.SHARE_GROUP_HEARTBEAT not in self.served:
            return
        fetched = [case for case in cases_of(rows) if case.row.api is ApiKey.SHARE_FETCH]
        read = [name.replace("{me}", case.me) for case in fetched for name in case.row.topics]
        acl_rows_share_groups.make_share_groups(self._admin.call, read)

    def _make_streams_groups(self) -> None:
        if ApiKey.STREAMS_GROUP_HEARTBEAT in self.served:
            acl_rows_streams_groups.make_streams_groups(self._admin.call)

    def _make_consumer_groups(self) -> None:
        if ApiKey.CONSUMER_GROUP_HEARTBEAT in self.served:
            acl_rows_consumer_groups.make_consumer_groups(self._admin.call)

    def grant(self, bindings: Iterable[AclBinding]) -> None:
        create_acls(self._admin, bindings)


def create_acls(client: RawClient, bindings: Iterable[AclBinding], *, timeout_s: float = 60) -> None:
    """Create the ACLs. Return when the broker applies them."""
    wanted = set(bindings)
    remaining = iter(wanted)
    while batch := list(islice(remaining, 500)):
        response = client.call(CreateAclsRequest(creations=[_creation(binding) for binding in batch]))
        bad = [(b, r) for b, r in zip(batch, response.results, strict=True) if r.error_code]
        assert not bad, bad[:3]
    _until(lambda: wanted <= described_acls(client), f"{len(wanted)} ACLs", timeout_s=timeout_s)


def delete_acls(client: RawClient, bindings: Iterable[AclBinding], *, timeout_s: float = 60) -> None:
    """Delete the ACLs. Return when the broker no longer applies them; each must exist."""
    unwanted = set(bindings)
    filters = [_exactly(binding) for binding in unwanted]
    response = client.call(DeleteAclsRequest(filters=filters))
    assert [len(result.matching_acls) for result in response.filter_results] == [1] * len(filters), response
    _until(lambda: not unwanted & described_acls(client), f"{len(unwanted)} ACLs less", timeout_s=timeout_s)


def described_acls(client: RawClient) -> set[AclBinding]:
    """Return all ACLs that the broker applies. Kafka's broker learns of changes later than its controller."""
    any_code = 1
    request = DescribeAclsRequest(
        resource_type_filter=any_code,
        resource_name_filter=None,
        pattern_type_filter=any_code,
        principal_filter=None,
        host_filter=None,
        operation=any_code,
        permission_type=any_code,
    )
    return {
        AclBinding(
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            acl.principal,
            acl.host,
            AclOperation(acl.operation),
            AclPermissionType(acl.permission_type),
        )
        for resource in client.call(request).resources
        for acl in resource.acls
    }


def _exactly(binding: AclBinding) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=binding.resource_type,
        resource_name_filter=binding.name,
        pattern_type_filter=binding.pattern_type,
        principal_filter=binding.principal,
        host_filter=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def _creation(binding: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=binding.resource_type,
        resource_name=binding.name,
        resource_pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def _until(is_so: Callable[[], bool], what: str = "it", *, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.1)
