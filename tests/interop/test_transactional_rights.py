"""``barnabas access needs`` names the least rights: a transactional client works with them, and fails without any."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.access.needs import Need, transactional_producer_needs
from barnabas.clients.admin import AclBinding
from barnabas.common.acl import AclPermissionType
from barnabas.common.resource import PatternType
from barnabas.testing import Node

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

LIMIT_S = 5.0
NEEDS = transactional_producer_needs("billing", topics=["invoices"], group="billing", read_topics=["orders"])


def binding(need: Need) -> AclBinding:
    resource = need.resource
    return AclBinding(
        resource.type, resource.name, PatternType.LITERAL, "User:ann", "*", need.operation, AclPermissionType.ALLOW
    )


def work(node: Node) -> None:
    """Write a record and commit an offset in one transaction. Raise KafkaException if a right is missing."""
    settings = {**node.confluent_config("ann"), "log_level": "0"}
    producer = Producer({**settings, "transactional.id": "billing", "message.timeout.ms": "4000"})
    consumer = Consumer({**settings, "group.id": "billing"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    try:
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        producer.produce("invoices", "an invoice")
        producer.send_offsets_to_transaction(
            [TopicPartition("orders", 0, 1)], consumer.consumer_group_metadata(), LIMIT_S
        )
        producer.commit_transaction(LIMIT_S)
    finally:
        consumer.close()


@pytest.mark.parametrize("left_out", [None, *NEEDS], ids=str)
def test_a_transactional_client_works_with_these_rights_and_no_less(left_out: Need | None) -> None:
    acls = [binding(need) for need in NEEDS if need != left_out]
    with Node(topics=["orders", "invoices"], users={"ann": "secret"}, acls=acls) as node:
        if left_out is None:
            work(node)
        else:
            with pytest.raises(KafkaException):
                work(node)
