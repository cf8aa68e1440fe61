"""Commands that move replicas, leaders, directories and controllers, against two brokers of ours and of Kafka. Commands
that need APIs that ours does not serve run only against Kafka; ours must refuse by name.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer

from barnabas.cli.main import main
from barnabas.cli.output.exit_status import DENIED
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, run_class
from tests.peers.command_node import CommandNode
from tests.peers.commands import CommandResult, Run
from tests.peers.mixed import OurBroker
from tests.peers.node_process import NodeProcess, free_ports
from tests.peers.quorums import OurController

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(180), pytest.mark.usefixtures("kafka_peer")]

JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
OURS, KAFKA = "barnabas", "kafka"


class Peer(NamedTuple):
    kind: str
    nodes: tuple[NodeProcess, ...]
    folder: Path

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self.nodes[0].port}"

    def directories(self, node: int) -> list[str]:
        return [str(self.folder / str(node) / name) for name in ("one", "two")]


def meta_of(directory: Path) -> dict[str, str]:
    lines = (directory / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def second_kafka(folder: Path, first: KafkaNode, settings: dict[str, str]) -> KafkaNode:
    """Another broker of the cluster, whose controller is an observer until a command makes it a voter."""
    controllers = f"127.0.0.1:{first.controller_port}"
    more = {"node.id": "2", "controller.quorum.bootstrap.servers": controllers}
    node = KafkaNode(folder / "2", settings=settings | more, jvm=JVM)
    node.write_properties()
    cluster_id = meta_of(folder / "1" / "one")["cluster.id"]
    run_class(
        "storage", "format", "--no-initial-controllers", "-t", cluster_id, "-c", str(node.properties),
        timeout_s=120,
    )  # fmt: skip
    return node


def second_of_ours(folder: Path, first: CommandNode, settings: dict[str, str]) -> OurBroker:
    """Another broker of the cluster."""
    controllers = f"127.0.0.1:{first.controller_port}"
    cluster_id = meta_of(folder / "1" / "one")["cluster.id"]
    return OurBroker(folder / "2", 2, controllers=controllers, cluster_id=cluster_id, settings=settings)


@pytest.fixture(scope="module", params=[KAFKA, OURS])
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    folder = tmp_path_factory.mktemp(f"moves-{request.param}")
    with ExitStack() as stack:

        def started(node: NodeProcess) -> NodeProcess:
            node.start()
            stack.callback(node.stop)
            return node

        def settings(node: int) -> dict[str, str]:
            directories = ",".join(str(folder / str(node) / name) for name in ("one", "two"))
            return {
                "log.dirs": directories,
                "auto.leader.rebalance.enable": "false",
                "replica.fetch.wait.max.ms": "50",
            }

        if request.param == OURS:
            ours = CommandNode(folder / "1", settings=settings(1))
            started(ours)
            yield Peer(OURS, (ours, started(second_of_ours(folder, ours, settings(2)))), folder)
            return
        without_check = {"transaction.partition.verification.enable": "false"}
        first = KafkaNode(folder / "1", settings=settings(1) | without_check, jvm=JVM)
        started(first)
        second = started(second_kafka(folder, first, settings(2) | without_check))
        yield Peer(KAFKA, (first, second), folder)


@pytest.fixture
def run(peer: Peer, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> CommandResult:
        status = main([*arguments, "--bootstrap-server", peer.server])
        return CommandResult(status, *capsys.readouterr())

    return run


ONLY_KAFKA = pytest.mark.parametrize("peer", [KAFKA], indirect=True)
"""The test needs APIs that ours does not serve. Kafka is the first of the fixture's kinds, so that it starts once."""


def fill(peer: Peer, topic: str, count: int = 20, size: int = 10) -> None:
    producer = Producer({"bootstrap.servers": peer.server, "linger.ms": 50})
    for number in range(count):
        producer.produce(topic, b"x" * size, partition=number % 2)
    assert producer.flush(30) == 0


