"""The schema registry on our node: Confluent's Python serializers, its REST API, its topic, a group of registries."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.testing import Node
from tests.peers.quorums import wait_until
from tests.peers.registry import RegistryThread, running_registry, write_users

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

WRITTEN = "kafka_schema_registry_records_written_total"
ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
WIDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
NARROWER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":"string"}]}'
)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(settings={"group.initial.rebalance.delay.ms": "0"}) as node:
        yield node


@pytest.fixture(scope="module")
def registry(node: Node) -> Iterator[RegistryThread]:
    with running_registry(node.bootstrap_servers, kafkastore_topic="_shared") as registry:
        yield registry


@pytest.fixture
def client(registry: RegistryThread) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


def through_the_broker(node: Node, topic: str, values: list[bytes]) -> list[bytes]:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    read: list[bytes] = []
    while len(read) < len(values):
        message = consumer.poll(30)
        assert message is not None, read
        assert message.error() is None
        read.append(message.value())
    consumer.close()
    return read


def protobuf_order() -> Any:
    """Return the class of a message whose file imports another one."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=1)
    message.field.add(
        name="at", number=2, type=FieldDescriptorProto.TYPE_MESSAGE, label=1
    ).type_name = ".google.protobuf.Timestamp"
    pool = DescriptorPool()
    pool.AddSerializedFile(Timestamp.DESCRIPTOR.file.serialized_pb)
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


class TestConfluentSerializers:
    def test_avro_evolves_through_topic_and_registry(
        self, node: Node, registry: RegistryThread, client: SchemaRegistryClient, topic: str
    ) -> None:
        context = SerializationContext(topic, MessageField.VALUE)
        written = [
            AvroSerializer(client, ORDER)({"id": 1}, context),
            AvroSerializer(client, WIDER)({"id": 2, "note": "x"}, context),
        ]
        read = through_the_broker(node, topic, written)
        with SchemaRegistryClient({"url": registry.url}) as other:
            reader = AvroDeserializer(other, WIDER)
            assert [reader(value, context) for value in read] == [{"id": 1, "note": None}, {"id": 2, "note": "x"}]
        with pytest.raises(SchemaRegistryError, match="TYPE_MISMATCH") as refused:
            AvroSerializer(client, NARROWER)({"id": 3, "note": "y"}, context)
        assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)

    def test_json_schema(self, node: Node, client: SchemaRegistryClient, topic: str) -> None:
        context = SerializationContext(topic, MessageField.VALUE)
        schema = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})
        [read] = through_the_broker(node, topic, [JSONSerializer(schema, client)({"id": 7}, context)])
        assert JSONDeserializer(None, schema_registry_client=client)(read, context) == {"id": 7}

    def test_protobuf_with_an_import(self, node: Node, client: SchemaRegistryClient, topic: str) -> None:
        order = protobuf_order()
        context = SerializationContext(topic, MessageField.VALUE)
        settings = {"use.deprecated.format": False, "skip.known.types": True}
        written = ProtobufSerializer(order, client, settings)(order(id=5, at={"seconds": 1}), context)
        [read] = through_the_broker(node, topic, [written])
        reader = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)
        assert (reader(read, context).id, reader(read, context).at.seconds) == (5, 1)
        stored = client.get_latest_version(f"{topic}-value")
        assert stored.schema.schema_str.startswith('syntax = "proto3";\npackage shop;\nimport "google/protobuf')
        # The client sends the compiled file, and finds the text by it; so does a client that sends other text.
        by_hand = stored.schema.schema_str.replace(".google.protobuf.", "google.protobuf.").replace(
            "message", "// x\nmessage"
        )
        found = client.lookup_schema(f"{topic}-value", Schema(by_hand, "PROTOBUF"))
        assert found.schema_id == stored.schema_id

    def test_registering_again_from_many_clients_makes_one_version(self, registry: RegistryThread, topic: str) -> None:
        ids: list[int] = []

        def register() -> None:
            ids.append(registry.call("POST", f"/subjects/{topic}/versions", {"schema": ORDER})[1]["id"])

        threads = [threading.Thread(target=register) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(ids)) == 1
        assert registry.call("GET", f"/subjects/{topic}/versions") == (200, [1])

    def test_references_are_resolved_and_protected(self, client: SchemaRegistryClient, topic: str) -> None:
        client.register_schema(f"{topic}-address", Schema('{"type":"record","name":"Address","fields":[]}', "AVRO"))
        reference = SchemaReference("Address", f"{topic}-address", 1)
        customer = '{"type":"record","name":"Customer","fields":[{"name":"home","type":"Address"}]}'
        client.register_schema(f"{topic}-value", Schema(customer, "AVRO", [reference]))
        assert client.get_latest_version(f"{topic}-value").schema.references[0].subject == f"{topic}-address"
        with pytest.raises(SchemaRegistryError) as refused:
            client.delete_subject(f"{topic}-address")
        assert refused.value.error_code == 42206

    def test_the_rest_of_the_client(self, client: SchemaRegistryClient, topic: str) -> None:
        schema_id = client.register_schema(topic, Schema(ORDER, "AVRO"))
        assert client.get_schema(schema_id).schema_str == ORDER
        assert topic in client.get_subjects()
        assert client.lookup_schema(topic, Schema(ORDER, "AVRO")).version == 1
        assert client.test_compatibility(topic, Schema(WIDER, "AVRO"))
        assert not client.test_compatibility(topic, Schema(NARROWER, "AVRO"))
        client.set_compatibility(topic, "NONE")
        assert client.get_compatibility(topic) == "NONE"
        assert client.register_schema(topic, Schema(NARROWER, "AVRO")) > schema_id
        assert client.get_versions(topic) == [1, 2]
        assert client.delete_version(topic, 2) == 2
        assert client.delete_subject(topic) == [1]
        assert client.delete_subject(topic, permanent=True) == [1, 2]
        assert topic not in client.get_subjects()


