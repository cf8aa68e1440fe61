"""``barnabas produce``, ``consume`` and ``topics tail`` against our node and a real Kafka 4.3.1, and with other clients
in both directions: librdkafka, and Kafka's console tools."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.cli.main import main
from tests.peers import run_class
from tests.peers.commands import Run, runner
from tests.peers.kinds import run_on_each_kind
from tests.peers.registry import running_registry, write_users
from tests.peers.secure import SecureNode
from tests.peers.secure_kinds import running_kind, sasl_properties, write_properties

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("kafka_peer"),
]

BARNABAS = str(Path(sys.executable).parent / "barnabas")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "peer")


@pytest.fixture(scope="module")
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with running_kind(request.param, tmp_path_factory.mktemp(f"records-{request.param}")) as node:
        yield node


@pytest.fixture
def run(peer: SecureNode, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(peer.bootstrap, capsys)


@pytest.fixture
def topic(request: pytest.FixtureRequest, run: Run) -> str:
    """A topic of the test, with three partitions."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:80]
    assert run("topics", "create", name, "--partitions", "3", "--wait").status == 0
    return str(name)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(1000)))
    return path


def records_of(run: Run, topic: str, *options: str) -> list[dict[str, object]]:
    result = run("consume", topic, "--no-follow", "--quiet", "-o", "json", *options)
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def started(peer: SecureNode, *arguments: str, **options: object) -> subprocess.Popen[bytes]:
    command = [BARNABAS, *arguments, "--bootstrap-server", peer.bootstrap("PLAINTEXT")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload]


def test_lines_come_back_as_they_were(run: Run, topic: str, lines: Path) -> None:
    written = run("produce", topic, "--file", str(lines), "--compression", "zstd", "-o", "json")
    assert written.status == 0, written.err
    assert (written.document["records"], written.document["not_delivered"]) == (1000, 0)
    assert "wrote 1,000 records" in written.err
    assert sum(part["records"] for part in written.document["partitions"]) == 1000
    read = run("consume", topic, "--no-follow")
    assert sorted(map(int, read.out.split())) == list(range(1000))
    assert "read 1,000 records" in read.err


def test_json_lines_are_copied_exactly(run: Run, topic: str, tmp_path: Path) -> None:
    given = [
        {"key": "a", "value": "1", "headers": [{"key": "h", "value": "x"}], "timestamp": 1_700_000_000_000},
        {"key_base64": b64encode(b"\xff").decode(), "value": None, "headers": [], "timestamp": 1_700_000_000_001},
        {"key": None, "value_base64": b64encode(b"\0\xfe").decode(), "timestamp": 1_700_000_000_002,
         "headers": [{"key": "n", "value": None}, {"key": "b", "value_base64": b64encode(b"\xfd").decode()}]},
    ]  # fmt: skip
    file = tmp_path / "given"
    file.write_text("".join(json.dumps(record | {"partition": 2}) + "\n" for record in given))
    written = run("produce", topic, "--input", "json", "--file", str(file), "--keep-partitions")
    assert written.status == 0, written.err
    found = records_of(run, topic, "--partition", "2")
    assert found == [record | {"topic": topic, "partition": 2, "offset": n} for n, record in enumerate(given)]


def test_what_librdkafka_writes_is_read(run: Run, peer: SecureNode, topic: str) -> None:
    producer = Producer({"bootstrap.servers": peer.bootstrap("PLAINTEXT"), "compression.type": "lz4"})
    for number in range(500):
        producer.produce(topic, key=f"k{number}", value=f"v{number}", headers=[("h", b"1")], partition=number % 3)
    producer.produce(topic, key="gone", value=None)
    assert producer.flush(20) == 0
    found = records_of(run, topic)
    assert len(found) == 501
    assert {record["value"] for record in found} == {None, *(f"v{number}" for number in range(500))}
    text = run("consume", topic, "-e", "-q", "--partition", "1", "-n", "1", "--print-key", "--print-headers")
    assert text.out == "h:1\tk1\tv1\n"