def leave_hanging(peer: Peer, topic: str) -> int:
    """Begin a transaction in a partition without telling any coordinator; return the producer's id."""
    client = RawClient(peer.nodes[0].port)
    request_id = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    while (made := client.call(request_id, 4)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        time.sleep(0.05)  # The broker fetches a block of ids.
    assert made.error_code == 0, made
    records = [Record(0, int(time.time() * 1000), None, b"x", ())]
    batch = build_batch(records, producer_id=made.producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    partition = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        transactional_id="hanging", acks=-1, timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )  # fmt: skip
    (answer,) = client.call(request, 9).responses[0].partition_responses
    assert answer.error_code == 0, answer
    client.close()
    return int(made.producer_id)


def replicas(run: Run, topic: str) -> list[list[int]]:
    (found,) = run("topics", "describe", topic, "-o", "json").document["topics"]
    return [partition["replicas"] for partition in found["partitions"]]


def written(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document))
    return str(path)


def partitions(topic: str, *brokers: list[int]) -> dict[str, Any]:
    entries = [{"topic": topic, "partition": index, "replicas": replicas} for index, replicas in enumerate(brokers)]
    return {"version": 1, "partitions": entries}


def test_an_invalid_plan_moves_nothing(run: Run, peer: Peer, tmp_path: Path) -> None:
    assert run("topics", "create", "mv-a", "--replica-assignment", "1,1", "--wait").status == 0
    plan = written(tmp_path / "plan.json", partitions("mv-a", [1], [77], [1]))
    for extra in ([], ["--dry-run"]):
        refused = run("reassign", "execute", "--reassignment-json-file", plan, *extra)
        assert refused.status == 1
        assert "mv-a-1: broker 77 is not alive" in refused.err
        assert "mv-a-2: no such partition exists" in refused.err
        assert "topic mv-a has the partitions 0 to 1" in refused.err
    assert replicas(run, "mv-a") == [[1], [1]]
    assert "did you mean mv-a" in run("reassign", "generate", "--topic", "mva").err
    assert "broker 77 is not alive" in run("reassign", "generate", "--topic", "mv-a", "--broker-list", "1,77").err
    assert "77 replicas can't be" in run("reassign", "generate", "--topic", "mv-a", "--replication-factor", "77").err
    assert run("reassign", "cancel", "--topic", "mv-a").err == (
        "note: mv-a-0 is not moving\nnote: mv-a-1 is not moving\n"
    )
    assert run("reassign", "list").err == "note: no moves are in progress\n"


def test_replicas_already_in_place_do_not_move(run: Run, peer: Peer, tmp_path: Path) -> None:
    assert run("topics", "create", "mv-b", "--replica-assignment", "1,1", "--wait").status == 0
    generated = run("reassign", "generate", "--topic", "mv-b", "--broker-list", "1", "--output", "json")
    assert generated.status == 0, generated.err
    assert [partition["replicas"] for partition in generated.document["partitions"]] == [[1], [1]]
    plan = written(tmp_path / "plan.json", generated.document)
    done = run("reassign", "execute", "--reassignment-json-file", plan, "--wait")
    assert (done.status, done.out) == (0, "")
    assert "2 of 2 partitions are already on these brokers" in done.err
    state = run("reassign", "verify", "--reassignment-json-file", plan)
    assert (state.status, state.out.count("complete")) == (0, 2)
    if peer.kind == OURS:
        verify = ("--verify", "--reassignment-json-file", plan)
        theirs = run_class("reassign-partitions", "--bootstrap-server", peer.server, *verify).stdout
        assert theirs.count("is completed") == 2


