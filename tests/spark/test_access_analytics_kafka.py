"""A fresh log of a real Kafka: history and permissions equal what its broker answers at that point."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.clients.admin import AdminClient
from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.pipelines.acl_history.schema import RECORD_TYPES
from barnabas.pipelines.acl_history.transforms import acl_history, rules_at_offset
from barnabas.pipelines.effective_permissions.transforms import effective_permissions, permissions_of_resources
from barnabas.pipelines.sources.kraft_metadata import KraftMetadata
from barnabas.storage.metadata_reader import read_metadata
from tests.peers import running_kafka
from tests.unit.pipelines.sources.read_source import read_table

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
FIRST = [
    AclBinding(2, "orders", 3, "User:alice", "*", 3, 3),
    AclBinding(2, "ord", 4, "User:bob", "10.0.0.9", 4, 3),
    AclBinding(2, "*", 3, "User:*", "*", 8, 3),
    AclBinding(2, "ord", 4, "User:*", "*", 8, 2),
    AclBinding(3, "app-", 4, "User:alice", "*", 2, 3),
]
SECOND = [AclBinding(2, "orders", 3, "User:carol", "*", 2, 3)]


def names_of(rule: AclBinding) -> tuple[str, ...]:
    return (
        ResourceType(rule.resource_type).name,
        rule.name,
        PatternType(rule.pattern_type).name,
        rule.principal,
        rule.host,
        AclOperation(rule.operation).name,
        AclPermissionType(rule.permission).name,
    )


async def described(admin: AdminClient) -> set[tuple[str, ...]]:
    return {names_of(rule) async for rule in admin.describe_acls()}


def test_the_history_equals_what_the_broker_answers(spark: SparkSession, kafka_peer: Path, tmp_path: Path) -> None:
    with running_kafka(tmp_path / "kafka", settings=SETTINGS) as node:
        log = tmp_path / "kafka" / "data"

        async def story() -> list[tuple[int, set[tuple[str, ...]]]]:
            points = []
            async with AdminClient(f"127.0.0.1:{node.port}") as admin:
                for create, delete in ((FIRST, None), (SECOND, AclBindingFilter(principal="User:*")), ([], None)):
                    if create:
                        await admin.create_acls(create, wait=True)
                    if delete is not None:
                        await admin.delete_acls([delete], wait=True)
                    points.append((read_metadata(str(log)).image.offset, await described(admin)))
            return points

        points = asyncio.run(story())
    table = read_table(KraftMetadata, path=log, recordFormat="struct", types=",".join(RECORD_TYPES))
    history = acl_history(spark.createDataFrame(table)).cache()
    for offset, expected in points:
        found = {tuple(row[1:]) for row in rules_at_offset(history, offset).collect()}
        assert found == expected
    assert len(points[0][1]) == 5
    assert len(points[1][1]) == 4
    rules = rules_at_offset(history, points[0][0])
    topics = spark.createDataFrame([("TOPIC", "orders")], "resource_type string, resource_name string")
    cells = permissions_of_resources(effective_permissions(rules), rules, topics).collect()
    allowed = {(row.principal, row.host, row.operation) for row in cells if row.allowed}
    assert allowed == {("User:alice", "*", "READ"), ("User:bob", "10.0.0.9", "WRITE")}
    history.unpersist()