class TestRestApi:
    def test_contexts_have_their_own_ids_and_settings(self, registry: RegistryThread, topic: str) -> None:
        context = f".{topic}"
        schema = {"schema": ORDER}
        path = f"/contexts/{context}/subjects/orders-value/versions"
        assert registry.call("POST", path, schema) == (200, {"id": 1, "version": 1})
        assert registry.call("GET", f"/subjects/:{context}:orders-value/versions") == (200, [1])
        assert context in registry.call("GET", "/contexts")[1]
        assert registry.call("GET", f"/contexts/{context}/subjects") == (200, [f":{context}:orders-value"])
        assert f":{context}:orders-value" not in registry.call("GET", "/subjects")[1]
        assert f":{context}:orders-value" in registry.call("GET", "/subjects?subjectPrefix=:*:")[1]
        assert registry.call("GET", f"/contexts/{context}/schemas/ids/1") == (200, schema)
        assert registry.call("PUT", f"/contexts/{context}/config", {"compatibility": "NONE"})[0] == 200
        assert registry.call("POST", path, {"schema": NARROWER}) == (200, {"id": 2, "version": 2})

    def test_compatibility_is_explained(self, registry: RegistryThread, topic: str) -> None:
        registry.call("POST", f"/subjects/{topic}/versions", {"schema": ORDER})
        path = f"/compatibility/subjects/{topic}/versions"
        assert registry.call("POST", f"{path}/latest", {"schema": WIDER}) == (200, {"is_compatible": True})
        status, answer = registry.call("POST", f"{path}?verbose=true", {"schema": NARROWER})
        assert (status, answer["is_compatible"]) == (200, False)
        assert "the field note" in answer["messages"][0]
        assert answer["messages"][-1] == "{compatibility: 'BACKWARD'}"
        assert registry.call("POST", f"{path}/7", {"schema": WIDER})[1]["error_code"] == 40402
        assert registry.call("POST", f"{path}/first", {"schema": WIDER})[1]["error_code"] == 42202
        unknown = f"/compatibility/subjects/{topic}-unknown/versions/latest"
        assert registry.call("POST", unknown, {"schema": WIDER}) == (200, {"is_compatible": True})

    def test_versions_are_imported_with_their_ids(self, registry: RegistryThread, topic: str) -> None:
        path = f"/subjects/{topic}/versions"
        imported = {"schema": ORDER, "id": 100_000, "version": 4}
        assert registry.call("POST", path, imported)[1]["error_code"] == 42205
        assert registry.call("PUT", f"/mode/{topic}", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
        assert registry.call("POST", path, imported) == (200, {"id": 100_000, "version": 4})
        assert registry.call("GET", "/schemas/ids/100000/versions") == (200, [{"subject": topic, "version": 4}])
        assert registry.call("DELETE", f"/mode/{topic}") == (200, {"mode": "IMPORT"})
        assert registry.call("GET", f"/mode/{topic}?defaultToGlobal=true") == (200, {"mode": "READWRITE"})
        assert registry.call("GET", f"/mode/{topic}")[1]["error_code"] == 40409

    @pytest.mark.parametrize(
        ("method", "path", "body", "error"),
        [
            ("GET", "/schemas/ids/99999", None, (404, 40403)),
            ("GET", "/schemas/ids/x", None, (404, 40403)),
            ("GET", "/subjects/none/versions", None, (404, 40401)),
            ("GET", "/subjects/none/versions/0", None, (422, 42202)),
            ("GET", "/config/none", None, (404, 40408)),
            ("PUT", "/config", {"compatibility": "SOME"}, (422, 42203)),
            ("PUT", "/mode", {"mode": "SOME"}, (422, 42204)),
            ("POST", "/subjects/none/versions", {"schema": "{"}, (422, 42201)),
            ("POST", "/subjects/none/versions", {"schema": ""}, (422, 42201)),
            ("POST", "/subjects/none/versions", {"schema": "x", "schemaType": "XML"}, (422, 42201)),
            ("POST", "/subjects/none/versions", [], (400, 400)),
            ("POST", "/subjects/none", {"schema": '"int"'}, (404, 40401)),
            ("GET", "/nothing", None, (404, 404)),
            ("DELETE", "/contexts", None, (405, 405)),
        ],
    )
    def test_errors_have_confluents_codes(
        self, registry: RegistryThread, method: str, path: str, body: Any, error: tuple[int, int]
    ) -> None:
        status, answer = registry.call(method, path, body)
        assert (status, answer["error_code"]) == error
        assert answer["message"]

    def test_media_types(self, registry: RegistryThread) -> None:
        def answered(**headers: str) -> tuple[int, str]:
            answer = httpx.get(f"{registry.url}/subjects", headers=headers)
            return answer.status_code, answer.headers["content-type"]

        assert answered(accept="*/*") == (200, "application/vnd.schemaregistry.v1+json")
        assert answered(accept="application/json") == (200, "application/json")
        assert answered(accept="text/html")[0] == 406
        assert httpx.post(f"{registry.url}/subjects/s", content="x", headers={"content-type": "a/b"}).status_code == 415


class TestTopic:
    def test_another_registry_reads_the_same_state_from_the_topic(self, node: Node, topic: str) -> None:
        name = f"_{topic}"
        with running_registry(node.bootstrap_servers, kafkastore_topic=name) as first:
            assert first.call("POST", f"/subjects/{topic}/versions", {"schema": ORDER})[0] == 200
            assert first.call("PUT", f"/config/{topic}", {"compatibility": "FULL"})[0] == 200
            assert first.call("DELETE", "/subjects/unknown")[1]["error_code"] == 40401
        with running_registry(node.bootstrap_servers, kafkastore_topic=name) as second:
            assert second.call("GET", f"/config/{topic}") == (200, {"compatibilityLevel": "FULL"})
            assert second.call("GET", f"/subjects/{topic}/versions/latest")[1]["schema"] == ORDER

    def test_records_have_the_form_of_confluents(self, node: Node, topic: str) -> None:
        name = f"_{topic}"
        with running_registry(node.bootstrap_servers, kafkastore_topic=name) as registry:
            registry.call("POST", f"/subjects/{topic}/versions", {"schema": ORDER})
            registry.call("PUT", "/config", {"compatibility": "full"})
            registry.call("DELETE", f"/subjects/{topic}")
            registry.call("DELETE", f"/subjects/{topic}?permanent=true")
        records = list(read_topic(node, name))
        schema = json.dumps(ORDER)
        assert records == [
            ('{"keytype":"NOOP","magic":0}', None),
            (
                f'{{"keytype":"SCHEMA","subject":"{topic}","version":1,"magic":1}}',
                f'{{"subject":"{topic}","version":1,"id":1,"schema":{schema},"deleted":false}}',
            ),
            ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL"}'),
            (
                f'{{"keytype":"DELETE_SUBJECT","subject":"{topic}","magic":0}}',
                f'{{"subject":"{topic}","version":1}}',
            ),
            (f'{{"keytype":"SCHEMA","subject":"{topic}","version":1,"magic":1}}', None),
            (f'{{"keytype":"DELETE_SUBJECT","subject":"{topic}","magic":0}}', None),
        ]

    def test_a_topic_of_confluents_registry_is_taken_over(self, node: Node, topic: str) -> None:
        """The records are as Confluent's registry 7 writes them, with fields that this one does not know."""
        name = f"_{topic}"
        with running_registry(node.bootstrap_servers, kafkastore_topic=name):
            pass
        written = [
            (
                '{"keytype":"SCHEMA","subject":"a-value","version":1,"magic":1}',
                {"subject": "a-value", "version": 1, "id": 5, "md5": "Zm9v", "schema": ORDER, "deleted": False},
            ),
            ('{"keytype":"CONTEXT","tenant":"default","context":".","magic":0}', {"tenant": "default", "context": "."}),
            ('{"keytype":"CONFIG","subject":"a-value","magic":0}', {"compatibilityLevel": "NONE", "normalize": True}),
            ('{"keytype":"MODE","subject":"b-value","magic":0}', {"mode": "READONLY"}),
            ('{"keytype":"ODD","magic":0}', {}),
        ]
        producer = Producer({"bootstrap.servers": node.bootstrap_servers})
        for key, value in written:
            producer.produce(name, json.dumps(value).encode(), key.encode())
        assert producer.flush(30) == 0
        with running_registry(node.bootstrap_servers, kafkastore_topic=name) as registry:
            assert registry.call("GET", "/schemas/ids/5") == (200, {"schema": ORDER})
            assert registry.call("GET", "/config/a-value")[1]["compatibilityLevel"] == "NONE"
            assert registry.call("POST", "/subjects/b-value/versions", {"schema": ORDER})[1]["error_code"] == 42205
            assert registry.call("POST", "/subjects/a-value/versions", {"schema": NARROWER})[1]["id"] == 6
            assert registry.metric("kafka_schema_registry_malformed_records_total") == 1


def read_topic(node: Node, topic: str) -> Iterator[tuple[str, str | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": f"read-{topic}",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            break
        value = message.value()
        yield message.key().decode(), None if value is None else value.decode()
    consumer.close()


class TestGroup:
    def test_a_follower_forwards_and_takes_over(self, node: Node, topic: str) -> None:
        settings = {"kafkastore_topic": f"_{topic}"}
        with (
            running_registry(node.bootstrap_servers, **settings) as first,
            running_registry(node.bootstrap_servers, **settings) as second,
        ):
            leader, follower = elected(first, second)
            written = follower.metric(WRITTEN)  # It may have led before the other one joined.
            assert follower.call("POST", f"/subjects/{topic}/versions", {"schema": ORDER})[1]["id"] == 1
            assert follower.call("GET", f"/subjects/{topic}/versions") == (200, [1])
            assert follower.call("POST", f"/subjects/{topic}/versions", {"schema": NARROWER})[0] == 409
            assert follower.metric(WRITTEN) == written
            leader.stop()
            assert follower.call("POST", f"/subjects/{topic}/versions", {"schema": WIDER})[1].get("id") == 2
            assert follower.is_leader
            assert follower.call("GET", f"/subjects/{topic}/versions") == (200, [1, 2])

    def test_a_registry_that_may_not_lead_answers_reads_and_says_that_no_leader_exists(
        self, node: Node, topic: str
    ) -> None:
        settings = {"kafkastore_topic": f"_{topic}", "leader_eligibility": "false"}
        with running_registry(node.bootstrap_servers, **settings) as registry:
            assert registry.call("GET", "/subjects") == (200, [])
            status, body = registry.call("POST", f"/subjects/{topic}/versions", {"schema": ORDER})
            assert (status, body["error_code"]) == (500, 50004)


def elected(first: RegistryThread, second: RegistryThread) -> tuple[RegistryThread, RegistryThread]:
    """Return leader and follower, when both know who leads."""
    wait_until(lambda: first.leader_url == second.leader_url is not None, what="an election", timeout_s=60)
    return (first, second) if first.leader_url == first.url else (second, first)


def allowed(user: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, "orders", PatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RegistryThread, RegistryThread]]:
    folder = tmp_path_factory.mktemp("users")
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    users = str(write_users(folder / "users", "writer", "reader", "other"))
    with Node(settings=settings) as node:
        node.create_acls([allowed("writer", AclOperation.WRITE), allowed("reader", AclOperation.READ)])
        common = {
            "barnabas_registry_authentication": "basic",
            "barnabas_registry_users_file": users,
            "barnabas_registry_forwarding_secret": "s3cret",
            "barnabas_registry_acls_max_age_ms": "0",
        }
        with (
            running_registry(node.bootstrap_servers, **common) as first,
            running_registry(node.bootstrap_servers, **common) as second,
        ):
            leader, follower = elected(first, second)
            yield leader, follower


class TestAccess:
    @pytest.mark.parametrize("place", [0, 1], ids=["leader", "follower"])
    def test_who_may_write_a_topic_may_register_its_subjects(
        self, secured: tuple[RegistryThread, RegistryThread], place: int
    ) -> None:
        registry = secured[place]
        schema = {"schema": ORDER if place == 0 else WIDER}

        def status(user: str, method: str, path: str, body: Any = None) -> int:
            return registry.call(method, path, body, auth=(user, user))[0]

        assert registry.call("GET", "/subjects")[0] == 401
        assert status("reader", "POST", "/subjects/orders-value/versions", schema) == 403
        assert status("other", "POST", "/subjects/orders-value/versions", schema) == 403
        assert status("writer", "POST", "/subjects/orders-value/versions", schema) == 200
        assert status("writer", "POST", "/subjects/payments-value/versions", schema) == 403
        assert status("reader", "GET", "/schemas/ids/1") == 200
        assert status("other", "GET", "/schemas/ids/1") == 404
        assert status("other", "GET", "/subjects/orders-value/versions") == 403
        assert registry.call("GET", "/subjects", auth=("other", "other"))[1] == []
        assert registry.call("GET", "/subjects", auth=("reader", "reader"))[1] == ["orders-value"]
        assert status("writer", "PUT", "/config", {"compatibility": "NONE"}) == 403
        assert status("writer", "DELETE", "/subjects/orders-value") == 403
