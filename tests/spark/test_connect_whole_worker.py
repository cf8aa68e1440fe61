"""Complete workers with a real Spark: requests of users over HTTP, and the resulting topics and files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS, parse_partitions
from barnabas.testing import Node
from tests.interop.raw_client import RawClient
from tests.peers.acl_matrix import parse_rights
from tests.peers.acl_stage import create_acls
from tests.peers.secure import USERS, SecureNode, jaas_client, running_secure_barnabas
from tests.spark.connect_worker_stage import running_worker
from tests.unit.connect_spark.converters.test_protobuf_messages import descriptors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

TEXT = "org.apache.kafka.connect.storage.StringConverter"
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


def create(bootstrap: str, **topics: int) -> None:
    """Create topics by name, with this many partitions."""
    with AdminClient.sync(bootstrap) as admin:
        new = [NewTopic(name.replace("_", "-"), partitions, 1) for name, partitions in topics.items()]
        admin.create_topics(new, wait=True).raise_for_errors()


def produce(spark: SparkSession, bootstrap: str, topic: str, rows: Sequence[tuple[int, str]]) -> None:
    """Produce rows of partition and value."""
    frame = spark.createDataFrame(list(rows), "partition int, value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()


def records(spark: SparkSession, bootstrap: str, topic: str) -> list[Any]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.option("includeHeaders", "true").load().orderBy("partition", "offset").collect()


def committed(folder: Path, file_format: str = "parquet") -> list[Path]:
    """Return the committed files; Spark creates and deletes other entries beside them."""
    return [
        path for entry in folder.glob("*") if not entry.name.startswith("_")
        for path in ([entry] if entry.is_file() else entry.rglob("*")) if path.suffix == f".{file_format}"
    ]  # fmt: skip


def values_of(spark: SparkSession, folder: Path) -> list[Any]:
    return spark.read.parquet(str(folder)).collect() if committed(folder) else []


def offsets_of(bootstrap: str, group: str) -> dict[TopicPartition, Any]:
    with AdminClient.sync(bootstrap) as admin:
        return dict(admin.list_group_offsets([group])[group].raise_for_errors())


def task_metrics(text: str, group: str) -> Set[tuple[str, float]]:
    """Return the metrics of the only task."""
    return {
        (sample.name.removeprefix(f"kafka_connect_{group}_"), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(f"kafka_connect_{group}_") and set(sample.labels) == {"connector", "task"}
    }


@pytest.mark.long
def test_a_new_topic_of_a_pattern_and_new_partitions_become_work_of_two_tasks(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    config = {
        "connector.class": "TopicToFiles",
        "tasks.max": "2",
        "topics.regex": "trips-.*",
        "directory": str(folder),
        "record.columns": "topic,partition,offset",
    }

    def found() -> list[tuple[str, int, int, str]]:
        return sorted((row._topic, row._partition, row._offset, row.value) for row in values_of(spark, folder))

    def divided(tasks: list[dict[str, Any]]) -> list[set[TopicPartition]]:
        return [set(parse_partitions(task["config"][TASK_PARTITIONS])) for task in tasks]

    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, "pattern", tmp_path) as worker:
            await asyncio.to_thread(create, node.bootstrap_servers, trips_a=3)
            await asyncio.to_thread(produce, spark, node.bootstrap_servers, "trips-a", [(0, "x"), (1, "y"), (2, "z")])
            await worker.create("trips", config)
            await worker.states("trips", "RUNNING", "RUNNING")
            before = divided((await worker.request("GET", "/connectors/trips/tasks")).json())
            assert sorted(map(len, before)) == [1, 2]
            assert set.union(*before) == {TopicPartition("trips-a", partition) for partition in range(3)}
            await worker.eventually(lambda: len(found()) == 3)

            await asyncio.to_thread(create, node.bootstrap_servers, trips_b=1)
            await asyncio.to_thread(produce, spark, node.bootstrap_servers, "trips-b", [(0, "new")])
            await worker.eventually(lambda: ("trips-b", 0, 0, "new") in found())
            after = divided((await worker.request("GET", "/connectors/trips/tasks")).json())
            assert set.union(*after) == {TopicPartition("trips-b", 0), *set.union(*before)}
            assert sum(map(len, after)) == 4
            await worker.states("trips", "RUNNING", "RUNNING")
            assert found() == [
                *(("trips-a", at, 0, value) for at, value in enumerate("xyz")), ("trips-b", 0, 0, "new")
            ]  # fmt: skip
            used = (await worker.request("GET", "/connectors/trips/topics")).json()
            assert sorted(used["trips"]["topics"]) == ["trips-a", "trips-b"]

    asyncio.run(scenario())


@pytest.mark.long
def test_pauses_restarts_and_failures_are_states_and_a_repaired_task_resumes(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    config = {"connector.class": "TopicToFiles", "topics": "states", "directory": str(folder), **JSON}
    settings = {"barnabas.connect.task.restart.max.attempts": "0"}

    def ids() -> list[int]:
        return sorted(row.id for row in values_of(spark, folder))

    async def write(*values: str) -> None:
        await asyncio.to_thread(produce, spark, node.bootstrap_servers, "states", [(0, value) for value in values])

    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, "states", tmp_path, settings) as worker:
            await asyncio.to_thread(create, node.bootstrap_servers, states=1)
            await write('{"id": 1}')
            await worker.create("states", config)
            await worker.eventually(lambda: ids() == [1])

            assert (await worker.request("PUT", "/connectors/states/pause")).status_code == 202
            paused = await worker.states("states", "PAUSED")
            assert paused["connector"]["state"] == "PAUSED"
            await write('{"id": 2}')
            await asyncio.sleep(1)
            assert ids() == [1]
            assert (await worker.request("PUT", "/connectors/states/resume")).status_code == 202
            await worker.eventually(lambda: ids() == [1, 2])

            restarted = await worker.request("POST", "/connectors/states/restart?includeTasks=true")
            assert restarted.status_code == 202
            await worker.states("states", "RUNNING")
            await write('{"id": 3}')
            await worker.eventually(lambda: ids() == [1, 2, 3])

            await write("{no json", '{"id": 4}')
            failed = await worker.states("states", "FAILED")
            assert failed["connector"]["state"] == "RUNNING"
            trace = failed["tasks"][0]["trace"]
            assert trace.startswith("Tolerance exceeded in error handler: VALUE_CONVERTER of the record at states-0,")
            assert "offset 3 failed in org.apache.kafka.connect.json.JsonConverter" in trace.splitlines()[0]
            metrics = (await worker.request("GET", "/metrics")).text
            assert 'connector_failed_task_count{connector="states"} 1.0' in metrics

            mended = {"name": "states", **config, "errors.tolerance": "all"}
            assert (await worker.request("PUT", "/connectors/states/config", mended)).status_code == 200
            await worker.states("states", "RUNNING", was="FAILED")
            await worker.eventually(lambda: ids() == [1, 2, 3, 4])
            # The failure is shown until this batch has succeeded.
            await worker.until("/connectors/states/status", lambda at: "trace" not in at["tasks"][0])

            assert (await worker.request("PUT", "/connectors/states/stop")).status_code == 204
            await worker.until(
                "/connectors/states/status", lambda at: (at["connector"]["state"], at["tasks"]) == ("STOPPED", [])
            )
            offsets = (await worker.request("GET", "/connectors/states/offsets")).json()["offsets"]
            assert [position["offset"] for position in offsets] == [{"kafka_offset": 5}]

    asyncio.run(scenario())


def test_bad_records_of_a_running_sink_go_to_the_dead_letter_topic_and_the_log(
    spark: SparkSession, node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    config = {
        "connector.class": "TopicToFiles",
        "topics": "poison",
        "directory": str(folder),
        **JSON,
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "id:int32",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
        "errors.deadletterqueue.topic.name": "poison-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }

    async def scenario() -> str:
        async with running_worker(spark, node.bootstrap_servers, "poison", tmp_path) as worker:
            await asyncio.to_thread(create, node.bootstrap_servers, poison=1)
            values = ['{"id": 1}', "{no json", '{"id": "x"}', '{"id": 2}']
            await asyncio.to_thread(produce, spark, node.bootstrap_servers, "poison", [(0, value) for value in values])
            await worker.create("poison", config)
            await worker.eventually(lambda: sorted(row.id for row in values_of(spark, folder)) == [1, 2])
            await worker.eventually(lambda: len(records(spark, node.bootstrap_servers, "poison-dead")) == 2)
            await worker.states("poison", "RUNNING")
            group = "connect-poison"
            await worker.eventually(lambda: bool(offsets_of(node.bootstrap_servers, group)))
            await worker.until(
                "/connectors/poison/status?details=true",
                lambda at: (at["tasks"][0].get("skipped_records"), at["tasks"][0].get("dead_letters")) == (2, 2),
            )
            found = (await worker.request("GET", "/connectors/poison/dead-letters")).json()
            assert found["total"] == 2
            assert {(letter["value"], letter["error"]["stage"]) for letter in found["letters"]} == {
                ("{no json", "VALUE_CONVERTER"),
                ('{"id": "x"}', "TRANSFORMATION"),
            }
            await worker.until(
                "/connectors/poison/history",
                lambda past: sum(value or 0 for value in past["records"]) == 4 and sum(past["dead_letters"]) == 2,
            )
            return (await worker.request("GET", "/metrics")).text

    metrics = asyncio.run(scenario())
    assert task_metrics(metrics, "sink_task_metrics") >= {
        "partition_count": 1, "sink_record_read_total": 4, "sink_record_send_total": 2, "offset_commit_seq_no": 1
    }.items()  # fmt: skip
    errors = dict(task_metrics(metrics, "task_error_metrics"))
    assert errors.pop("last_error_timestamp") > 1.7e12
    assert errors == {
        "total_record_errors": 2,
        "total_record_failures": 2,
        "total_records_skipped": 2,
        "total_retries": 0,
        "total_errors_logged": 2,
        "deadletterqueue_produce_requests": 2,
        "deadletterqueue_produce_failures": 0,
    }
    of_task = dict(task_metrics(metrics, "connector_task_metrics"))
    assert of_task["batch_size_max"] == 4
    assert of_task["offset_commit_success_percentage"] == 1
    assert of_task["running_ratio"] > 0
    unread, uncast = records(spark, node.bootstrap_servers, "poison-dead")
    assert [bytes(letter.value) for letter in (unread, uncast)] == [b"{no json", b'{"id": "x"}']
    headers = [{header.key: bytes(header.value).decode() for header in letter.headers} for letter in (unread, uncast)]
    before = "__connect.errors."
    assert [header[f"{before}stage"] for header in headers] == ["VALUE_CONVERTER", "TRANSFORMATION"]
    assert [header[f"{before}offset"] for header in headers] == ["1", "2"]
    assert headers[0][f"{before}topic"] == "poison"
    assert headers[0][f"{before}connector.name"] == "poison"
    assert headers[0][f"{before}class.name"] == "org.apache.kafka.connect.json.JsonConverter"
    assert headers[1][f"{before}class.name"] == "org.apache.kafka.connect.transforms.Cast$Value"
    assert headers[1][f"{before}exception.class.name"].startswith("org.apache.kafka.connect.errors.")
    assert "topic='poison', partition=0, offset=1, key=null, value='{no json'" in caplog.text


AVRO = {"type": "record", "name": "Numbered", "fields": [
    {"name": "number", "type": ["null", "long"]}, {"name": "text", "type": ["null", "string"]}
]}  # fmt: skip


def avro(folder: Path) -> dict[str, str]:
    path = folder / "numbered.avsc"
    path.write_text(json.dumps(AVRO))
    return {
        "value.converter": "barnabas.connect.converters.AvroConverter",
        "value.converter.barnabas.avro.schema.file": str(path),
    }


def protobuf(folder: Path) -> dict[str, str]:
    path = folder / "shop.desc"
    path.write_bytes(descriptors())
    return {
        "value.converter": "barnabas.connect.converters.ProtobufConverter",
        "value.converter.barnabas.protobuf.descriptor.file": str(path),
        "value.converter.barnabas.protobuf.message": "shop.Order",
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("converter", "renames", "fields"),
    [(avro, "", ("number", "text")), (protobuf, "number:id,text:note", ("id", "note"))],
    ids=["avro", "protobuf"],
)
def test_typed_bytes_go_from_a_source_through_a_topic_into_files(
    spark: SparkSession,
    node: Node,
    tmp_path: Path,
    converter: Callable[[Path], dict[str, str]],
    renames: str,
    fields: tuple[str, str],
) -> None:
    topic, folder = f"bytes-{fields[0]}", tmp_path / "data"
    source = {
        "connector.class": "Generator",
        "topic": topic,
        "records.per.second": "1000",
        "records.max": "200",
        "text.size": "4",
        **converter(tmp_path),
    }
    if renames:
        source |= {
            "transforms": "names",
            "transforms.names.type": "ReplaceField$Value",
            "transforms.names.renames": renames,
        }
    sink = {"connector.class": "TopicToFiles", "topics": topic, "directory": str(folder), **converter(tmp_path)}

    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, topic, tmp_path) as worker:
            await asyncio.to_thread(create, node.bootstrap_servers, **{topic: 2})
            await worker.create("source", source)
            await worker.create("sink", sink)
            await worker.eventually(lambda: len(values_of(spark, folder)) == 200)
            metrics = (await worker.request("GET", "/metrics")).text
            assert task_metrics(metrics, "source_task_metrics") >= {
                "source_record_poll_total": 200, "source_record_write_total": 200, "source_record_active_count": 0
            }.items()  # fmt: skip

    asyncio.run(scenario())
    rows = values_of(spark, folder)
    assert sorted(row[fields[0]] for row in rows) == list(range(200))
    assert {len(row[fields[1]]) for row in rows} == {4}
    first = bytes(records(spark, node.bootstrap_servers, topic)[0].value)
    assert b"{" not in first


@pytest.mark.long
@pytest.mark.parametrize("file_format", ["parquet", "json", "csv", "orc"])
def test_files_of_each_format_are_in_folders_by_time(
    spark: SparkSession, node: Node, tmp_path: Path, file_format: str
) -> None:
    topic, folder = f"formats-{file_format}", tmp_path / "data"
    config = {
        "connector.class": "TopicToFiles",
        "topics": topic,
        "directory": str(folder),
        "format": file_format,
        "partition.by": "topic,date,hour",
        "record.columns": "offset,key",
        "file.records.max": "2",
        **JSON,
    }
    values = ['{"id": 1, "tags": ["a"], "text": "x,\\"y"}', '{"id": 2, "tags": [], "text": null}', '{"id": 3}']

    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, topic, tmp_path) as worker:
            await asyncio.to_thread(create, node.bootstrap_servers, **{topic: 1})
            await asyncio.to_thread(produce, spark, node.bootstrap_servers, topic, [(0, value) for value in values])
            await worker.create(topic, config)
            await worker.eventually(lambda: len(committed(folder, file_format)) == 2)

    asyncio.run(scenario())
    assert len(list(folder.glob(f"topic={topic}/date=*/hour=*/{topic}-0-*.{file_format}"))) == 2
    rows = spark.read.format(file_format).option("header", "true").load(str(folder)).orderBy("_offset").collect()
    assert [int(row.id) for row in rows] == [1, 2, 3]
    assert [row.text for row in rows] == ['x,"y', None, None]
    assert {row.topic for row in rows} == {topic}
    tags = rows[0].tags
    assert tags == (["a"] if file_format in ("parquet", "json", "orc") else '["a"]')


@pytest.fixture(scope="module")
def secure_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "auto.create.topics.enable": "false",
    }
    with running_secure_barnabas(tmp_path_factory.mktemp("secure-worker"), settings=settings) as started:
        client = RawClient(started.ports["PLAINTEXT"])
        rights = {"alice": "READ TOPIC secured; READ GROUP connect-sink", "bob": "WRITE TOPIC secured"}
        create_acls(client, [right for user, text in rights.items() for right in parse_rights(text, user, None)])
        client.close()
        yield started
    assert "Traceback" not in started.process.printed()


def login(node: SecureNode, user: str, mechanism: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(node.authority),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas_client(mechanism, user, USERS[user]),
    }


def prefixed(prefix: str, settings: dict[str, str]) -> dict[str, str]:
    return {prefix + name: value for name, value in settings.items()}


@pytest.mark.long
def test_tasks_log_in_with_worker_prefixes_and_connector_overrides(
    spark: SparkSession, secure_node: SecureNode, tmp_path: Path
) -> None:
    """Every client has only the rights that it needs, so records arrive only if each authenticates as the right
    user."""
    bootstrap, folder = secure_node.bootstrap("SASL_SSL"), tmp_path / "data"
    worker_settings = {
        **login(secure_node, "admin", "SCRAM-SHA-512"),
        **prefixed("admin.", login(secure_node, "admin", "PLAIN")),
        **prefixed("consumer.", login(secure_node, "alice", "SCRAM-SHA-256")),
        **prefixed("producer.", login(secure_node, "alice", "PLAIN")),
    }
    source = {
        "connector.class": "Generator",
        "topic": "secured",
        "records.per.second": "1000",
        "records.max": "50",
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    overrides = prefixed("producer.override.", login(secure_node, "bob", "SCRAM-SHA-512"))
    sink = {
        "connector.class": "TopicToFiles",
        "topics": "secured",
        "directory": str(folder),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }

    async def scenario() -> None:
        given = {**worker_settings, "barnabas.connect.task.restart.max.attempts": "0"}
        async with running_worker(spark, bootstrap, "secured", tmp_path, given) as worker:
            await worker.create("source", source)
            refused = await worker.states("source", "FAILED")
            assert refused["tasks"][0]["trace"].splitlines()[0] == (
                "org.apache.kafka.common.errors.ClusterAuthorizationException: Cluster authorization failed."
            )
            assert USERS["alice"] not in refused["tasks"][0]["trace"]
            changed = await worker.request("PUT", "/connectors/source/config", {**source, **overrides})
            assert changed.status_code == 200, changed.text
            await worker.create("sink", sink)
            await worker.states("source", "RUNNING", was="FAILED")
            await worker.eventually(lambda: len(values_of(spark, folder)) == 50)
            offsets = (await worker.request("GET", "/connectors/sink/offsets")).json()["offsets"]
            assert sum(position["offset"]["kafka_offset"] for position in offsets) == 50

    asyncio.run(scenario())
    assert sorted(row.number for row in values_of(spark, folder)) == list(range(50))
