"""Which operations a caller has, in the describe calls that return them (KIP-430): by the ACLs, and only on request.

Decided by the real authorizer.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from barnabas.common.acl import AclBinding, AclOperation
from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller.apis import describe_cluster as controllers
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from tests.unit.broker.apis.test_denials import World
from tests.unit.controller.controller_harness import topic

MARKER = -2147483648
ALL_TOPIC, ALL_GROUP, ALL_CLUSTER = 3576, 3400, 8096
TOPIC, GROUP, CLUSTER = 2, 3, 4
ALLOW, DENY = 3, 2
LITERAL, PREFIXED = 3, 4
READ, DESCRIBE, ALTER, ALL = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.ALL
DEAD_GROUP_IS_AN_ERROR_SINCE = 6


class Describing(World):
    """Topics ``secret`` and ``other``; ANONYMOUS sends requests from 127.0.0.1. Every group is in state Dead."""

    def __init__(self, *rules: AclBinding, super_users: str = "", everyone: str = "false") -> None:
        super().__init__()
        authorizer = StandardAuthorizer()
        authorizer.configure({"super.users": super_users, "allow.everyone.if.no.acl.found": everyone})
        authorizer.load_snapshot({Uuid.from_int(1000 + number): rule for number, rule in enumerate(rules)})
        authorizer.complete_initial_load()
        self.authorizer = authorizer  # type: ignore[assignment]
        self.harness.create(topic("other"))
        self.broker.metadata.image = self.harness.controller.committed_image
        self.broker.groups.coordinator.describe_group = _dead_group
        self.broker.topic_creation = _Nothing()

    def metadata(self, *names: str, version: int = 13, requested: bool = True, cluster: bool = False) -> Any:
        topics = [MetadataRequestTopic(name=name) for name in names] or None
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        if version >= 8:
            request.include_topic_authorized_operations = requested
        if 8 <= version <= 10:
            request.include_cluster_authorized_operations = cluster
        return self.ask(request, version)

    def topic_bits(self, *names: str, version: int = 13) -> dict[str, tuple[int, int]]:
        answer = self.metadata(*names, version=version)
        return {t.name: (t.error_code, t.topic_authorized_operations) for t in answer.topics}

    def group_bits(self, group: str, version: int = 6, *, requested: bool = True) -> tuple[int, int]:
        request = DescribeGroupsRequest(groups=[group])
        if version >= 3:
            request.include_authorized_operations = requested
        (described,) = self.ask(request, version).groups
        return described.error_code, described.authorized_operations

    def cluster_bits(self, version: int = 2, *, requested: bool = True) -> int:
        request = DescribeClusterRequest(include_cluster_authorized_operations=requested)
        bits: int = self.ask(request, version).cluster_authorized_operations
        return bits


class _Nothing:
    def create(self, *_: Any) -> None: ...


def _dead_group(context: Any, group_id: str) -> Generator[None, None, DescribedGroup]:
    yield from ()
    if context.api_version >= DEAD_GROUP_IS_AN_ERROR_SINCE and group_id == "gone":
        return DescribedGroup(group_id=group_id, group_state="Dead", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    return DescribedGroup(group_id=group_id, group_state="Dead")


def rule(
    type_: int, name: str, operation: int, *, permission: int = ALLOW, pattern: int = LITERAL, host: str = "*",
    principal: str = "User:ANONYMOUS",
) -> AclBinding:  # fmt: skip
    return AclBinding(type_, name, pattern, principal, host, operation, permission)


ON_TOPIC, ON_GROUP = rule(TOPIC, "secret", DESCRIBE), rule(GROUP, "g", DESCRIBE)
ON_CLUSTER = rule(CLUSTER, "kafka-cluster", DESCRIBE)


# ---- only on request, and only where the version has the field


def test_operations_are_not_returned_unless_requested() -> None:
    world = Describing(ON_TOPIC, ON_GROUP, ON_CLUSTER)
    assert world.metadata("secret", requested=False).topics[0].topic_authorized_operations == MARKER
    assert world.metadata("secret", version=8).cluster_authorized_operations == MARKER
    assert world.group_bits("g", requested=False) == (0, MARKER)
    assert world.cluster_bits(requested=False) == MARKER


@pytest.mark.parametrize("version", [4, 7, 8, 10, 11, 13])
def test_versions_without_the_field_do_not_have_it(version: int) -> None:
    world = Describing(ON_TOPIC, ON_CLUSTER)
    answer = world.metadata("secret", version=version, cluster=True)
    assert answer.topics[0].topic_authorized_operations == (1 << DESCRIBE if version >= 8 else MARKER)
    assert answer.cluster_authorized_operations == (1 << DESCRIBE if 8 <= version <= 10 else MARKER)


@pytest.mark.parametrize("version", range(7))
def test_groups_have_the_field_from_version_3(version: int) -> None:
    assert Describing(ON_GROUP).group_bits("g", version) == (0, 1 << DESCRIBE if version >= 3 else MARKER)


# ---- which bits


def test_all_means_every_supported_operation_except_denied_ones() -> None:
    denied = [rule(TOPIC, "secret", op, permission=DENY) for op in (READ, AclOperation.DESCRIBE_CONFIGS)]
    world = Describing(rule(TOPIC, "secret", ALL), rule(GROUP, "g", ALL), rule(CLUSTER, "kafka-cluster", ALL), *denied)
    assert world.topic_bits("secret") == {"secret": (0, 2544)}
    assert world.group_bits("g") == (0, ALL_GROUP)
    assert world.cluster_bits() == ALL_CLUSTER


@pytest.mark.parametrize("super_users", ["User:ANONYMOUS", "User:other"])
def test_a_super_user_and_a_cluster_without_authorizer_have_every_operation(super_users: str) -> None:
    world = Describing(super_users=super_users, everyone=str(super_users == "User:other"))
    assert world.topic_bits("secret", "missing") == {"secret": (0, ALL_TOPIC), "missing": (3, ALL_TOPIC)}
    assert world.group_bits("g") == (0, ALL_GROUP)
    assert world.cluster_bits() == ALL_CLUSTER


def test_implied_operations_are_included() -> None:
    world = Describing(rule(TOPIC, "secret", READ), rule(CLUSTER, "kafka-cluster", ALTER))
    assert world.topic_bits("secret") == {"secret": (0, 264)}
    assert world.cluster_bits() == 384


def test_a_denied_describe_is_not_implied_by_another_operation() -> None:
    world = Describing(rule(TOPIC, "secret", READ), rule(TOPIC, "sec", DESCRIBE, permission=DENY, pattern=PREFIXED))
    assert world.topic_bits("secret") == {"secret": (29, MARKER)}


def test_the_operations_depend_on_the_callers_address() -> None:
    here = rule(TOPIC, "secret", READ, host="127.0.0.1")
    elsewhere = rule(TOPIC, "secret", AclOperation.WRITE, host="127.0.0.2")
    assert Describing(here, elsewhere).topic_bits("secret") == {"secret": (0, 264)}


def test_acls_for_all_users_all_topics_and_prefixes_are_combined() -> None:
    world = Describing(
        rule(TOPIC, "*", DESCRIBE, principal="User:*"),
        rule(TOPIC, "se", AclOperation.WRITE, pattern=PREFIXED),
        rule(TOPIC, "*", ALTER, pattern=PREFIXED),
    )
    assert world.topic_bits("secret", "other") == {"secret": (0, 256 + 16), "other": (0, 256)}


# ---- not audited


def test_computing_operations_is_not_audited() -> None:
    audited: list[Any] = []

    class Audit:
        wants_allowed = True

        def decided(self, authorizer: Any, context: Any, operation: int, *_: Any) -> None:
            audited.append(operation)

    world = Describing(rule(TOPIC, "secret", ALL), rule(GROUP, "g", ALL))
    world.authorizer.audit = Audit()  # type: ignore[assignment]
    world.topic_bits("secret")
    world.group_bits("g")
    assert set(audited) == {DESCRIBE}


# ---- without Describe, and next to errors


def test_without_describe_the_operations_of_the_cluster_are_zero() -> None:
    world = Describing(rule(CLUSTER, "kafka-cluster", AclOperation.CREATE))
    assert world.cluster_bits() == 0
    assert world.metadata("secret", version=8, cluster=True).cluster_authorized_operations == 0


def test_a_topic_without_describe_shows_nothing() -> None:
    world = Describing(rule(TOPIC, "secret", AclOperation.CREATE))
    (entry,) = world.metadata("secret").topics
    assert (entry.error_code, entry.topic_id, entry.topic_authorized_operations) == (29, Uuid.ZERO, MARKER)
    assert world.metadata().topics == []


def test_a_missing_topic_has_the_operations_of_its_name() -> None:
    world = Describing(rule(TOPIC, "*", DESCRIBE))
    assert world.topic_bits("missing", "bad name") == {"missing": (3, 256), "bad name": (17, 256)}


def test_a_missing_topic_without_create_has_the_marker() -> None:
    world = Describing(rule(TOPIC, "*", DESCRIBE))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], include_topic_authorized_operations=True)
    (entry,) = world.ask(request, 13).topics
    assert (entry.error_code, entry.name, entry.topic_authorized_operations) == (29, "new", MARKER)


def test_an_unknown_topic_id_has_the_marker() -> None:
    world = Describing(rule(TOPIC, "*", ALL))
    request = MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=Uuid.from_int(77), name=None)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    (entry,) = world.ask(request, 13).topics
    assert (entry.error_code, entry.topic_authorized_operations) == (ErrorCode.UNKNOWN_TOPIC_ID, MARKER)


def test_a_group_without_describe_or_with_an_error_has_the_marker() -> None:
    world = Describing(rule(GROUP, "g", AclOperation.DESCRIBE_CONFIGS), rule(GROUP, "gone", READ))
    assert world.group_bits("g") == (ErrorCode.GROUP_AUTHORIZATION_FAILED, MARKER)
    assert world.group_bits("gone", 5) == (0, 264)
    assert world.group_bits("gone", 6) == (ErrorCode.GROUP_ID_NOT_FOUND, MARKER)


def test_all_topics_have_their_operations_in_one_response() -> None:
    world = Describing(rule(TOPIC, "other", READ), rule(TOPIC, "*", DESCRIBE))
    assert world.topic_bits() == {"other": (0, 264), "secret": (0, 256)}


def test_describe_topic_partitions_always_returns_operations() -> None:
    world = Describing(rule(TOPIC, "other", READ), rule(TOPIC, "m", DESCRIBE, pattern=PREFIXED))
    names = [TopicRequest(name=name) for name in ("secret", "other", "missing", "m m")]
    answer = world.ask(DescribeTopicPartitionsRequest(topics=names), 0)
    assert {t.name: (t.error_code, t.topic_authorized_operations) for t in answer.topics} == {
        "other": (0, 264),
        "missing": (3, 256),
        "m m": (17, 256),
        "secret": (29, MARKER),
    }
    everything = world.ask(DescribeTopicPartitionsRequest(topics=[]), 0)
    assert [(t.name, t.topic_authorized_operations) for t in everything.topics] == [("other", 264)]


# ---- the controller's DescribeCluster


@pytest.mark.parametrize(
    ("operation", "error", "bits"), [(ALL, 0, ALL_CLUSTER), (ALTER, 0, 384), (DESCRIBE, 31, MARKER)]
)
def test_describing_the_cluster_on_the_controller_needs_alter(operation: int, error: int, bits: int) -> None:
    world = Describing(rule(CLUSTER, "kafka-cluster", operation))
    world.harness.authorizer = world.authorizer  # type: ignore[assignment]
    request = DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)
    answer = world.harness.call(controllers.handle, request, 2)
    assert (answer.error_code, answer.cluster_authorized_operations) == (error, bits)
