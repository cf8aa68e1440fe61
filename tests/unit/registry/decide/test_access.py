"""Rights on topics decide about subjects."""

from __future__ import annotations

import pytest

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.registry.decide.access import SubjectAccess, topic_of
from barnabas.registry.decide.errors import RegistryError
from barnabas.registry.decide.registry_state import RegistryState
from barnabas.registry.decide.schema import AVRO, Reference, Schema
from barnabas.registry.decide.topic_records import StoredVersion, schema_record


class Granted:
    """Rights as (operation, name) pairs; DESCRIBE follows from READ and WRITE, as in an authorizer."""

    name = "User:alice"

    def __init__(self, *pairs: tuple[AclOperation, str]) -> None:
        self._pairs = set(pairs)

    def allows(self, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> bool:
        implying = {AclOperation.READ, AclOperation.WRITE} if operation is AclOperation.DESCRIBE else set()
        return any((other, resource_name) in self._pairs for other in (operation, *implying))


def access_of(*pairs: tuple[AclOperation, str], state: RegistryState | None = None) -> SubjectAccess:
    return SubjectAccess(Granted(*pairs), state or RegistryState())


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("orders-value", "orders"),
        ("orders-key", "orders"),
        ("big-orders-value", "big-orders"),
        ("orders-com.example.Order", "orders"),
        ("com.example.Order", "com.example.Order"),
        (":.team:orders-value", "orders"),
        ("-value", "-value"),
    ],
)
def test_a_subject_belongs_to_a_topic(subject: str, topic: str) -> None:
    assert topic_of(subject) == topic


def test_each_action_needs_its_right() -> None:
    writer, reader = access_of((AclOperation.WRITE, "orders")), access_of((AclOperation.READ, "orders"))
    writer.check_register("orders-value")
    writer.check_read("orders-value")
    reader.check_read("orders-value")
    with pytest.raises(RegistryError, match="User:alice lacks WRITE on Topic:orders") as refused:
        reader.check_register("orders-value")
    assert (refused.value.status, refused.value.code) == (403, 40301)
    with pytest.raises(RegistryError, match="lacks DELETE on Topic:orders"):
        writer.check_delete("orders-value")
    with pytest.raises(RegistryError, match="lacks ALTER_CONFIGS on Topic:orders"):
        writer.check_settings("orders-value")
    with pytest.raises(RegistryError, match="lacks DESCRIBE on Topic:payments"):
        writer.check_read("payments-value")


@pytest.mark.parametrize("subject", [None, ":.team:"])
def test_settings_of_the_registry_and_of_contexts_are_the_clusters(subject: str | None) -> None:
    with pytest.raises(RegistryError, match="lacks ALTER_CONFIGS on Cluster:kafka-cluster"):
        access_of((AclOperation.ALTER_CONFIGS, "orders")).check_settings(subject)
    access_of((AclOperation.ALTER_CONFIGS, "kafka-cluster")).check_settings(subject)


def test_a_schema_that_a_readable_one_uses_is_readable() -> None:
    state = RegistryState()
    for subject, used in (("common", ()), ("address", ("common",)), ("orders-value", ("address",)), ("other", ())):
        schema = Schema(AVRO, f'"{subject}"', tuple(Reference(name, name, 1) for name in used))
        state.replay(*schema_record(subject, 1, StoredVersion(subject, 1, len(subject), schema)))
    reader = access_of((AclOperation.READ, "orders"), state=state)
    assert [name for name in state.subjects() if reader.may_read(name)] == ["address", "common", "orders-value"]
