"""``barnabas bench`` against our node and a real Kafka 4.3.1, and with ``make older`` the last 3.x: the same tests."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.testing import Node
from tests.peers.commands import Run, runner
from tests.peers.kinds import run_on_each_kind
from tests.peers.secure import SecureNode
from tests.peers.secure_kinds import running_kind, sasl_properties, write_properties

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("kafka_peer"),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "peer")


@pytest.fixture(scope="module")
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with running_kind(request.param, tmp_path_factory.mktemp(f"bench-{request.param}")) as node:
        yield node


@pytest.fixture
def run(peer: SecureNode, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(peer.bootstrap, capsys)


@pytest.fixture
def alice(peer: SecureNode, tmp_path: Path) -> str:
    """A file with what alice needs to log in."""
    return write_properties(tmp_path / "alice.properties", sasl_properties(peer, "alice"))


def test_all_produced_records_are_consumed(run: Run) -> None:
    produced_and_consumed(run, "none")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_of_a_group_is_measured(run: Run, protocol: str) -> None:
    topic = f"grouped-{protocol}"
    produced = run(
        "bench", "produce", "--topic", topic, "--create-topic", "--num-records", "2000", "--record-size", "50"
    )
    assert produced.status == 0, produced.err
    options = ("--topic", topic, "--group", topic, "--group-protocol", protocol, "-o", "json")
    first = run("bench", "consume", *options, "--num-records", "2000").document
    assert first["records"] == 2000
    assert first["joined_ms"] > 0
    again = run("bench", "consume", *options, "--timeout-ms", "15000").document  # What was read is committed.
    assert again["records"] == 0


@pytest.mark.kafka_3("never")  # The jars of codecs are only there for 4.3.1.
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_records_are_produced_and_consumed(run: Run, compression: str) -> None:
    produced_and_consumed(run, compression)


def produced_and_consumed(run: Run, compression: str) -> None:
    topic = f"load-{compression}"
    load = ("--topic", topic, "--num-records", "20000", "--record-size", "300", "--compression-type", compression)
    produced = run("bench", "produce", *load, "--create-topic", "--partitions", "3", "-o", "json")
    assert produced.status == 0, produced.err
    assert produced.document["records"] == 20_000
    assert produced.document["bytes"] == 6_000_000
    assert produced.document["idempotence"] is True
    assert produced.document["not_delivered"] == 0
    latency = produced.document["latency_ms"]
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    consumed = run("bench", "consume", "--topic", topic, "-o", "json")
    assert consumed.status == 0, consumed.err
    assert (consumed.document["records"], consumed.document["bytes"]) == (20_000, 6_000_000)
    (described,) = run("topics", "describe", topic, "-o", "json").document["topics"]
    assert len(described["partitions"]) == 3


def test_transactions_are_committed_and_counted(run: Run) -> None:
    load = ("--topic", "load-in-transactions", "--num-records", "2000", "--record-size", "100", "--create-topic")
    limits = ("--transactional-id", "load", "--transaction-size", "300", "--warmup-records", "300")
    produced = run("bench", "produce", *load, *limits, "-o", "json")
    assert produced.status == 0, produced.err
    document = produced.document
    assert (document["records"], document["transactions"], document["not_committed"]) == (2000, 7, 0)
    assert 0 < document["commit_latency_ms"]["p50"] <= document["commit_latency_ms"]["max"]
    reading = ("--command-property", "isolation.level=read_committed", "--num-records", "2300")
    consumed = run("bench", "consume", "--topic", "load-in-transactions", *reading, "--output", "json")
    assert consumed.status == 0, consumed.err
    assert consumed.document["records"] == 2300


def test_a_rate_is_kept_and_fewer_records_than_wanted_are_a_failure(run: Run) -> None:
    load = ("--topic", "load-paced", "--num-records", "400", "--throughput", "400", "--acks", "1")
    produced = run("bench", "produce", *load, "--create-topic", "-o", "json")
    assert produced.status == 0, produced.err
    assert 0.9 < produced.document["elapsed_s"] < 10
    assert produced.document["idempotence"] is False
    consumed = run(
        "bench", "consume", "--topic", "load-paced", "--num-records", "401", "--timeout-ms", "500", "-o", "json"
    )
    assert (consumed.status, consumed.document["records"]) == (1, 400)
    assert "received 400 of 401 records" in consumed.err


def test_a_record_is_delivered_without_waiting_for_the_fetch_timeout(run: Run) -> None:
    load = ("--topic", "load-trips", "--num-records", "60", "--create-topic", "--partitions", "2")
    tried = run("bench", "end-to-end", *load, "--dry-run")
    assert (tried.status, tried.out) == (0, "")
    assert run("topics", "describe", "load-trips").status == 1
    measured = run("bench", "end-to-end", *load, "-o", "json")
    assert measured.status == 0, measured.err
    assert (measured.document["records"], measured.document["missing"]) == (60, 0)
    assert measured.document["latency_ms"]["avg"] < 150  # A fetch that sleeps through a record takes 500 ms.
    paced = run("bench", "end-to-end", "--topic", "load-trips", "--num-records", "100", "--throughput", "200")
    assert paced.status == 0, paced.err
    assert "received" in paced.out


def test_admin_requests_leave_nothing_behind(run: Run) -> None:
    def state() -> tuple[str, str]:
        return run("topics", "list").out, run("acls", "list").out

    before = state()
    shown = run("bench", "admin", "--dry-run", "--num-requests", "7", "-o", "json").document
    assert (shown["topics"], shown["rules"]) == (7, 7)
    assert state() == before
    measured = run("bench", "admin", "--yes", "--num-requests", "6", "--items-per-request", "3", "-o", "json")
    assert measured.status == 0, measured.err
    operations = {operation["operation"]: operation for operation in measured.document["operations"]}
    assert {name: (operation["requests"], operation["items"]) for name, operation in operations.items()} == {
        "create-topics": (6, 18), "describe-topics": (6, 18), "describe-configs": (6, 18), "alter-configs": (6, 18),
        "create-acls": (6, 18), "describe-acls": (6, 108), "delete-acls": (6, 18), "delete-topics": (6, 18),
    }  # fmt: skip
    assert state() == before


def test_rights_are_named_and_quotas_are_kept(run: Run, alice: str) -> None:
    assert run("topics", "create", "load-alice", "--wait").status == 0
    load = ("--topic", "load-alice", "--record-size", "1000", "--command-config", alice, "-o", "json")
    denied = run("bench", "produce", *load, "--num-records", "1", server="SASL_SSL")
    assert denied.status == 1
    assert "load-alice" in denied.err
    assert (
        run("acls", "add", "--allow-principal", "User:alice", "--producer", "--topic", "load-alice", "--wait").status
        == 0
    )
    assert run("quotas", "alter", "--user", "alice", "--config", "producer_byte_rate=10000", "--wait").status == 0
    produced = run("bench", "produce", *load, "--num-records", "120", server="SASL_SSL")
    assert produced.status == 0, produced.err
    throttle = produced.document["throttle"]
    assert throttle["responses"] >= 1
    assert throttle["total_ms"] >= throttle["max_ms"] > 0
    assert "throttled by a quota" in produced.err
    refused = run("bench", "consume", *load[:2], *load[4:], server="SASL_SSL")
    assert refused.status == 1
    assert "READ on Topic:load-alice" in refused.err


def test_connections_and_round_trips(run: Run, alice: str) -> None:
    opened = run("bench", "connections", "--num-connections", "8", "--command-config", alice, server="SASL_SSL")
    assert opened.status == 0, opened.err
    measured = run("bench", "api-versions", "--num-requests", "200", "-o", "json")
    assert (measured.status, measured.document["requests"]) == (0, 200)


def test_ctrl_c_prints_what_was_measured_and_cleans_up(run: Run, peer: SecureNode) -> None:
    program = [str(Path(sys.executable).parent / "barnabas"), "bench"]
    server = ["--bootstrap-server", peer.bootstrap("PLAINTEXT"), "-o", "json"]
    before = run("topics", "list").out
    requests = subprocess.Popen(
        [*program, "admin", "--yes", "--num-requests", "100000", *server],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 30
        while run("topics", "list").out == before and time.monotonic() < end:
            time.sleep(0.05)
        requests.send_signal(signal.SIGINT)
        out, err = requests.communicate(timeout=30)
    finally:
        requests.kill()
    assert requests.returncode == 130, err
    assert json.loads(out)["operations"][0]["operation"] == "create-topics"
    assert "interrupted" in err
    assert run("topics", "list").out == before


@pytest.mark.parametrize(
    "verb",
    [
        "produce --topic t --num-records 1",
        "consume --topic t",
        "end-to-end --topic t",
        "admin --yes",
        "admin --dry-run",
        "connections",
        "api-versions",
    ],
)
def test_an_unreachable_server_is_a_failure_with_advice(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *verb.split(), "--bootstrap-server", "127.0.0.1:1", "--output", "json"]) == 1
    captured = capsys.readouterr()
    assert "nothing listens at 127.0.0.1:1" in captured.err
    assert "--bootstrap-server" in json.loads(captured.out)["errors"][0]["advice"]


def test_a_restart_of_the_node_loses_and_doubles_no_record(capsys: pytest.CaptureFixture[str]) -> None:
    with Node() as node:
        server = ["--bootstrap-server", node.bootstrap_servers, "-o", "json"]
        load = ["--topic", "load", "--num-records", "60000", "--throughput", "20000", "--record-size", "100"]
        program = [str(Path(sys.executable).parent / "barnabas"), "bench", "produce", *load, *server]
        assert main(["topics", "create", "load", "--partitions", "3", "--wait", *server]) == 0
        producing = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        look = ["bench", "consume", "--topic", "load", "--num-records", "1", "--timeout-ms", "200", *server]
        try:
            while main(look) != 0 and producing.poll() is None:
                time.sleep(0.05)
            node.stop()
            node.start()
            out, err = producing.communicate(timeout=60)
        finally:
            producing.kill()
        assert producing.returncode == 0, err
        assert json.loads(out)["retries"]["batches"] > 0
        capsys.readouterr()
        assert main(["bench", "consume", "--topic", "load", *server]) == 0
        assert json.loads(capsys.readouterr().out)["records"] == 60_000
