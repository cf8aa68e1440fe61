"""``barnabas cluster up`` without sockets and processes: nodes, ports, settings, the folder, the order of a stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.cli.cluster.command import main
from barnabas.cli.cluster.local_folder import FolderProblem, format_nodes, locked, read_cluster
from barnabas.cli.cluster.local_layout import LocalCluster, LocalNode, NoFreePorts, choose_ports, new_cluster
from barnabas.cli.cluster.local_processes import NodeFailed, Supervisor
from barnabas.common.uuid import Uuid
from barnabas.server.settings.node_config import load_node_config
from barnabas.server.storage_tool.initial_controllers import parse_initial_controllers
from barnabas.storage.meta_properties import MetaProperties


def cluster(controllers: int = 3, brokers: int = 2) -> LocalCluster:
    ids = iter(range(1000, 2000))
    ports = list(range(19_092, 19_092 + controllers + brokers))
    return new_cluster(controllers, brokers, ports, lambda: Uuid.from_int(next(ids)))


def every_port_is_free(port: int) -> bool:
    return True


def test_brokers_have_the_first_ports_and_controllers_are_started_first() -> None:
    created = cluster()
    assert [(node.name, node.port) for node in created.nodes] == [
        ("controller-1", 19_094),
        ("controller-2", 19_095),
        ("controller-3", 19_096),
        ("broker-101", 19_092),
        ("broker-102", 19_093),
    ]
    assert created.bootstrap_server == "127.0.0.1:19092,127.0.0.1:19093"
    assert [[node.role for node in stage] for stage in created.stages_of_stop()] == [["broker"] * 2, ["controller"] * 3]


def test_every_voter_has_its_own_directory() -> None:
    voters = parse_initial_controllers(cluster().initial_controllers)
    assert [voter.port for voter in voters] == [19_094, 19_095, 19_096]
    assert len({voter.directory_id for voter in voters}) == 3


def test_the_generated_settings_start_a_node(tmp_path: Path) -> None:
    created = cluster()
    for node in created.nodes:
        path = tmp_path / f"{node.name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in created.settings(node).items()))
        config = load_node_config(str(path))
        assert config.node_id == node.node_id
        assert (config.is_controller, config.is_broker) == (node.role == "controller", node.role == "broker")


@pytest.mark.parametrize(("brokers", "copies"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
@pytest.mark.parametrize("topic", ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"])
def test_internal_topics_have_one_replica_per_broker_and_at_most_three(brokers: int, copies: str, topic: str) -> None:
    created = cluster(brokers=brokers)
    assert {created.settings(node)[f"{topic}.replication.factor"] for node in created.of("broker")} == {copies}


def with_acls() -> LocalCluster:
    ids, passwords = iter(range(1000, 2000)), iter(range(100))
    ports = [19_092, 19_093, 19_094]
    return new_cluster(1, 2, ports, lambda: Uuid.from_int(next(ids)), lambda: f"secret-{next(passwords)}")


def test_a_cluster_with_acls_has_an_authorizer_and_logins_on_each_node(tmp_path: Path) -> None:
    created = with_acls()
    for node in created.nodes:
        path = tmp_path / f"{node.name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in created.settings(node).items()))
        config = load_node_config(str(path))
        assert config.authorizer_class_name.endswith("StandardAuthorizer")
        assert config.super_users == "User:node;User:admin"
        assert not [warning for warning in config.warnings if "super.users" in warning]
        protocols = config.value("listener.security.protocol.map")
        assert "SASL_PLAINTEXT" in str(protocols)


def test_passwords_are_kept_with_the_cluster_and_in_files_for_clients_only(tmp_path: Path) -> None:
    created = format_nodes(tmp_path, with_acls())
    assert read_cluster(tmp_path) == created
    assert "secret" not in repr(created)
    for user, password in (("admin", "secret-1"), ("alice", "secret-2")):
        file = tmp_path / f"{user}.properties"
        assert f'username="{user}" password="{password}"' in file.read_text()
        assert file.stat().st_mode & 0o007 == 0
    assert not (tmp_path / "node.properties").exists()


def test_a_folder_created_without_acls_refuses_acls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    format_nodes(folder, cluster(controllers=1, brokers=1))
    assert main(["up", "--data", str(folder), "--acls", "--dry-run"]) == 2
    assert "its cluster has no ACLs: choose another folder for --acls" in capsys.readouterr().err


def test_ports_are_chosen_from_a_range_that_is_entirely_free() -> None:
    assert choose_ports(4, None, every_port_is_free) == [9092, 9093, 9094, 9095]
    assert choose_ports(4, None, lambda port: port != 9094) == [9192, 9193, 9194, 9195]
    assert choose_ports(2, 65_534, every_port_is_free) == [65_534, 65_535]


@pytest.mark.parametrize(
    ("base", "is_free", "messages"),
    [
        (None, lambda port: False, "--port-base"),
        (65_535, every_port_is_free, "1 to 65534"),
        (0, every_port_is_free, "1 to 65534"),
        (9000, lambda port: port != 9001, "9001 can't be used"),
    ],
)
def test_unavailable_ports_are_named(base: int | None, is_free: Callable[[int], bool], messages: str) -> None:
    with pytest.raises(NoFreePorts, match=messages):
        choose_ports(2, base, is_free)


@pytest.mark.parametrize("option", ["--controllers", "--brokers"])
@pytest.mark.parametrize("count", ["0", "-1", "10"])
def test_numbers_of_nodes_out_of_range_are_refused(
    option: str, count: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cluster"
    assert main(["up", f"{option}={count}", "--data", str(folder)]) == 2
    assert f"{option} {count}: it must be 1 to 9" in capsys.readouterr().err
    assert not folder.exists()


def test_formatting_is_done_once_and_resumes_after_an_interruption(tmp_path: Path) -> None:
    created = cluster(1, 1)
    done = format_nodes(tmp_path, created)
    assert (done.is_formatted, read_cluster(tmp_path)) == (True, done)
    found = [MetaProperties.read(str(tmp_path / node.name / "data")) for node in created.nodes]
    assert [properties and properties.cluster_id for properties in found] == [created.cluster_id] * 2
    assert str(found[0] and found[0].directory_id) == created.nodes[0].directory_id
    (tmp_path / "controller-1" / "server.properties").write_text("# changed by hand\n")
    (tmp_path / "broker-101" / "data" / "meta.properties").unlink()
    assert format_nodes(tmp_path, done) == done, "a lost disk is not formatted as a side effect"
    assert MetaProperties.read(str(tmp_path / "broker-101" / "data")) is None
    assert (tmp_path / "controller-1" / "server.properties").read_text() == "# changed by hand\n"


def test_a_partly_formatted_folder_is_completed(tmp_path: Path) -> None:
    created = cluster(1, 1)
    format_nodes(tmp_path, created)
    (tmp_path / "cluster.json").write_text(json.dumps(created.document()))
    (tmp_path / "broker-101" / "data" / "meta.properties").unlink()
    again = read_cluster(tmp_path)
    assert again is not None
    assert format_nodes(tmp_path, again).is_formatted
    assert MetaProperties.read(str(tmp_path / "broker-101" / "data")) is not None


def test_a_foreign_folder_and_a_broken_file_are_refused(tmp_path: Path) -> None:
    assert read_cluster(tmp_path / "new") is None
    (tmp_path / "letter.txt").write_text("hello")
    with pytest.raises(FolderProblem, match="contains other files"):
        read_cluster(tmp_path)
    (tmp_path / "cluster.json").write_text('{"version": 2}')
    with pytest.raises(FolderProblem, match="version 2 is not 1"):
        read_cluster(tmp_path)


def test_nothing_is_written_into_a_foreign_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("hello")
    assert main(["up", "--data", str(tmp_path)]) == 2
    assert "contains other files" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_an_impossible_cluster_creates_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--data", str(tmp_path / "new"), "--port-base", "65535"]) == 2
    assert "--port-base 65535" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_folder_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(FolderProblem, match="already running"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_numbers_of_nodes_or_ports_that_differ_from_the_folder_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    format_nodes(tmp_path, cluster(1, 2))
    assert main(["up", "--data", str(tmp_path), "--brokers", "3", "--dry-run"]) == 2
    assert "it has 1 controllers and 2 brokers" in capsys.readouterr().err
    assert main(["up", "--data", str(tmp_path), "--port-base", "20000", "--dry-run"]) == 2
    assert "keep their ports, from 19092 on" in capsys.readouterr().err


class FakeProcess:
    """A process that prints the given text and ends on terminate, or never."""

    def __init__(self, node: LocalNode, log: Path, ended: list[str], *, prints: str, status: int | None, ends: bool):
        self.pid = node.node_id
        self.status = status
        self._node, self._ended, self._ends = node, ended, ends
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(prints)

    def poll(self) -> int | None:
        return self.status

    def terminate(self) -> None:
        if self._ends and self.status is None:
            self._ended.append(self._node.name)
            self.status = 0

    def kill(self) -> None:
        self.status = -9

    def wait(self) -> int:
        return self.status or 0


class Stage:
    """A supervisor of fake processes; time passes when it sleeps."""

    def __init__(self, folder: Path, *, controllers: int = 3, brokers: int = 2) -> None:
        self.ended: list[str] = []
        self.messages: list[str] = []
        self.processes: dict[str, FakeProcess] = {}
        self.prints: dict[str, str] = {}
        self.status: dict[str, int] = {}
        self.never_end: set[str] = set()
        self.signals = 0
        self.now = 0.0
        self.on_sleep: Callable[[], None] = lambda: None
        self.cluster = cluster(controllers, brokers)
        self.supervisor = Supervisor(
            self.cluster, folder, launch=self._launch, say=self.messages.append, wants_end=lambda: self.signals,
            sleep=self._sleep, monotonic=lambda: self.now,
        )  # fmt: skip

    def _launch(self, node: LocalNode, log: Path) -> FakeProcess:
        prints = self.prints.get(node.name, "barnabas node 1 is ready in 0.1 s\n")
        self.processes[node.name] = FakeProcess(
            node,
            log,
            self.ended,
            prints=prints,
            status=self.status.get(node.name),
            ends=node.name not in self.never_end,
        )
        return self.processes[node.name]

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


def test_brokers_are_stopped_before_controllers(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.supervisor.start(60)
    assert stage.supervisor.stop()
    assert stage.ended == ["broker-101", "broker-102", "controller-1", "controller-2", "controller-3"]


def test_the_active_controller_and_killed_nodes_are_reported(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    active = "01 INFO node: this node is the active controller, in epoch 7\n"
    stage.prints["controller-2"] = active + "barnabas node 2 is ready in 0.1 s\n"
    assert stage.supervisor.start(60)

    def die_and_then_end() -> None:
        stage.processes["broker-101"].status = -9
        stage.signals += stage.now > 1

    stage.on_sleep = die_and_then_end
    assert stage.supervisor.watch()
    assert stage.messages[0] == "controller-2 is the active controller, in epoch 7"
    assert stage.messages[1].startswith("broker-101 was killed by signal 9; its log: ")
    assert stage.supervisor.stop(), "processes that ended before do not count"


def test_the_watch_ends_when_all_processes_have_ended(tmp_path: Path) -> None:
    stage = Stage(tmp_path, controllers=1, brokers=1)
    assert stage.supervisor.start(60)
    for process in stage.processes.values():
        process.status = 1
    assert not stage.supervisor.watch()


def test_a_node_that_does_not_start_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "broker-102" / "node.log"
    log.parent.mkdir()
    log.write_text("of a former start\n")
    stage = Stage(tmp_path)
    stage.prints["broker-102"] = "".join(f"line {number}\n" for number in range(20))
    stage.status["broker-102"] = 1
    with pytest.raises(NodeFailed, match="broker-102 did not start: it ended with status 1") as failure:
        stage.supervisor.start(60)
    assert failure.value.lines == [f"line {number}" for number in range(12, 20)]


def test_a_node_that_is_never_ready_is_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.prints["controller-3"] = "waiting\n"
    with pytest.raises(NodeFailed, match="controller-3 was not ready after 5 s"):
        stage.supervisor.start(5)


def test_ctrl_c_aborts_the_start_and_a_second_one_kills_the_nodes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.prints["controller-3"] = "waiting\n"
    stage.never_end = {"controller-3"}
    stage.on_sleep = lambda: setattr(stage, "signals", 1 + (stage.now > 1))
    assert not stage.supervisor.start(60)
    assert not stage.supervisor.stop()
    assert stage.messages == ["controller-3 was killed: it did not stop in time"]
    assert stage.now < 3


def test_a_node_that_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.never_end = {"broker-101"}
    assert stage.supervisor.start(60)
    assert not stage.supervisor.stop()
    assert stage.processes["broker-101"].status == -9
    assert stage.ended[-1] == "controller-3", "the other nodes are stopped nevertheless"