def test_librdkafka_reads_what_we_write(run: Run, peer: SecureNode, topic: str, lines: Path) -> None:
    written = run("produce", topic, "-f", str(lines), "--key", "k", "--header", "h=1", "--compression", "gzip")
    assert written.status == 0, written.err
    consumer = Consumer(
        {"bootstrap.servers": peer.bootstrap("PLAINTEXT"), "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(1000, timeout=30)
    finally:
        consumer.close()
    assert [message.value() for message in messages] == [b"%d" % number for number in range(1000)]
    assert {(message.key(), *message.headers()) for message in messages} == {(b"k", ("h", b"1"))}


def test_kafkas_console_tools_read_and_write_the_same(run: Run, peer: SecureNode, topic: str, tmp_path: Path) -> None:
    server = ("--bootstrap-server", peer.bootstrap("PLAINTEXT"), "--topic", topic)
    file = tmp_path / "keyed"
    file.write_text("a:1\nb:2\n")
    assert run("produce", topic, "--parse-key", "--key-separator", ":", "--file", str(file)).status == 0
    read = run_class(
        "console-consumer", *server, "--from-beginning", "--max-messages", "2",
        "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:",
    )  # fmt: skip
    assert sorted(read.stdout.split()) == ["a:1", "b:2"]
    run_class(
        "console-producer", *server, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
        stdin="c:3\nd:4\n",
    )  # fmt: skip
    found = run("consume", topic, "--no-follow", "-q", "--print-key", "--key-separator", ":")
    assert sorted(found.out.split()) == ["a:1", "b:2", "c:3", "d:4"]


def test_reading_begins_and_ends_where_the_options_say(run: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "timed"
    rows = [{"value": f"{n}", "timestamp": 1_700_000_000_000 + n * 1000, "partition": 0} for n in range(10)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("produce", topic, "-i", "json", "-f", str(file), "--keep-partitions").status == 0

    def read(*options: str) -> list[int]:
        result = run("consume", topic, "-q", *options)
        assert result.status == 0, result.err
        return list(map(int, result.out.split()))

    assert read("--no-follow") == list(range(10))
    assert read("--from", "1700000004000", "-e") == list(range(4, 10))
    assert read("--from", "2023-11-14T22:13:25", "--until", "2023-11-14T22:13:28") == [5, 6, 7]
    assert read("--from-beginning", "--until", "1700000003000") == [0, 1, 2]
    assert read("--offset", "7", "--partition", "0", "-e") == [7, 8, 9]
    assert read("--offset", "-2", "-e") == [8, 9]
    assert read("--from-beginning", "--max-messages", "3") == [0, 1, 2]
    assert read("--from", "-1h", "--until", "now") == []
    assert read("--from-beginning", "--timeout-ms", "400") == list(range(10))
    unknown = run("consume", topic, "--partition", "7", "-e")
    assert (unknown.status, unknown.out) == (1, "")
    assert f"{topic}-7: the topic has partitions 0 to 2" in unknown.err
    beyond = run("consume", topic, "--partition", "0", "--offset", "1000", "--timeout-ms", "5000")
    assert beyond.status == 1
    assert "OFFSET_OUT_OF_RANGE" in beyond.err


def test_a_following_command_prints_new_records_and_ends_with_ctrl_c(run: Run, peer: SecureNode, topic: str) -> None:
    with started(peer, "consume", topic, "--from-beginning") as consumer:
        assert consumer.stdout is not None
        for number in range(3):
            produced = started(peer, "produce", topic, "-q", stdin=subprocess.PIPE)
            assert produced.communicate(b"%d\n" % number, timeout=30) == (b"", b"")
            assert consumer.stdout.readline() == b"%d\n" % number
        consumer.send_signal(signal.SIGINT)
        _, error = consumer.communicate(timeout=30)
    assert consumer.returncode == 130
    assert error.decode() == "note: interrupted after 3 records, 3 B\n"


def test_an_interactive_line_is_sent_at_once_and_ctrl_c_keeps_it(run: Run, peer: SecureNode, topic: str) -> None:
    with started(peer, "produce", topic, stdin=subprocess.PIPE) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"first\n")
        producer.stdin.flush()
        found = run("consume", topic, "--from-beginning", "--max-messages", "1", "--timeout-ms", "20000", "-q")
        assert found.out == "first\n"
        producer.send_signal(signal.SIGINT)
        _, error = producer.communicate(timeout=30)
    assert producer.returncode == 130
    assert "interrupted after 1 record" in error.decode()


def test_a_reader_that_ends_ends_the_command_quietly(run: Run, peer: SecureNode, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"%099d\n" % 7 * 5000)  # More than fits into a pipe.
    assert run("produce", topic, "-f", str(file)).status == 0
    for options in (["-e"], []):  # A following command ends too, although no record arrives.
        with started(peer, "consume", topic, "--from-beginning", *options) as consumer:
            assert consumer.stdout is not None
            assert consumer.stdout.readline()
            consumer.stdout.close()
            assert consumer.wait(timeout=30) == 141
            assert consumer.stderr is not None
            assert consumer.stderr.read() == b""


def test_members_share_the_partitions_and_commit_what_they_wrote(
    run: Run, peer: SecureNode, topic: str, tmp_path: Path
) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    with files[0].open("wb") as first, files[1].open("wb") as second:
        members = [
            subprocess.Popen(
                [BARNABAS, "consume", topic, "--group", topic, "--from-beginning", "-q",
                 "--bootstrap-server", peer.bootstrap("PLAINTEXT")],
                stdout=output,
            )
            for output in (first, second)
        ]  # fmt: skip
        try:
            written = set()
            for round_ in range(100):
                values = [f"{round_}-{number}" for number in range(30)]
                produce(peer, topic, values)
                written |= set(values)
                if all(file.stat().st_size for file in files):
                    break
                time.sleep(0.3)
            wait_until(lambda: {*files[0].read_text().split(), *files[1].read_text().split()} >= written)
        finally:
            for member in members:
                member.send_signal(signal.SIGINT)
            assert [member.wait(timeout=30) for member in members] == [130, 130]
    assert all(file.stat().st_size for file in files)
    described = run("groups", "describe", topic, "--offsets", "-o", "json").document
    assert {part["lag"] for group in described["groups"] for part in group["offsets"]} <= {0, None}
    assert run("consume", topic, "--group", topic, "--no-follow", "-q").out == ""


def produce(peer: SecureNode, topic: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": peer.bootstrap("PLAINTEXT")})
    for number, value in enumerate(values):
        producer.produce(topic, value=value, partition=number % 3)
    assert producer.flush(20) == 0


def wait_until(is_true: object, within_s: float = 40) -> None:
    deadline = time.monotonic() + within_s
    assert callable(is_true)
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_group_continues_after_its_commit_beside_librdkafka(run: Run, peer: SecureNode, topic: str) -> None:
    produce(peer, topic, [str(number) for number in range(30)])
    some = run("consume", topic, "--group", topic, "--from-beginning", "--max-messages", "10", "-q")
    assert len(some.out.split()) == 10
    consumer = Consumer(
        {"bootstrap.servers": peer.bootstrap("PLAINTEXT"), "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        rest = [message.value().decode() for message in consumer.consume(20, timeout=30)]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert sorted(map(int, [*some.out.split(), *rest])) == list(range(30))
    uncommitted = run("consume", topic, "--group", f"{topic}-2", "--from-beginning", "-n", "5", "--no-commit", "-q")
    assert len(uncommitted.out.split()) == 5
    assert run("consume", topic, "--group", topic, "-e", "-q").out == ""
    assert len(run("consume", topic, "--group", f"{topic}-2", "-e", "--from-beginning", "-q").out.split()) == 30


def test_aborted_records_are_not_read_with_read_committed(run: Run, peer: SecureNode, topic: str) -> None:
    producer = Producer({"bootstrap.servers": peer.bootstrap("PLAINTEXT"), "transactional.id": topic})
    producer.init_transactions(30)
    for value, is_committed in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        producer.produce(topic, value=value, partition=0)
        producer.flush(20)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    assert run("consume", topic, "-e", "-q", "--isolation-level", "read_committed").out == "a\nc\n"
    assert run("consume", topic, "-e", "-q").out == "a\nb\nc\n"
    tailed = run("topics", "tail", topic, "-n", "3", "-e", "-q", "-o", "text")
    assert tailed.out == "a\nb\nc\n"


def test_the_tail_is_in_the_order_of_times_and_follows(run: Run, peer: SecureNode, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "timed"
    rows = [(10, 0), (30, 1), (20, 2), (50, 0), (40, 2)]
    file.write_text("".join(f'{{"value":"{time}","timestamp":{time},"partition":{number}}}\n' for time, number in rows))
    assert run("produce", topic, "-i", "json", "-f", str(file), "--keep-partitions").status == 0
    assert run("topics", "tail", topic, "-n", "3", "-e", "-q", "-o", "text").out == "30\n40\n50\n"
    table = run("topics", "tail", topic, "--no-follow")
    assert [line.split()[0] for line in table.out.splitlines()] == ["time", *(
        f"1970-01-01T00:00:00.0{time}Z" for time in (10, 20, 30, 40, 50)
    )]  # fmt: skip
    with started(peer, "topics", "tail", topic, "-n", "1", "-o", "json") as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["value"] == "50"
        produce(peer, topic, ["new"])
        assert json.loads(tail.stdout.readline())["value"] == "new"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(timeout=30) == 130
        tail.communicate(timeout=30)


def test_a_bad_line_ends_the_command_after_the_lines_before_it(run: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text('{"value":"a"}\n{"value":"b"}\n{"valeu":"c"}\n{"value":"d"}\n')
    result = run("produce", topic, "-i", "json", "-f", str(file))
    assert result.status == 1
    assert f"{file}, line 3: " in result.err
    assert "unknown field `valeu`" in result.err
    assert len(records_of(run, topic)) == 2
    missing = run("produce", topic, "-f", str(tmp_path / "none"))
    assert missing.status == 1
    assert f"{tmp_path / 'none'}: can't be read: No such file or directory" in missing.err


def test_a_record_that_is_too_large_is_a_failure(run: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"small\n" + b"x" * 2_000_000 + b"\n")
    result = run("produce", topic, "-f", str(file))
    assert result.status == 1
    assert "MESSAGE_TOO_LARGE" in result.err
    assert "max.message.bytes" in result.err


def test_topics_and_rights_that_are_missing_are_named(run: Run, peer: SecureNode, topic: str, tmp_path: Path) -> None:
    assert "did you mean" in run("consume", topic[:-1], "-e").err
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("produce", "no-such-thing", "-f", os.devnull).err
    alice = write_properties(tmp_path / "alice.properties", sasl_properties(peer, "alice"))
    denied = run("consume", topic, "-e", "--command-config", alice, server="SASL_SSL")
    assert denied.status == 1
    assert topic in denied.err
    for options in (("--consumer", "--group", topic), ("--producer",)):
        added = run("acls", "add", "--allow-principal", "User:alice", "--topic", topic, *options, "--wait")
        assert added.status == 0, added.err
    file = tmp_path / "file"
    file.write_text("x\n")
    assert run("produce", topic, "-f", str(file), "--command-config", alice, server="SASL_SSL").status == 0
    as_alice = ("-e", "-q", "--command-config", alice)
    read = run("consume", topic, "-g", topic, "--from-beginning", *as_alice, server="SASL_SSL")
    assert (read.status, read.out) == (0, "x\n")
    other = run("consume", topic, "-g", "other", *as_alice, server="SASL_SSL")
    assert other.status == 1
    assert "GROUP_AUTHORIZATION_FAILED" in other.err


def test_a_server_that_is_silent_or_wants_a_login_is_reported_soon(
    run: Run, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in (("produce",), ("consume", "-e"), ("topics", "tail", "-e")):
        began_at = time.monotonic()
        denied = run(*verb, "--topic", topic, server="SASL_SSL")
        assert denied.status == 1
        assert "--command-config" in denied.err or "security.protocol" in denied.err
        assert time.monotonic() - began_at < 5
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            began_at = time.monotonic()
            assert main([*verb, "--topic", topic, "--timeout", "1", "--bootstrap-server", address]) == 1
            assert time.monotonic() - began_at < 5
        error = capsys.readouterr().err
        assert f"the cluster at {address} did not answer within 1 s" in error
        assert "--timeout sets the limit" in error


def test_values_with_schemas_come_back_as_json(peer: SecureNode, run: Run, topic: str, tmp_path: Path) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text(
        '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
        '{"name":"note","type":["null","string"],"default":null}]}'
    )
    file = tmp_path / "orders"
    file.write_text('{"id": 1, "note": "x"}\n{"id": 2}\n')
    config = tmp_path / "client.properties"
    config.write_text("basic.auth.user.info=bob:bob\n")
    settings = {
        "barnabas_registry_authentication": "basic",
        "barnabas_registry_authorization": "none",
        "barnabas_registry_users_file": str(write_users(tmp_path / "users", "bob")),
    }
    with running_registry(peer.bootstrap("PLAINTEXT"), kafkastore_topic=f"_{topic}", **settings) as registry:
        server = ("--schema-registry", registry.url, "--command-config", str(config))
        written = run("produce", topic, *server, "--value-schema", str(schema), "-f", str(file))
        assert written.status == 0, written.err
        assert "warning" not in written.err
        assert run("produce", topic, *server, "-f", str(file)).status == 0  # The latest schema of the subject.
        assert registry.call("GET", f"/subjects/{topic}-value/versions", auth=("bob", "bob")) == (200, [1])
        values = [record["value"] for record in records_of(run, topic, *server)]
        assert sorted(values, key=str) == sorted([{"id": 1, "note": "x"}, {"id": 2, "note": None}] * 2, key=str)
        unknown = run("produce", f"{topic}", *server, "--value-schema", "99", "-f", str(file))
        assert (unknown.status, "Schema 99 not found (40403)" in unknown.err) == (1, True)
        refused = run("consume", topic, "--schema-registry", registry.url, "-e", "-q")
        assert refused.status == 1
        assert "needs credentials" in refused.err
        assert "basic.auth.user.info" in refused.err
    gone = run("consume", topic, *server, "-e", "-q")
    assert gone.status == 1
    assert "the schema registry does not answer" in gone.err


def test_json_schema_and_protobuf_come_back_too(peer: SecureNode, run: Run, topic: str, tmp_path: Path) -> None:
    schema, proto, file = tmp_path / "order.json", tmp_path / "order.proto", tmp_path / "orders"
    schema.write_text('{"type": "object", "required": ["id"]}')
    source = 'syntax = "proto3"; package shop; message Order { int64 id = 1; message Item { string sku = 1; } }'
    proto.write_text(source)
    with running_registry(
        peer.bootstrap("PLAINTEXT"),
        kafkastore_topic=f"_{topic}",
        schema_compatibility_level="NONE",
        barnabas_registry_authorization="none",
    ) as registry:
        server = ("--schema-registry", registry.url, "--partition", "0")
        file.write_text('{"value": {"id": 1}, "key": "k"}\n')
        for options in (("--value-schema", str(schema)), ("--value-schema", str(proto))):
            written = run("produce", topic, *server, *options, "-i", "json", "-f", str(file))
            assert written.status == 0, written.err
        file.write_text('{"sku": "a"}\n')
        assert run("produce", topic, *server, "--value-message", "Item", "-f", str(file)).status == 0
        assert run("consume", topic, *server, "-e", "-q").out == '{"id":1}\n{"id":"1"}\n{"sku":"a"}\n'
        assert run("produce", topic, "--partition", "0", "-f", str(file)).status == 0
        mixed = run("consume", topic, *server, "-e", "-q")
        assert mixed.status == 1
        assert f"{topic}: the value at offset 3 of partition 0: it begins with 7b 22 73 6b 75" in mixed.err


@pytest.mark.kafka_3("never")
def test_a_hundred_thousand_records_cost_little_cpu(run: Run, topic: str, tmp_path: Path) -> None:
    """A million take 0.6 s of CPU: this bound only notices work for each record that grows tenfold."""
    file = tmp_path / "load"
    file.write_bytes(b"".join(b"%099d\n" % number for number in range(100_000)))
    before = time.process_time()
    assert run("produce", topic, "-f", str(file)).status == 0
    read = run("consume", topic, "-e", "-q")
    used = time.process_time() - before
    assert len(read.out) == 100_000 * 100
    assert used < 3, used
