"""``barnabas queue`` against a real Kafka 4.3.1: records are held by an agent, and handles work in any process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.cli.main import main
from barnabas.cli.queue import agent_client
from tests.peers import KafkaNode, run_class, running_kafka
from tests.peers.commands import CommandResult, Run

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180), pytest.mark.usefixtures("kafka_peer")]

BARNABAS = str(Path(sys.executable).parent / "barnabas")
LOCK_S = 3
SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": str(LOCK_S * 1000),
    "group.share.delivery.count.limit": "3",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    with running_kafka(tmp_path_factory.mktemp("kafka"), settings=SETTINGS) as node:
        yield node


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The agents of a test. Their folder has a short path, because of the sockets."""
    with tempfile.TemporaryDirectory() as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield Path(path)
        main(["queue", "agents", "--stop"])


@pytest.fixture
def run(peer: KafkaNode, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> CommandResult:
        has_cluster = arguments[:2] not in {
            ("queue", verb) for verb in ("accept", "release", "reject", "renew", "agents")
        }
        given = list(arguments)
        at = given.index("--") if "--" in given else len(given)
        given[at:at] = ["--bootstrap-server", peer.bootstrap_servers] if has_cluster else []
        status = main(given)
        return CommandResult(status, *capsys.readouterr())

    return run


@pytest.fixture
def topic(request: pytest.FixtureRequest, run: Run) -> str:
    """A topic of the test, and a share group of the same name that begins with its first record."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:80]
    assert run("topics", "create", name, "--wait").status == 0
    assert run("configs", "alter", "--group", name, "--config", "share.auto.offset.reset=earliest").status == 0
    return str(name)


def produce(peer: KafkaNode, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers})
    for value in values:
        producer.produce(topic, value=value, key="k")
    assert producer.flush(20) == 0


def received(run: Run, topic: str, *options: str) -> list[dict[str, object]]:
    result = run("queue", "receive", topic, "--group", topic, "--output", "json", "--quiet", *options)
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def wait_until(is_true: Callable[[], bool], within_s: float = 40) -> None:
    deadline = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_each_record_is_settled_by_its_handle(run: Run, peer: KafkaNode, topic: str) -> None:
    assert run("configs", "alter", "--group", topic, "--config", "share.record.lock.duration.ms=60000").status == 0
    produce(peer, topic, "a", "b", "c", "d")
    records = received(run, topic, "--max", "4")
    assert [record["value"] for record in records] == ["a", "b", "c", "d"]
    assert {record["delivery_count"] for record in records} == {1}
    assert received(run, topic, "--wait", "1s") == []  # Nobody else receives them.
    handles = [str(record["handle"]) for record in records]
    for verb, handle in zip(("accept", "release", "reject", "renew"), handles, strict=True):
        done = subprocess.run([BARNABAS, "queue", verb, handle], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    (again,) = received(run, topic, "--max", "4", "--wait", "5s")
    assert (again["value"], again["delivery_count"]) == ("b", 2)
    refused = run("queue", "accept", handles[0], handles[1])  # Settled, and an older delivery.
    assert refused.status == 1
    assert refused.err.count("INVALID_RECORD_STATE") == 2
    assert run("queue", "accept", str(again["handle"]), handles[3]).status == 0
    assert received(run, topic, "--wait", "1s") == []


def test_a_record_whose_lock_expires_is_delivered_again_up_to_the_limit(run: Run, peer: KafkaNode, topic: str) -> None:
    produce(peer, topic, "a")
    counts = []
    for _ in range(3):
        (record,) = received(run, topic, "--wait", "10s")
        counts.append(record["delivery_count"])
    assert counts == [1, 2, 3]
    assert received(run, topic, "--wait", f"{LOCK_S + 2}s") == []


def test_a_renewed_record_stays_with_its_holder(run: Run, peer: KafkaNode, topic: str) -> None:
    produce(peer, topic, "a")
    (record,) = received(run, topic)
    ends_at = time.monotonic() + LOCK_S * 2
    while time.monotonic() < ends_at:
        assert run("queue", "renew", str(record["handle"])).status == 0
        time.sleep(LOCK_S / 3)
    assert run("queue", "accept", str(record["handle"])).status == 0


def test_records_of_an_agent_that_is_killed_return_to_the_queue(run: Run, peer: KafkaNode, topic: str) -> None:
    produce(peer, topic, "a")
    (record,) = received(run, topic)
    (agent,) = run("queue", "agents", "-o", "json").document["agents"]
    assert (agent["group"], agent["topic"]) == (topic, topic)
    os.kill(agent["process_id"], signal.SIGKILL)
    gone = run("queue", "accept", str(record["handle"]))
    assert gone.status == 1
    assert "the process that held the record has ended" in gone.err
    (again,) = received(run, topic)
    assert (again["value"], again["delivery_count"]) == ("a", 2)


def test_an_agent_ends_by_itself(
    run: Run, peer: KafkaNode, topic: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_client, "_IDLE_S", 0.5)
    produce(peer, topic, "a", "b")
    first, _ = received(run, topic, "--max", "2")
    assert run("queue", "accept", str(first["handle"])).status == 0
    assert list(folder.rglob("*.sock")) != []  # It holds the other record.
    wait_until(lambda: list(folder.rglob("*.sock")) == [], LOCK_S + 10)
    assert run("queue", "agents").err == "note: no agent runs\n"


def test_the_output_for_people_and_scripts(run: Run, peer: KafkaNode, topic: str) -> None:
    produce(peer, topic, "a", "b", "c")
    text = run("queue", "receive", topic, "--group", topic)
    handle, value = text.out.rstrip("\n").split("\t")
    assert value == "a"
    assert f"1 record is yours for {LOCK_S} s" in text.err
    table = run("queue", "receive", topic, "--group", topic, "--output", "table").out.splitlines()
    assert table[0].split() == ["handle", "time", "partition", "offset", "deliveries", "key", "value"]
    assert table[1].split()[-2:] == ["k", "b"]
    assert run("queue", "accept", handle).out == f"record {handle}  accepted\n"
    assert run("queue", "receive", topic, "--group", topic, "--accept", "--max", "5", "--wait", "0s").out == "c\n"


def test_records_are_accepted_at_once_and_not_if_the_reader_has_ended(run: Run, peer: KafkaNode, topic: str) -> None:
    produce(peer, topic, *("x" * 100_000 for _ in range(3)))
    command = [BARNABAS, "queue", "receive", topic, "-g", topic, "--accept", "-n", "3", "--wait", "2s"]
    with subprocess.Popen([*command, "--bootstrap-server", peer.bootstrap_servers], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=30) == 141
    assert len(received(run, topic, "--accept", "--max", "3", "--wait", "2s")) == 3
    assert received(run, topic, "--accept", "--wait", "1s") == []


def test_a_command_runs_for_each_record(run: Run, peer: KafkaNode, topic: str, tmp_path: Path) -> None:
    produce(peer, topic, "good", "bad", "worse", "slow")
    script = (
        f'read -r value; echo "$value $BARNABAS_TOPIC $BARNABAS_OFFSET $BARNABAS_KEY $BARNABAS_DELIVERY_COUNT" '
        f">> {tmp_path}/log; case $value in slow) sleep {LOCK_S * 1.5};; bad) exit 1;; worse) exit 65;; esac"
    )
    worked = run(
        "queue", "work", topic, "--group", topic, "--jobs", "2", "--wait", "4s", "--reject-status", "65",
        "--", "sh", "-c", script,
    )  # fmt: skip
    assert worked.status == 1
    assert "worked on 6 records" in worked.err
    assert {"2 accepted", "3 released", "1 rejected"} <= {
        part.strip() for part in worked.err.split(":")[-1].strip().split(",")
    }
    lines = sorted((tmp_path / "log").read_text().splitlines())
    assert lines == sorted(
        [f"good {topic} 0 k 1", *(f"bad {topic} 1 k {count}" for count in (1, 2, 3)), f"worse {topic} 2 k 1",
         f"slow {topic} 3 k 1"]  # Its lock was renewed.
    )  # fmt: skip


def test_ctrl_c_lets_the_running_command_end(run: Run, peer: KafkaNode, topic: str, tmp_path: Path) -> None:
    produce(peer, topic, "a", "b")
    script = f"touch {tmp_path}/begun; sleep 2; touch {tmp_path}/done"
    command = [BARNABAS, "queue", "work", topic, "-g", topic, "--bootstrap-server", peer.bootstrap_servers]
    with subprocess.Popen([*command, "--", "sh", "-c", script], stderr=subprocess.PIPE, text=True) as process:
        wait_until((tmp_path / "begun").exists)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 130
    assert (tmp_path / "done").exists()
    assert "worked on 1 record: 1 accepted" in errors
    assert [record["value"] for record in received(run, topic, "--accept", "--max", "2", "--wait", "2s")] == ["b"]


def test_workers_share_a_topic_and_each_record_goes_to_one(
    run: Run, peer: KafkaNode, topic: str, tmp_path: Path
) -> None:
    command = [BARNABAS, "queue", "work", topic, "-g", topic, "-q", "--wait", "5s"]
    workers = [
        subprocess.Popen(
            [*command, "--bootstrap-server", peer.bootstrap_servers, "--", "sh", "-c", f"cat >> {tmp_path}/{name}"]
        )
        for name in ("one", "two")
    ]
    values = [f"{number:03}\n" for number in range(40)]
    for number in range(0, 40, 4):
        produce(peer, topic, *values[number : number + 4])
        time.sleep(0.2)
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0]
    found = [line for name in ("one", "two") for line in (tmp_path / name).read_text().splitlines(keepends=True)]
    assert sorted(found) == values
    assert len(set((tmp_path / "one").read_text())) > 1


def test_work_goes_on_after_a_restart_of_the_cluster(run: Run, peer: KafkaNode, topic: str, tmp_path: Path) -> None:
    produce(peer, topic, "a\n")
    command = [BARNABAS, "queue", "work", topic, "-g", topic, "-q", "--bootstrap-server", peer.bootstrap_servers]
    log = tmp_path / "log"
    with subprocess.Popen([*command, "--", "sh", "-c", f"cat >> {log}"], stderr=subprocess.PIPE) as worker:
        try:
            wait_until(lambda: log.exists() and log.read_text() == "a\n")
            peer.stop()
            peer.start()
            produce(peer, topic, "b\n")
            wait_until(lambda: log.read_text().split() == ["a", "b"], 60)
            worker.send_signal(signal.SIGINT)
            assert worker.wait(timeout=30) == 130
        finally:
            worker.kill()


def test_an_agent_goes_on_after_a_restart_of_the_cluster_without_its_records(
    run: Run, peer: KafkaNode, topic: str
) -> None:
    produce(peer, topic, "a")
    (held,) = received(run, topic)
    peer.stop()
    peer.start()
    refused = run("queue", "accept", str(held["handle"]))
    assert refused.status == 1
    assert "the record is not acquired any more" in refused.err
    assert received(run, topic)[0]["value"] == "a"


def test_kafkas_share_consumer_receives_what_ours_releases(run: Run, peer: KafkaNode, topic: str) -> None:
    produce(peer, topic, "a", "b")
    handles = [str(record["handle"]) for record in received(run, topic, "--max", "2")]
    assert run("queue", "release", *handles).status == 0
    assert run("queue", "agents", "--stop").status == 0
    theirs = run_class(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        "--bootstrap-server", peer.bootstrap_servers, "--topic", topic, "--group", topic, "--max-messages", "2",
        "--timeout-ms", "20000", "--formatter-property", "print.delivery=true",
    )  # fmt: skip
    assert [line.split("\t")[-1] for line in theirs.stdout.splitlines()] == ["a", "b"]
    assert "Delivery count:2" in theirs.stdout or "DeliveryCount:2" in theirs.stdout or "2\t" in theirs.stdout


def test_share_groups_are_shown_reset_and_deleted(run: Run, peer: KafkaNode, topic: str) -> None:
    produce(peer, topic, "a", "b", "c")
    assert len(received(run, topic, "--accept", "--max", "2", "--wait", "5s")) == 2
    assert topic in run("queue", "list").out.split()
    wait_until(
        lambda: run("queue", "describe", topic, "--state", "-o", "json").document["groups"][0]["state"] == "Empty"
    )
    (group,) = run("queue", "offsets", topic, "-o", "json").document["groups"]
    (place,) = group["offsets"]
    assert place["lag"] == 1
    shown = run_class(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        "--bootstrap-server", peer.bootstrap_servers, "--describe", "--group", topic,
    )  # fmt: skip
    assert shown.stdout.split()[-4:] == [topic, "0", str(place["start_offset"]), "1"]
    assert run("queue", "reset", topic, "--topic", topic, "--to-earliest").out == (
        f"group {topic}  would be reset ({topic}-0 from {place['start_offset']} to 0)\n"
    )
    assert run("queue", "reset", topic, "--all-topics", "--to-earliest", "--execute").status == 0
    assert len(received(run, topic, "--accept", "--max", "3", "--wait", "2s")) == 3
    wait_until(lambda: run("queue", "delete", topic).status == 0)
    assert topic not in run("queue", "list").out.split()


def test_mistakes_are_answered_with_what_to_do(run: Run, peer: KafkaNode, topic: str) -> None:
    produce(peer, topic, "a")
    assert run("consume", topic, "--group", f"{topic}-readers", "-e", "-q").status == 0
    for verb in ("describe", "offsets", "delete"):
        refused = run("queue", verb, f"{topic}-readers")
        assert refused.status == 1
        assert "is a consumer group, not a share group" in refused.err
    assert "is a consumer group, not a share group" in run(
        "queue", "reset", f"{topic}-readers", "--topic", topic, "--to-latest", "--execute"
    ).err  # fmt: skip
    unknown = run("queue", "receive", f"{topic}-2", "--group", topic)
    assert unknown.status == 1
    assert f"did you mean {topic}?" in unknown.err
    other = run("queue", "receive", topic, "--group", f"{topic}-readers", "--wait", "5s")
    assert other.status == 1
    assert "another type" in other.err or "not a share group" in other.err
    assert run("queue", "work", topic, "--group", topic, "--", "no-such-command").status == 2
    assert run("queue", "accept", "nonsense").status == 2
