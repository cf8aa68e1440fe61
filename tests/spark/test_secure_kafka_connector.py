"""Spark's Kafka connector on SASL_SSL with each mechanism, and with only the rights that it needs. Writing needs WRITE
on the topic, reading needs READ on the topic; neither needs rights on groups, transactional ids or the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.interop.raw_client import RawClient
from tests.peers.acl_matrix import parse_rights
from tests.peers.acl_stage import create_acls
from tests.peers.secure import USERS, SecureNode, jaas_client, running_secure_barnabas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

WRITER, READER = "alice", "bob"
RIGHTS = {WRITER: "WRITE TOPIC spark-...", READER: "READ TOPIC spark-..."}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TOPICS = (*(f"spark-{mechanism.lower()}" for mechanism in MECHANISMS), "spark-from", "spark-to", "hidden")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "auto.create.topics.enable": "false",
    }
    with running_secure_barnabas(tmp_path_factory.mktemp("secure-spark"), settings=settings) as started:
        client = RawClient(started.ports["PLAINTEXT"])
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in TOPICS]
        assert {topic.error_code for topic in client.call(CreateTopicsRequest(topics=topics)).topics} == {0}
        create_acls(client, [binding for user, text in RIGHTS.items() for binding in parse_rights(text, user, None)])
        client.close()
        yield started
    assert "Traceback" not in started.process.printed()


def options(node: SecureNode, user: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    """Return the options of a job for the connector: the client's settings with ``kafka.`` before them."""
    client = {
        "bootstrap.servers": node.bootstrap("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(node.authority),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas_client(mechanism, user, USERS[user]),
    }
    if mechanism == "OAUTHBEARER":
        token = node.authority.parent / f"{user}.token"
        token.write_text(node.issuer.token(user))
        client |= {
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        }
    return {f"kafka.{name}": value for name, value in client.items()}


def write(spark: SparkSession, with_options: dict[str, str], topic: str, count: int) -> None:
    rows = spark.range(count).selectExpr("cast(id % 10 as string) as key", "cast(id as string) as value")
    rows.write.format("kafka").options(**with_options).option("topic", topic).save()


def read(spark: SparkSession, with_options: dict[str, str], topic: str) -> list[int]:
    rows = spark.read.format("kafka").options(**with_options).option("subscribe", topic).load()
    return sorted(int(row.value) for row in rows.selectExpr("cast(value as string) as value").collect())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_batch_is_written_and_read_with_each_mechanism(spark: SparkSession, node: SecureNode, mechanism: str) -> None:
    topic = f"spark-{mechanism.lower()}"
    write(spark, options(node, WRITER, mechanism), topic, 100)
    assert read(spark, options(node, READER, mechanism), topic) == list(range(100))


def test_a_stream_reads_as_one_user_and_writes_as_another(
    spark: SparkSession, node: SecureNode, tmp_path: Path
) -> None:
    write(spark, options(node, WRITER), "spark-from", 200)
    query = (
        spark.readStream.format("kafka")
        .options(**options(node, READER))
        .option("subscribePattern", "spark-fr.*")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "value")
        .writeStream.format("kafka")
        .options(**options(node, WRITER))
        .option("topic", "spark-to")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert read(spark, options(node, READER), "spark-to") == list(range(200))


def test_a_user_without_the_right_receives_an_authorization_error(spark: SparkSession, node: SecureNode) -> None:
    with pytest.raises(Exception, match="TopicAuthorizationException"):
        write(spark, options(node, WRITER), "hidden", 1)
    # Without WRITE on any topic the broker assigns no producer id: the idempotent producer does not even start.
    with pytest.raises(Exception, match="ClusterAuthorizationException"):
        write(spark, options(node, READER), "spark-to", 1)
    with pytest.raises(Exception, match="TopicAuthorizationException|not authorized|UnknownTopicOrPartition"):
        read(spark, options(node, READER), "hidden")


def test_a_wrong_password_is_refused_immediately(spark: SparkSession, node: SecureNode) -> None:
    wrong = options(node, WRITER) | {"kafka.sasl.jaas.config": jaas_client("SCRAM-SHA-512", WRITER, "guessed")}
    with pytest.raises(Exception, match="SaslAuthenticationException|Authentication failed"):
        write(spark, wrong, "spark-to", 1)