def test_partitions_move_with_a_throttle_and_moves_can_be_cancelled(run: Run, peer: Peer, tmp_path: Path) -> None:
    assert run("topics", "create", "mv-c", "--replica-assignment", "1,1", "--wait").status == 0
    fill(peer, "mv-c", 400, 20_000)
    plan = written(tmp_path / "plan.json", partitions("mv-c", [2], [2, 1]))
    slow = ("--reassignment-json-file", plan, "--throttle", "1024")
    tried = run("reassign", "execute", *slow, "--dry-run")
    assert tried.status == 0, tried.err
    assert "move of mv-c-0  would be begun (from 1 to 2)" in tried.out
    assert replicas(run, "mv-c") == [[1], [1]]
    back = tmp_path / "back.json"
    begun = run("reassign", "execute", *slow, "--rollback-file", str(back))
    assert begun.status == 0, begun.err
    assert "topic mv-c      throttled" in begun.out
    assert json.loads(back.read_text())["partitions"][0]["replicas"] == [1]
    moving = run("reassign", "list", "--topic", "mv-c", "-o", "json").document["reassignments"]
    assert {reassignment["partition"]: reassignment["adding"] for reassignment in moving} == {0: [2], 1: [2]}
    assert run("reassign", "verify", "--reassignment-json-file", plan).status == DENIED
    assert "other moves are in progress" in run("reassign", "execute", *slow).err
    assert "would be cancelled" in run("reassign", "cancel", "--all", "--dry-run").out
    cancelled = run("reassign", "cancel", "--reassignment-json-file", plan)
    assert cancelled.status == 0, cancelled.err
    assert "move of mv-c-0  cancelled (it stays on 1)" in cancelled.out
    assert "throttle ended" in cancelled.out
    assert replicas(run, "mv-c") == [[1], [1]]
    done = run("reassign", "execute", "--reassignment-json-file", plan, "--throttle", "50000000", "--wait")
    assert done.status == 0, done.err
    assert replicas(run, "mv-c") == [[2], [2, 1]]
    entries = run("configs", "describe", "--topic", "mv-c", "-o", "json").document["configs"][0]["entries"]
    assert entries == []


def test_our_plan_is_valid_for_kafka_and_is_short_without_a_file(run: Run, peer: Peer, tmp_path: Path) -> None:
    assert run("topics", "create", "mv-d", "--replica-assignment", "1,1", "--wait").status == 0
    generated = run("reassign", "generate", "--topic", "mv-d", "-o", "json").document
    plan = written(tmp_path / "plan.json", generated)
    assert sorted(partition["replicas"] for partition in generated["partitions"]) == [[1], [2]]
    theirs = run_class(
        "reassign-partitions", "--bootstrap-server", peer.server, "--execute", "--reassignment-json-file", plan
    ).stdout
    assert "Successfully started" in theirs
    while run("reassign", "verify", "--reassignment-json-file", plan).status == DENIED:
        pass
    assert run("reassign", "execute", "--topic", "mv-d", "--replication-factor", "2", "--wait").status == 0
    assert [sorted(replica) for replica in replicas(run, "mv-d")] == [[1, 2], [1, 2]]
    refused = run("reassign", "execute", "--topic", "mv-d", "--replicas", "1", "--disallow-replication-factor-change")
    assert "it has 2 replicas and would have 1" in refused.err
    assert run("reassign", "execute", "--topic", "mv-d:0", "--replicas", "2,1", "--wait").status == 0
    assert replicas(run, "mv-d")[0] == [2, 1]


def test_records_are_deleted(run: Run, peer: Peer, tmp_path: Path) -> None:
    assert run("topics", "create", "mv-e", "--replica-assignment", "1,1", "--wait").status == 0
    fill(peer, "mv-e", 20)
    before = ("topics", "delete-records", "mv-e:0", "--before-offset", "4")
    assert run(*before, "--dry-run").out == "records of mv-e-0  would be deleted (before 4, 4 offsets)\n"
    assert run(*before).out == "records of mv-e-0  deleted (before 4, 4 offsets)\n"
    assert run(*before).out == "records of mv-e-0  deleted (before 4, 0 offsets)\n"
    first = run("topics", "offsets", "mv-e", "--time", "earliest").out
    assert first.split()[3:] == ["mv-e", "0", "4", "mv-e", "1", "0"]
    (last,) = run("topics", "offsets", "mv-e", "--partitions", "1", "-o", "json").document["offsets"]
    assert last["offset"] == 10
    assert run("topics", "offsets", "mv-e", "--time", "2099-01-01T00:00:00.000").out.count("none") == 2
    for extra in ([], ["--dry-run"]):
        refused = run("topics", "delete-records", "mv-e", "--before-offset", "77", *extra)
        assert (refused.status, refused.err.count("(OFFSET_OUT_OF_RANGE)")) == (1, 2)
    entries = [{"topic": "mv-e", "partition": 1, "offset": -1}, {"topic": "mve", "partition": 0, "offset": 1}]
    offsets = written(tmp_path / "offsets.json", {"version": 1, "partitions": entries})
    done = run("topics", "delete-records", "--offset-json-file", offsets)
    assert (done.status, done.out) == (1, "records of mv-e-1  deleted (before 10, 10 offsets)\n")
    assert "did you mean mv-e?" in done.err
    assert run("topics", "create", "mv-kept", "--config", "cleanup.policy=compact", "--wait").status == 0
    for extra in ([], ["--dry-run"]):
        refused = run("topics", "delete-records", "mv-kept", "--before-offset", "0", *extra)
        assert (refused.status, "POLICY_VIOLATION" in refused.err) == (1, True), refused.err


