"""``barnabas produce --transactional-id`` against our node and a real Kafka 4.3.1: a whole transaction or nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.peers.commands import Run, runner
from tests.peers.kinds import run_on_each_kind
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
    with running_kind(request.param, tmp_path_factory.mktemp(f"transactions-{request.param}")) as node:
        yield node


@pytest.fixture
def run(peer: SecureNode, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(peer.bootstrap, capsys)


@pytest.fixture
def topic(request: pytest.FixtureRequest, run: Run) -> str:
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:80]
    assert run("topics", "create", name, "--partitions", "3", "--wait").status == 0
    return str(name)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(1000)))
    return path


def committed(run: Run, topic: str, count: int = 0) -> list[str]:
    """Return the committed values, sorted. Kafka writes markers after its answer, so wait for so many values."""
    deadline = time.monotonic() + 20
    while True:
        values = run("consume", topic, "-e", "-q", "--isolation-level", "read_committed").out.split()
        if len(values) >= count or time.monotonic() > deadline:
            return sorted(values)


@contextmanager
def open_transaction(peer: SecureNode, topic: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a producer that has written one record, and whose input stays open."""
    fixed = ("--transactional-id", topic, "--bootstrap-server", peer.bootstrap("PLAINTEXT"))
    command = [BARNABAS, "produce", topic, *fixed, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"first\n")
        producer.stdin.flush()
        yield producer


def first_record(run: Run, topic: str, *options: str) -> str:
    """Wait for the first record, and return what the command prints."""
    wait = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "20000", "-q")
    return str(run("consume", topic, *wait, *options).out)


def test_one_transaction_has_all_lines(run: Run, topic: str, lines: Path) -> None:
    written = run("produce", topic, "--file", str(lines), "--transactional-id", topic, "-o", "json")
    assert written.status == 0, written.err
    assert written.document["records"] == 1000
    assert written.document["transactions"] == {
        "transactional_id": topic,
        "committed": 1,
        "aborted": 0,
        "aborted_records": 0,
    }
    assert "wrote 1,000 records" in written.err
    assert "in 1 transaction\n" in written.err
    assert committed(run, topic, 1000) == sorted(str(number) for number in range(1000))
    listed = run("transactions", "describe", topic, "-o", "json").document
    assert [found["state"] for found in listed["transactions"]] == ["CompleteCommit"]


def test_a_size_commits_one_transaction_after_the_other(run: Run, topic: str, lines: Path) -> None:
    limited = ("--transactional-id", topic, "--transaction-size", "300")
    written = run("produce", topic, "--file", str(lines), *limited, "-o", "json")
    assert (written.status, written.document["transactions"]["committed"]) == (0, 4), written.err
    assert len(committed(run, topic, 1000)) == 1000


def test_a_bad_line_aborts_its_transaction_only(run: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "jsonl"
    file.write_text('{"value":"a"}\n{"value":"b"}\n{"value":"c"}\nnot json\n')
    limited = ("--transactional-id", topic, "--transaction-size", "2")
    failed = run("produce", topic, "-i", "json", "-f", str(file), *limited)
    assert failed.status == 1
    assert "line 4" in failed.err
    assert "its transaction was aborted" in failed.err
    assert "the open transaction with 1 record was aborted" in failed.err
    assert committed(run, topic, 2) == ["a", "b"]


def test_ctrl_c_aborts_the_open_transaction(run: Run, peer: SecureNode, topic: str) -> None:
    with open_transaction(peer, topic) as producer:
        assert first_record(run, topic) == "first\n"
        producer.send_signal(signal.SIGINT)
        _, error = producer.communicate(timeout=30)
    assert producer.returncode == 130
    assert "the open transaction with 1 record was aborted" in error.decode()
    assert committed(run, topic) == []


def test_a_duration_commits_while_the_input_waits(run: Run, peer: SecureNode, topic: str) -> None:
    with open_transaction(peer, topic, "--transaction-duration-ms", "200") as producer:
        assert first_record(run, topic, "--isolation-level", "read_committed") == "first\n"
        producer.communicate(timeout=30)
    assert producer.returncode == 0


def test_a_fenced_producer_is_explained(run: Run, peer: SecureNode, topic: str) -> None:
    with open_transaction(peer, topic) as producer:
        assert first_record(run, topic) == "first\n"
        later = Producer({"bootstrap.servers": peer.bootstrap("PLAINTEXT"), "transactional.id": topic})
        later.init_transactions(30)
        _, error = producer.communicate(timeout=30)
    assert producer.returncode == 1
    assert f"{topic}: the producer was fenced" in error.decode()
    assert "give each producer an id of its own" in error.decode()


def test_a_denied_transactional_id_names_the_rights(run: Run, peer: SecureNode, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a\n")
    alice = write_properties(tmp_path / "alice.properties", sasl_properties(peer, "alice"))
    allow = ("acls", "add", "--allow-principal", "User:alice", "--operation", "Write", "--wait")
    assert run(*allow, "--topic", topic).status == 0
    command = ("produce", topic, "-f", str(file), "--transactional-id", topic, "--command-config", alice)
    denied = run(*command, server="SASL_SSL")
    assert denied.status == 1
    assert f"this needs WRITE on TransactionalId:{topic}" in denied.err
    assert f"barnabas access needs --transactional-producer {topic} --topics {topic}" in denied.err
    assert run(*allow, "--transactional-id", topic).status == 0
    assert run(*command, server="SASL_SSL").status == 0
    assert committed(run, topic, 1) == ["a"]


def test_a_missing_topic_is_named_before_a_transaction_begins(run: Run, topic: str, lines: Path) -> None:
    failed = run("produce", f"{topic}x", "--file", str(lines), "--transactional-id", topic, "-o", "json")
    assert failed.status == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in json.dumps(failed.document)
