"""The command lines of packaging/: run as an unprivileged user with a read-only root, from a fresh installation.

They need no container engine, systemd or Kubernetes. ``test_install_linters.py`` checks the files themselves.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from barnabas_release.tool_environment import find_uv
from tests.docs.tracked import PROJECT
from tests.interop.confined_process import (
    USER,
    Confined,
    Place,
    can_confine,
    make_switch,
    run_confined,
    start_confined,
)
from tests.interop.install_source import environment_without_java, pythons
from tests.interop.packaging_files import PACKAGING, read_pod, read_stages, read_unit

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(240),
    pytest.mark.skipif(bool(can_confine()), reason=can_confine()),
]
ENVIRONMENT = {"PATH": "/opt/barnabas/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
NAMESPACE = "kafka"
TEST_NETWORK = "192.0.2"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The node, installed as the Containerfile installs it."""
    return installed(tmp_path_factory.mktemp("program") / "barnabas", "node")


@pytest.fixture(scope="module")
def worker_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worker with Spark, installed as the Containerfile installs it."""
    return installed(tmp_path_factory.mktemp("worker") / "barnabas", "run")


def installed(folder: Path, lock: str) -> Path:
    """Install barnabas with the pinned packages for an interpreter that every user may run."""
    readable = [python for python in ("/usr/bin/python3", *pythons().values()) if _any_user_may_run(python)]
    if not readable:
        pytest.skip("this machine has no Python 3.11 or later that an unprivileged user may run")
    uv, environment = find_uv(), environment_without_java()
    target = ["--quiet", "--python", str(folder / "bin" / "python")]
    build = ["--build-constraint", str(PROJECT / "requirements" / "build.lock.txt")]
    pinned = ["--require-hashes", "-r", str(PROJECT / "requirements" / f"{lock}.lock.txt")]
    for command in (
        ["venv", "--quiet", "--relocatable", "--python", readable[0], str(folder)],
        ["pip", "install", *target, *build, *pinned],
        ["pip", "install", *target, *build, "--no-deps", str(PROJECT)],
    ):
        subprocess.run([uv, *command], check=True, env=environment)
    return folder


def _any_user_may_run(python: str) -> bool:
    script = "import sys; sys.exit(sys.version_info < (3, 11))"
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--", python, "-c", script]
    return subprocess.run(user, cwd="/", capture_output=True, check=False).returncode == 0


def place_of(program: Path, settings: Path, folder: Path, hosts: Mapping[str, str] | None = None) -> Place:
    for name in ("data", "settings"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for path in settings.glob("*.properties"):
        shutil.copy(path, folder / "settings" / path.name)
    return Place(program, folder / "settings", folder / "data", hosts=hosts or {})


def wait_until_ready(node: Confined, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while " is ready in " not in node.printed():
        assert node.process.poll() is None, node.printed()
        assert time.monotonic() < deadline, node.printed()
        time.sleep(0.05)


def client(node: Confined, *arguments: str) -> str:
    ended = node.run_inside(["/opt/barnabas/bin/barnabas", *arguments], ENVIRONMENT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_command_of_the_container_runs_without_root(program: Path, tmp_path: Path) -> None:
    stage = list(read_stages().items())[-1]
    assert stage[0] == "node"
    assert stage[1].user == f"{USER}:{USER}"
    assert stage[1].directory == "/var/lib/barnabas"
    assert stage[1].volumes == [stage[1].directory]
    node = start_confined(stage[1].command, ENVIRONMENT, place_of(program, PACKAGING / "container", tmp_path), tmp_path)
    try:
        wait_until_ready(node)
        healthy = node.run_inside(stage[1].health_check, ENVIRONMENT)
        assert healthy.returncode == 0, healthy.stderr
        assert "created" in client(node, "topics", "create", "orders")
        # The root is read-only, and the process has no privilege.
        for path in ("/written", "/opt/barnabas/written", "/etc/barnabas/written", "/usr/written"):
            assert node.run_inside(["touch", path], ENVIRONMENT).returncode != 0
        status = Path(f"/proc/{node.process.pid}/status").read_text()
        assert f"Uid:\t{USER}\t{USER}" in status
        for name in ("CapEff", "CapPrm", "CapBnd"):
            assert f"{name}:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
    finally:
        assert node.finish() == 0, node.printed()
    assert "has stopped" in node.printed()


def test_the_health_check_fails_while_no_node_answers(program: Path, tmp_path: Path) -> None:
    place = place_of(program, PACKAGING / "container", tmp_path)
    status, printed = run_confined(read_stages()["node"].health_check, ENVIRONMENT, place, tmp_path)
    assert status != 0
    assert "Connection refused" in printed


def test_the_command_of_the_node_unit_runs_and_notifies_systemd(program: Path, tmp_path: Path) -> None:
    unit = read_unit("barnabas-node.service")
    assert unit["Type"] == ["notify"]
    (command,) = unit["ExecStart"]
    place = place_of(program, PACKAGING / "systemd", tmp_path)
    place.data_at = f"/var/lib/{unit['StateDirectory'][0]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(place.data / "notify"))
        os.chmod(place.data / "notify", 0o666)
        manager.settimeout(60)
        umask = ["sh", "-c", f'umask {unit["UMask"][0]}; exec "$@"', "sh"]
        environment = {**ENVIRONMENT, "NOTIFY_SOCKET": f"{place.data_at}/notify"}
        node = start_confined([*umask, *command.split()], environment, place, tmp_path)
        try:
            assert manager.recv(100).startswith(b"READY=1")
            assert "created" in client(node, "topics", "create", "orders")
        finally:
            assert node.finish() == 0, node.printed()
        assert manager.recv(100) == b"STOPPING=1"
    written = [path for path in (place.data / "data").rglob("*") if path.is_file()]
    assert written
    assert [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o007] == []


@pytest.mark.long  # The installation of Spark takes half a minute.
def test_the_commands_of_both_workers_serve_their_rest_api(program: Path, worker_program: Path, tmp_path: Path) -> None:
    stage, unit = read_stages()["worker"], read_unit("barnabas-connect.service")
    node_place = place_of(program, PACKAGING / "systemd", tmp_path / "node")
    node = start_confined(read_stages()["node"].command, ENVIRONMENT, node_place, tmp_path / "node")
    try:
        wait_until_ready(node)
        for name, folder, command, data_at in (
            ("container", PACKAGING / "container", stage.command, stage.directory),
            ("unit", PACKAGING / "systemd", unit["ExecStart"][0].split(), f"/var/lib/{unit['StateDirectory'][0]}"),
        ):
            place = place_of(worker_program, folder, tmp_path / name)
            place.data_at = data_at
            worker = start_confined(command, ENVIRONMENT, place, tmp_path / name, network_of=node)
            try:
                deadline = time.monotonic() + 60
                while worker.run_inside(stage.health_check, ENVIRONMENT).returncode:
                    assert worker.process.poll() is None, worker.printed()
                    assert time.monotonic() < deadline, worker.printed()
                    time.sleep(0.2)
            finally:
                assert worker.finish() == 0, worker.printed()
    finally:
        assert node.finish() == 0, node.printed()


@pytest.fixture
def maps(program: Path) -> dict[str, dict[str, str]]:
    """The ConfigMaps that first-start.sh prints."""
    environment = {**os.environ, "PATH": f"{program / 'bin'}:{os.environ['PATH']}"}
    script = str(PACKAGING / "kubernetes" / "first-start.sh")
    printed = subprocess.run(["sh", script, NAMESPACE], env=environment, capture_output=True, text=True, check=True)
    return {document["metadata"]["name"]: document["data"] for document in yaml.safe_load_all(printed.stdout)}


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[Confined]:
    made = make_switch(tmp_path)
    yield made
    made.process.kill()
    made.process.wait(10)


class Cluster:
    """Three pods, each with an address of its own, as the StatefulSet starts them."""

    def __init__(self, program: Path, folder: Path, switch: Confined, maps: dict[str, dict[str, str]]) -> None:
        self.program, self.folder, self.switch, self.maps = program, folder, switch, maps
        self.nodes: dict[str, Confined] = {}
        names = [f"barnabas-{number}" for number in range(3)]
        self.hosts = {
            f"{name}.barnabas-nodes.{NAMESPACE}.svc": f"{TEST_NETWORK}.{10 + at}" for at, name in enumerate(names)
        }

    def start(self, name: str) -> None:
        """Run the pod's init container to its end, then its node."""
        pod = read_pod(name, NAMESPACE, self.maps)
        folder = self.folder / name
        place = place_of(self.program, PACKAGING / "kubernetes", folder, self.hosts)
        environment = {**ENVIRONMENT, **pod.environment}
        status, printed = run_confined(pod.commands["format"], environment, place, folder)
        assert status == 0, printed
        address = self.hosts[f"{name}.barnabas-nodes.{NAMESPACE}.svc"]
        node = pod.commands["node"]
        self.nodes[name] = start_confined(node, environment, place, folder, network_of=self.switch, address=address)

    def client(self, *arguments: str) -> str:
        server = f"barnabas-1.barnabas-nodes.{NAMESPACE}.svc:9092"
        return client(self.nodes["barnabas-1"], *arguments, "--bootstrap-server", server)

    def voters(self) -> list[dict[str, object]]:
        """Return the controllers that vote, with the ids of their directories."""
        described = json.loads(self.client("quorum", "describe", "--output", "json"))
        return [dict(voter) for voter in described["voters"]]

    def stop(self) -> dict[str, int]:
        return {name: node.finish() for name, node in self.nodes.items()}


@pytest.mark.long
def test_three_pods_form_a_cluster_and_one_returns_with_a_new_volume(
    program: Path, tmp_path: Path, switch: Confined, maps: dict[str, dict[str, str]]
) -> None:
    cluster = Cluster(program, tmp_path, switch, maps)
    try:
        for number in range(3):
            cluster.start(f"barnabas-{number}")
        for node in cluster.nodes.values():
            wait_until_ready(node)
        assert "replication factor 3" in cluster.client("topics", "create", "orders", "--partitions", "3")
        before = cluster.voters()
        assert len(before) == 3
        # docs/install.md: after the first start this ConfigMap is deleted. Then a pod loses its volume.
        del cluster.maps["barnabas-first-start"]
        cluster.nodes["barnabas-2"].finish()
        shutil.rmtree(tmp_path / "barnabas-2" / "data")
        cluster.start("barnabas-2")
        deadline = time.monotonic() + 60
        while cluster.voters() == before or len(cluster.voters()) != 3:
            assert time.monotonic() < deadline, cluster.nodes["barnabas-2"].printed()
            time.sleep(0.5)
        wait_until_ready(cluster.nodes["barnabas-2"])
    finally:
        statuses = cluster.stop()
    assert set(statuses.values()) == {0}