def test_unneeded_elections_are_reported(run: Run, peer: Peer, tmp_path: Path) -> None:
    assert run("topics", "create", "mv-f", "--replica-assignment", "1,1", "--wait").status == 0
    for extra in ([], ["--dry-run"]):
        needless = run("topics", "elect-leaders", "mv-f:1", *extra)
        assert (needless.status, needless.out) == (0, "")
        assert "1 partitions need no election" in needless.err
    assert run("topics", "elect-leaders", "--all-topic-partitions").status == 0
    assert run("topics", "elect-leaders", "--all-topic-partitions", "--election-type", "unclean").status == 0
    partition = written(tmp_path / "p.json", {"partitions": [{"topic": "mv-f", "partition": 7}]})
    for extra in ([], ["--dry-run"]):
        refused = run("topics", "elect-leaders", "--path-to-json-file", partition, *extra)
        assert (refused.status, "UNKNOWN_TOPIC_OR_PARTITION" in refused.err) == (1, True), refused.err
    assert "the partitions 0 to 1" in run("topics", "elect-leaders", "--topic", "mv-f", "--partition", "7").err


def test_the_preferred_leader_is_elected(run: Run, peer: Peer) -> None:
    assert run("topics", "create", "mv-g", "--replica-assignment", "1:2", "--wait").status == 0
    assert run("reassign", "execute", "--topic", "mv-g", "--replicas", "2,1", "--wait").status == 0
    assert run("topics", "elect-leaders", "mv-g", "--dry-run").out == (
        "leader of mv-g-0  would be elected (2 instead of 1)\n"
    )
    assert run("topics", "elect-leaders", "mv-g", "--wait").out == "leader of mv-g-0  elected (preferred)\n"
    (topic,) = run("topics", "describe", "mv-g", "-o", "json").document["topics"]
    assert topic["partitions"][0]["leader"] == 2


def test_features_are_set_to_the_levels_of_a_release(run: Run, peer: Peer) -> None:
    same = run("features", "upgrade", "--release-version", "4.3", "--dry-run")
    assert same.status == 0, same.err
    refused = run("features", "downgrade", "--release-version", "4.2", "--dry-run")
    assert (refused.status, refused.out) == (1, "")
    assert "metadata.version" in refused.err


