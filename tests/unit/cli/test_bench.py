"""``barnabas bench``: invalid options, payloads, and the end of a measurement."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from barnabas.cli.arguments.stop_signals import stop_at_signals
from barnabas.cli.bench.admin import AdminLoad
from barnabas.cli.bench.command import main
from barnabas.cli.bench.measurements import latency_cells, latency_document, number, rate, volume
from barnabas.cli.bench.options import BenchOptions, until_stopped
from barnabas.cli.bench.payloads import FilePayloads, RandomPayloads, read_payloads
from barnabas.cli.bench.produce import ProduceResult
from barnabas.cli.bench.progress import Progress, described
from barnabas.cli.output.answer import Answer
from barnabas.clients.latency_histogram import LatencyHistogram
from barnabas.clients.producer.batch import ProducerBatch, Run

PRODUCE = ("produce", "--topic", "t", "--num-records", "10")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((*PRODUCE, "--acks", "2"), "choose one of"),
        ((*PRODUCE[:3], "--num-records", "0"), "--num-records 0: it must be at least 1"),
        ((*PRODUCE, "--throughput", "0"), "or -1 for as fast as the cluster accepts them"),
        ((*PRODUCE, "--throughput", "nan"), "--throughput nan"),
        ((*PRODUCE, "--throughput", "-3"), "--throughput -3"),
        ((*PRODUCE, "--record-size", "-1"), "--record-size -1: it must be at least 0"),
        ((*PRODUCE, "--record-size", "2000000"), "does not fit into a request of at most 1048576"),
        ((*PRODUCE, "--partitions", "2"), "use --create-topic too"),
        ((*PRODUCE, "--topic-config", "a=b"), "use --create-topic too"),
        ((*PRODUCE, "--create-topic", "--partitions", "0"), "--partitions 0: it must be at least 1"),
        ((*PRODUCE, "--payload-file", "/nowhere/at/all"), "can't read /nowhere/at/all"),
        ((*PRODUCE, "--payload-file", "x", "--record-size", "5"), "can't be used together"),
        ((*PRODUCE, "--command-property", "acks"), "write a property as key=value"),
        ((*PRODUCE, "--command-property", "acks=1", "acks=1"), "acks is given twice"),
        ((*PRODUCE, "--command-property", "batch.sze=5"), "did you mean batch.size?"),
        ((*PRODUCE, "--command-property", "no.such.thing=5"), "Kafka's clients don't have this property"),
        ((*PRODUCE, "--acks", "1", "--command-property", "acks=0"), "another option sets it to 1"),
        ((*PRODUCE, "--acks", "1", "--producer-props", "enable.idempotence=true"), "needs acks=all"),
        ((*PRODUCE, "--command-property", "retries=0", "enable.idempotence=true"), "needs retries"),
        (
            (*PRODUCE, "--command-property", "max.in.flight.requests.per.connection=6", "enable.idempotence=true"),
            "of at most 5",
        ),
        ((*PRODUCE, "--command-property", "linger.ms=x", "batch.size=-1"), "batch.size"),
        ((*PRODUCE, "--command-property", "delivery.timeout.ms=5"), "must be at least the sum of linger.ms"),
        ((*PRODUCE, "--transaction-size", "5"), "need --transactional-id"),
        ((*PRODUCE, "--transactional-id", "x", "--transaction-size", "-1"), "--transaction-size -1"),
        ((*PRODUCE, "--transactional-id", "x", "--acks", "1"), "transactional.id needs acks=all"),
        (
            ("end-to-end", "--topic", "t", "--command-property", "transactional.id=x"),
            "transactional.id can't be used: this producer has no transactions",
        ),
        ((*PRODUCE, "--command-property", "sasl.kerberos.service.name=x"), "Kerberos"),
        ((*PRODUCE, "--bootstrap-controller", "localhost:1"), "controllers don't serve records"),
        (("produce", "--topic", "a b", "--num-records", "1"), "--topic a b"),
        (("produce", "--topic", "t"), "--num-records"),
        (("consume", "--topic", "t", "--from-latest"), "--from-latest needs --num-records"),
        (("consume", "--topic", "t", "--num-records", "0"), "it must be at least 1"),
        (("consume", "--topic", "t", "--timeout-ms", "0"), "it must be at least 1"),
        (("consume", "--topic", "t", "--consumer-props", "isolation.level=all"), "isolation.level"),
        (("consume", "--topic", "t", "--command-property", "client.rack=here"), "client.rack can't be used"),
        (("end-to-end", "--topic", "t", "--record-size", "15"), "it must be at least 16"),
        (("end-to-end", "--topic", "t", "--throughput", "0"), "or -1 for one after the other"),
        (("admin",), "use --yes to run it, or --dry-run"),
        (("admin", "--yes", "--prefix", "a b"), "--prefix a b"),
        (("admin", "--yes", "--clients", "0"), "--clients 0"),
        (("admin", "--yes", "--operation", "drop-tables"), "choose one of"),
        (("connections", "--num-connections", "0"), "it must be at least 1"),
        (("api-versions", "--connections", "0"), "it must be at least 1"),
    ],
)
def test_invalid_arguments_are_reported_before_any_request(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.startswith(f"barnabas bench {arguments[0]}: ")


def test_random_payloads_are_distinct_letters() -> None:
    payloads = RandomPayloads(1000)
    taken: list[bytes] = []
    while len(taken) < 4000:
        taken += payloads.take(16)
    assert {len(value) for value in taken} == {1000}
    assert set(b"".join(taken[:100])) == set(range(ord("A"), ord("Z") + 1))
    assert len(set(taken)) == len(taken)
    assert RandomPayloads(0).take(3) == [b""] * 3
    assert len(RandomPayloads(5_000_000).take(2)[0]) == 5_000_000


def test_payloads_from_a_file_are_taken_in_runs_of_one_size(tmp_path: Path) -> None:
    file = tmp_path / "values"
    file.write_bytes(b"one;two;three;;")
    payloads = read_payloads(str(file), ";")
    assert payloads.largest == 5
    taken: list[bytes] = []
    for _ in range(50):
        size = payloads.next_size
        run = payloads.take(4)
        assert {len(value) for value in run} == {size}
        taken += run
    assert set(taken) == {b"one", b"two", b"three"}


def test_a_delimiter_may_be_an_escape_sequence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "values"
    file.write_bytes(b"a\tb\n")
    assert set(FilePayloads([b"a", b"b\n"]).take(1)) <= {b"a", b"b\n"}
    assert read_payloads(str(file), "\\t").largest == 2
    assert read_payloads(str(file), "\\n").largest == 3
    assert main([*PRODUCE, "--payload-file", str(file), "--payload-delimiter", ""]) == 2
    assert "--payload-delimiter must not be empty" in capsys.readouterr().err
    file.write_bytes(b"\n\n")
    assert main([*PRODUCE, "--payload-file", str(file)]) == 2
    assert "contains no values" in capsys.readouterr().err


def test_results_are_in_milliseconds_and_megabytes() -> None:
    latencies = LatencyHistogram()
    latencies.record(0.010, 98)
    latencies.record(0.5, 2)
    document = latency_document(latencies)
    assert document["avg"] == pytest.approx(19.8)
    assert document["max"] == 500
    assert (document["p50"], document["p99"]) == (pytest.approx(10, rel=0.01), pytest.approx(500, rel=0.01))
    assert latency_cells(latencies)[:2] == ["19.8", "500.0"]
    assert volume(1000, 10 * 1024 * 1024, 2.0) | {"elapsed_s": 0} == {
        "records": 1000, "bytes": 10485760, "elapsed_s": 0, "records_per_s": 500.0, "mb_per_s": 5.0,
    }  # fmt: skip
    assert rate(5, 0) == 0
    assert (number(1234.5), number(1.5)) == ("1,234", "1.50")


def test_the_progress_line_on_a_terminal_shows_the_most_recent_rates() -> None:
    seen = [(10.0, Progress(1000, 1024 * 1024)), (12.0, Progress(3000, 5 * 1024 * 1024, "retries: X"))]
    assert described(seen, "records") == "1,000 records/s, 2.00 MB/s, retries: X"
    assert described([(0.0, Progress(0)), (0.0, Progress(0))], "requests") == "0.00 requests/s"


def batch(count: int, first_s: float) -> ProducerBatch:
    created = ProducerBatch(0, first_s, 0)
    created.append([b"value"] * count, Run(first_s, 0.0, count), 0)
    return created


def test_a_warm_up_is_not_counted() -> None:
    delivered = ProduceResult(0.0, warmup=10)
    delivered.take(batch(6, 0.0), 1.0)
    delivered.take(batch(6, 0.0), 2.0)
    assert (delivered.records, delivered.latencies.count) == (0, 0)
    delivered.take(batch(5, 3.0), 4.0)
    assert (delivered.records, delivered.size, delivered.elapsed_s) == (5, 25, 2.0)
    assert delivered.latencies.max_s == 1.0


def test_an_admin_load_uses_only_names_with_its_own_prefix() -> None:
    load = AdminLoad(["create-topics", "create-acls"], 3, 2, 2, "bench-1234")
    names = [name for request in range(3) for name in load.topics_of(request)]
    assert names == [f"bench-1234-{index}" for index in range(6)]
    assert {rule.principal for rule in load.rules_of(0)} == {"User:bench-1234"}
    assert (load.makes_topics, load.makes_rules) == (6, 6)
    assert AdminLoad(["describe-acls"], 3, 2, 2, "x").makes_topics == 0
    assert AdminLoad(["alter-configs"], 3, 2, 2, "x").makes_topics == 10


def test_work_completes_or_is_cancelled_after_the_grace_period_of_a_stop() -> None:
    async def scenario() -> None:
        stop = asyncio.Event()
        ended: list[str] = []

        async def work(turns: int) -> None:
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
                ended.append("done")
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        assert await until_stopped(work(3), stop)
        stop.set()
        assert await until_stopped(work(3), stop, grace_s=5)
        assert not await until_stopped(work(10**9), stop)
        assert ended == ["done", "done", "cancelled"]
        with pytest.raises(ZeroDivisionError):
            await until_stopped(failing(), asyncio.Event())

    async def failing() -> None:
        raise ZeroDivisionError

    asyncio.run(scenario())


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_the_run_cleanly_and_sets_the_exit_status(
    which: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work(config: Any, stop: asyncio.Event) -> Answer:
        os.kill(os.getpid(), which)
        await stop.wait()
        return Answer({"records": 5})

    assert BenchOptions(output="yaml").measure(work) == 130
    captured = capsys.readouterr()
    assert yaml.safe_load(captured.out) == {"records": 5, "errors": []}
    assert "interrupted" in captured.err


def test_the_second_signal_has_its_usual_effect() -> None:
    async def scenario() -> None:
        with stop_at_signals("") as stop:
            os.kill(os.getpid(), signal.SIGINT)
            await stop.wait()
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(scenario())
        loop.close()
    finally:
        signal.signal(signal.SIGINT, before)
