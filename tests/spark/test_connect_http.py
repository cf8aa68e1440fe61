"""Topics to a web server that counts: each record once, whatever is lost on the way."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect.plugins.testing import ConnectorKit, SinkRecord
from barnabas.connect_spark.connectors.http.topic_to_http import TopicToHttp
from barnabas.testing import Node
from tests.peers.certificates import Authority
from tests.peers.http_receiver import LOST_AFTER, LOST_BEFORE, HttpReceiver, ReceivedRequest, running_receiver
from tests.spark.connect_stage import running_json_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

ORDER = "struct<id: int, name: string, at: timestamp>"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with running_receiver() as running:
        yield running


def kit(receiver: HttpReceiver, config: dict[str, str] | None = None) -> ConnectorKit:
    return ConnectorKit(TopicToHttp, {"http.url": receiver.url, **(config or {})})


def test_values_are_json_in_the_order_of_their_partition(spark: SparkSession, receiver: HttpReceiver) -> None:
    records = [SinkRecord((at, None, None), offset=at) for at in (0, 2, 1)] + [SinkRecord(None, partition=1)]
    kit(receiver).write(spark, records, value_type=ORDER)
    assert {request.key: json.loads(request.body) for request in receiver.requests} == {
        "test:topic-0-0-2": [{"id": at, "name": None, "at": None} for at in (0, 1, 2)],
        "test:topic-1-0-0": [None],
    }
    assert {request.headers["Content-Type"] for request in receiver.requests} == {"application/json"}


def test_a_request_may_have_the_whole_record_and_go_to_the_topics_own_url(
    spark: SparkSession, receiver: HttpReceiver
) -> None:
    config = {
        "http.url": f"{receiver.url}/${{topic}}",
        "http.method": "PUT",
        "http.record.content": "record",
        "http.body.format": "record",
        "http.idempotency.header": "X-Key",
        "http.idempotency.prefix": "",
    }
    record = SinkRecord("v", key="k", topic="a b", offset=3, headers=[("h", "1")])
    kit(receiver, config).write(spark, [record])
    request = receiver.requests[0]
    assert (request.path, request.headers["X-Key"]) == ("/in/a%20b", "a b-0-3-3")
    assert json.loads(request.body) == {
        "topic": "a b",
        "partition": 0,
        "offset": 3,
        "timestamp": None,
        "key": "k",
        "headers": [{"key": "h", "value": "1"}],
        "value": "v",
    }


def test_text_is_sent_unchanged_and_must_fit_its_format(spark: SparkSession, receiver: HttpReceiver) -> None:
    config = {"http.record.content": "text", "http.body.format": "json-lines", "errors.tolerance": "all"}
    texts = kit(receiver, config | {"behavior.on.null.values": "fail"})
    values = ['{"a":  1}', "no json", '{"a":\n2}', None, "7"]
    texts.write(spark, [SinkRecord(value, offset=at) for at, value in enumerate(values)])
    assert [request.body for request in receiver.requests] == [b'{"a":  1}\n7\n']
    assert [(record.offset, record.message.partition(",")[0].partition(":")[0]) for record in texts.refused] == [
        (1, "the value is not JSON"),
        (2, "the value has more than one line"),
        (3, "the record has no value"),
    ]
    with pytest.raises(TerminalError, match="sends values unchanged, and they are of type int"):
        texts.write(spark, [SinkRecord(1)], value_type="int")


def test_a_client_certificate_and_a_token_prove_who_sends(spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.pem())
    authority.issue("server").write_pem(tmp_path / "server.pem")
    authority.issue("client").write_pem(tmp_path / "client.pem", password="key-password")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem")
    tls.load_verify_locations(tmp_path / "ca.pem")
    tls.verify_mode = ssl.CERT_REQUIRED
    trusted = {"http.ssl.truststore.location": str(tmp_path / "ca.pem"), "max.retries": "0"}
    certificate = {
        "http.ssl.keystore.location": str(tmp_path / "client.pem"),
        "http.ssl.key.password": "key-password",
    }
    bearer = {"http.auth.type": "bearer", "http.auth.token": "a-token"}
    with running_receiver(tls) as receiver:
        kit(receiver, trusted | certificate | bearer).write(spark, [SinkRecord("v")])
        assert receiver.requests[0].headers["Authorization"] == "Bearer a-token"
        with pytest.raises(Exception, match=r"CERTIFICATE_VERIFY_FAILED"):
            kit(receiver, certificate).write(spark, [SinkRecord("v")])
        with pytest.raises(Exception, match=r"did not accept the records at topic-0, offset 0"):
            kit(receiver, trusted).write(spark, [SinkRecord("v")])
        with pytest.raises(TerminalError, match="another password"):
            kit(receiver, trusted | certificate | {"http.ssl.key.password": "x"}).write(spark, [SinkRecord("v")])
        assert len(receiver.requests) == 1


def test_answers_that_are_lost_lead_to_no_second_copy(
    spark: SparkSession, node: Node, receiver: HttpReceiver, tmp_path: Path
) -> None:
    fates = iter([LOST_BEFORE, LOST_AFTER, 503, 429])
    receiver.decide = lambda request: next(fates, 200)
    config = {"http.url": receiver.url, "batch.max.records": "3", "retry.backoff.ms": "10"}

    async def scenario() -> None:
        async with running_json_stage(spark, node, tmp_path, TopicToHttp) as stage:
            partitions = stage.create("http-lost")
            stage.produce("http-lost", [json.dumps({"n": at}) for at in range(10)])
            task = await stage.start("lost", config, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-lost") == {partitions[0]: 10})
            await stage.stop(task)

    asyncio.run(scenario())
    assert receiver.records == [{"n": at} for at in range(10)]
    assert len(receiver.requests) == len(receiver.taken) + 4


def test_a_batch_that_moves_to_another_worker_has_the_same_requests(
    spark: SparkSession, node: Node, receiver: HttpReceiver, tmp_path: Path
) -> None:
    """The new worker has no checkpoint, and more records exist meanwhile: only the noted end keeps the keys."""
    config = {"http.url": receiver.url, "batch.max.records": "4", "max.retries": "0"}
    receiver.decide = lambda request: 503 if len(receiver.taken) == 2 else 200

    async def fail() -> Any:
        async with running_json_stage(spark, node, tmp_path / "first", TopicToHttp) as stage:
            partitions = stage.create("http-moved")
            stage.produce("http-moved", [json.dumps({"n": at}) for at in range(10)])
            await stage.start("moved", config, partitions=partitions)
            assert "503" in (await stage.failure()).trace
            stage.produce("http-moved", [json.dumps({"n": at}) for at in range(10, 15)])
            return partitions

    async def go_on(partitions: Any) -> None:
        async with running_json_stage(spark, node, tmp_path / "second", TopicToHttp) as stage:
            task = await stage.start("moved", config, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-moved") == {partitions[0]: 15})
            await stage.stop(task)

    partitions = asyncio.run(fail())
    receiver.decide = lambda request: 200
    asyncio.run(go_on(partitions))
    assert receiver.records == [{"n": at} for at in range(15)]
    # The last request of the first batch has two records, although more could have been sent.
    keys = [f"moved:http-moved-0-{first}-{last}" for first, last in ((0, 3), (4, 7), (8, 9), (10, 13), (14, 14))]
    assert list(receiver.taken) == keys


def test_refused_records_become_dead_letters(
    spark: SparkSession, node: Node, receiver: HttpReceiver, tmp_path: Path
) -> None:
    def decide(request: ReceivedRequest) -> int | tuple[int, str]:
        bad = [record for record in json.loads(request.body) if record["n"] in (3, 5)]
        return (422, f"n is {bad[0]['n']}") if bad else 200

    receiver.decide = decide
    config = {
        "http.url": receiver.url,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "http-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        # Keys of requests, and dead letters, name the topic in Kafka, whatever it is called here.
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "other",
    }

    async def scenario() -> list[Any]:
        async with running_json_stage(spark, node, tmp_path, TopicToHttp) as stage:
            partitions = stage.create("http-refused")
            stage.produce("http-refused", [*(json.dumps({"n": at}) for at in range(7)), "no json"])
            task = await stage.start("refused", config, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-refused") == {partitions[0]: 8})
            await stage.stop(task)
            return stage.read("http-dead")

    dead = asyncio.run(scenario())
    assert sorted(record["n"] for record in receiver.records) == [0, 1, 2, 4, 6]
    assert all(key.startswith("refused:http-refused-0-") for key in receiver.taken)
    found = {}
    for letter in dead:
        headers = {
            header["key"].removeprefix("__connect.errors."): bytes(header["value"]).decode()
            for header in letter.headers
        }
        assert headers["topic"] == "http-refused"
        found[int(headers["offset"])] = (bytes(letter.value).decode(), headers["stage"], headers["exception.message"])
    assert found[3] == ('{"n": 3}', "TASK_PUT", "422 Unprocessable Entity: n is 3")
    assert found[5] == ('{"n": 5}', "TASK_PUT", "422 Unprocessable Entity: n is 5")
    assert found[7][:2] == ("no json", "VALUE_CONVERTER")


def test_a_partition_has_one_request_at_a_time_and_a_task_has_few(spark: SparkSession, receiver: HttpReceiver) -> None:
    records = [SinkRecord(str(at), partition=at % 5, offset=at) for at in range(40)]
    config = {"batch.max.records": "1", "max.in.flight.requests": "2"}
    kit(receiver, config).write(spark, records)
    assert receiver.in_flight_max <= 2
    for partition in range(5):
        mine = [request.key for request in receiver.requests if f"topic-{partition}-" in request.key]
        assert mine == [f"test:topic-{partition}-{at}-{at}" for at in range(partition, 40, 5)]