def test_the_controllers_report_every_feature_of_the_mapping(
    run: Run, peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    controllers = ("--bootstrap-controller", f"127.0.0.1:{peer.nodes[0].controller_port}")
    assert main(["features", "describe", *controllers, "-o", "json"]) == 0
    reported = {feature["feature"]: feature["level"] for feature in json.loads(capsys.readouterr().out)["features"]}
    assert main(["features", "version-mapping", "-o", "json"]) == 0
    mapped = json.loads(capsys.readouterr().out)["features"]
    assert reported == mapped
    if peer.kind == OURS:
        return
    theirs = run_class(
        "features", "--bootstrap-server", peer.server, "version-mapping", "--release-version", "4.1"
    ).stdout
    assert main(["features", "version-mapping", "--release-version", "4.1", "-o", "json"]) == 0
    ours = json.loads(capsys.readouterr().out)["features"]
    lines = (line.split()[0].split("=") for line in theirs.splitlines())
    assert {name: int(level) for name, level in lines} == ours


def test_group_offsets_are_exported_and_imported_in_kafkas_file_format(run: Run, peer: Peer, tmp_path: Path) -> None:
    assert run("topics", "create", "mv-h", "--replica-assignment", "1,1", "--wait").status == 0
    fill(peer, "mv-h", 20)
    reset = ("groups", "reset-offsets", "mv-group")
    assert run(*reset, "--topic", "mv-h", "--to-offset", "7", "--execute").status == 0
    exported = run(*reset, "--all-topics", "--to-current", "--export")
    assert (exported.status, exported.out) == (0, "mv-h,0,7\nmv-h,1,7\n")
    groups = ("groups", "--bootstrap-server", peer.server, "--reset-offsets", "--group", "mv-group")
    file = tmp_path / "offsets.csv"
    file.write_text(exported.out)
    if peer.kind == KAFKA:
        assert "mv-h" in run_class(*groups, "--from-file", str(file), "--execute").stdout
    theirs = ("--topic", "mv-h", "--to-offset", "3", "--export", "--dry-run")
    file.write_text(run_class(*groups, *theirs).stdout if peer.kind == OURS else "mv-h,0,3\nmv-h,1,3\n")
    assert run(*reset, "--from-file", str(file), "--execute").status == 0
    assert run(*reset, "--all-topics", "--to-current", "--export").out == "mv-h,0,3\nmv-h,1,3\n"
    several = run("groups", "reset-offsets", "--all-groups", "--all-topics", "--to-current", "--export").out
    assert "mv-group,mv-h,0,3\n" in several


@ONLY_KAFKA
def test_transactions_are_listed_and_terminated(run: Run, peer: Peer) -> None:
    assert run("topics", "create", "mv-i", "--replica-assignment", "1", "--wait").status == 0
    producer = Producer({"bootstrap.servers": peer.server, "transactional.id": "mv-tx"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("mv-i", b"x")
    assert producer.flush(30) == 0
    listed = run("transactions", "list", "--transactional-id-pattern", "mv-.*", "-o", "json").document["transactions"]
    assert [(transaction["transactional_id"], transaction["state"]) for transaction in listed] == [("mv-tx", "Ongoing")]
    assert run("transactions", "list", "--duration-filter", "600000").out == ""
    assert "did you mean mv-tx?" in run("transactions", "describe", "mv-tk").err
    (found,) = run("transactions", "describe", "mv-tx", "-o", "json").document["transactions"]
    assert found["partitions"] == [{"topic": "mv-i", "partition": 0}]
    (writer,) = run("transactions", "describe-producers", "mv-i:0", "-o", "json").document["producers"]
    assert (writer["producer_id"], writer["start_offset"]) == (found["producer_id"], 0)
    assert run("transactions", "find-hanging", "--max-transaction-timeout", "0", "--topic", "mv-i").out == ""
    terminate = ("transactions", "force-terminate", "mv-tx")
    assert "would be terminated (it was Ongoing)" in run(*terminate, "--dry-run").out
    assert run(*terminate).out == "transactional id mv-tx  terminated (it was Ongoing)\n"
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


@ONLY_KAFKA
def test_a_hanging_transaction_is_found_and_aborted(run: Run, peer: Peer) -> None:
    assert run("topics", "create", "mv-j", "--replica-assignment", "1", "--wait").status == 0
    producer_id = leave_hanging(peer, "mv-j")
    find = ("transactions", "find-hanging", "--max-transaction-timeout", "0", "-o", "json")
    hanging = run(*find).document["hanging"]
    assert [
        (transaction["topic"], transaction["producer_id"], transaction["start_offset"]) for transaction in hanging
    ] == [("mv-j", producer_id, 0)]
    assert run("transactions", "find-hanging").out == ""
    abort = ("transactions", "abort", "--topic", "mv-j", "--partition", "0", "--start-offset")
    assert "open transactions start at 0" in run(*abort, "7").err
    assert "would be aborted" in run(*abort, "0", "--dry-run").out
    done = run(*abort, "0")
    assert done.status == 0, done.err
    assert run(*find).document["hanging"] == []


@contextmanager
def second_controller(peer: Peer, folder: Path) -> Iterator[Path]:
    """The settings of a controller that follows as an observer: with id 2, or with id 3 beside our second broker."""
    if peer.kind == KAFKA:
        yield peer.folder / "2" / "server.properties"
        return
    first = f"127.0.0.1:{peer.nodes[0].controller_port}"
    joining = OurController(folder, 3, free_ports(1)[0], {"controller.quorum.bootstrap.servers": first})
    joining.format(meta_of(peer.folder / "1" / "one")["cluster.id"], "--no-initial-controllers")
    joining.start()
    try:
        yield joining.properties
    finally:
        joining.kill()


def test_a_controller_becomes_a_voter_and_then_an_observer_again(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    controllers = f"127.0.0.1:{peer.nodes[0].controller_port}"
    other = "2" if peer.kind == KAFKA else "3"

    def run(*arguments: str) -> CommandResult:
        status = main(["quorum", *arguments, "--bootstrap-controller", controllers])
        return CommandResult(status, *capsys.readouterr())

    with second_controller(peer, tmp_path / "2") as config:
        add = ("add-controller", "--controller-config", str(config))
        until = time.monotonic() + 30
        while (tried := run(*add, "--dry-run")).status and time.monotonic() < until:
            assert "no observer has this id" in tried.err, tried.err
        assert f"controller {other}  would be added" in tried.out
        added = run(*add)
        assert (added.status, added.out.startswith(f"controller {other}  added (directory ")) == (0, True), added.err
        assert sorted(voter["id"] for voter in run("describe", "-o", "json").document["voters"]) == [1, int(other)]
        again = run(*add)
        assert (again.status, "already a voter" in again.err) == (1, True)
        assert "the remaining voters are 1" in run("remove-controller", other, "--dry-run").err
        assert run("remove-controller", "--controller-id", other).status == 0
        assert [voter["id"] for voter in run("describe", "-o", "json").document["voters"]] == [1]
        unknown = run("remove-controller", other)
        assert (unknown.status, "no voter has this id; voters: 1" in unknown.err) == (1, True)
        by_hand = ("add-controller", "--controller-id", other, "--endpoint", "CONTROLLER://127.0.0.1:9")
        assert f"controller {other}  would be added" in run(*by_hand, "--dry-run").out


def test_replicas_move_between_directories(run: Run, peer: Peer, tmp_path: Path) -> None:
    assert run("topics", "create", "mv-k", "--replica-assignment", "1,1", "--wait").status == 0
    fill(peer, "mv-k", 100, 1000)
    first, second = peer.directories(1)

    def directories() -> dict[int, str]:
        found = run("log-dirs", "describe", "--topic-list", "mv-k", "-o", "json").document["log_dirs"]
        return {
            replica["partition"]: log_dir["directory"]
            for log_dir in found
            for replica in log_dir["replicas"]
            if not replica["future"]
        }

    there = directories()[0]
    other = second if there == first else first
    move = ("log-dirs", "move", "mv-k:0", "--to", other)
    assert run(*move, "--dry-run").out == f"replica mv-k-0 on broker 1  would be sent (from {there} to {other})\n"
    assert directories()[0] == there
    moved = run(*move, "--wait")
    assert moved.status == 0, moved.err
    assert directories()[0] == other
    assert "its directories are" in run("log-dirs", "move", "mv-k", "--to", "/none").err
    entries = [{"topic": "mv-k", "partition": 0, "replicas": [2, 1], "log_dirs": [peer.directories(2)[1], there]}]
    plan = written(tmp_path / "plan.json", {"version": 1, "partitions": entries})
    done = run("reassign", "execute", "--reassignment-json-file", plan, "--wait")
    assert done.status == 0, done.err
    assert run("reassign", "verify", "--reassignment-json-file", plan).status == 0


def test_a_command_that_the_cluster_does_not_support_is_refused_by_name(run: Run, peer: Peer) -> None:
    assert run("topics", "create", "mv-l", "--replica-assignment", "1", "--wait").status == 0
    lacking = {
        "ListTransactions": ["transactions", "list"],
        "DescribeTransactions": ["transactions", "describe", "mv-l"],
        "DescribeProducers": ["transactions", "describe-producers", "mv-l:0"],
    }
    if peer.kind == KAFKA:
        del lacking["DescribeTransactions"]
        assert [run(*words).status for words in lacking.values()] == [0] * len(lacking)
        return
    for api, words in lacking.items():
        refused = run(*words)
        assert (refused.status, refused.out) == (1, "")
        assert f"does not offer {api}" in refused.err, refused.err


def test_a_silent_server_ends_in_a_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        assert main(["topics", "list", "--bootstrap-server", server, "--timeout", "0.2"]) == 1
    assert f"no node answered at {server} in 0.2 s" in capsys.readouterr().err
