"""``barnabas export``, ``plan`` and ``apply`` on a real Kafka and on our node: the same tests on both."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from barnabas.access.plan import Step
from barnabas.cli.desired_state import apply, export, plan
from barnabas.cli.desired_state import cluster as desired_state_cluster
from barnabas.cli.output.exit_status import INTERRUPTED
from barnabas.clients.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOp,
    ClientQuotaEntity,
    ConfigResource,
    NewTopic,
    PatternType,
    ResourceType,
    ScramMechanism,
    ScramUpsertion,
)
from barnabas.testing import Node
from tests.peers import KAFKA_VERSION, LAST_3_X, KafkaNode
from tests.peers.kinds import BARNABAS, OLD_KAFKA, run_on_each_kind

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.usefixtures("kafka_peer")]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

MOST_RUNS = 100
"""A file has about twenty steps, and each run on a broker that is behind repeats one of them."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "node")


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | KafkaNode]:
    with _running(request.param, tmp_path_factory.mktemp(request.param)) as node:
        asyncio.run(furnish(node.bootstrap_servers, has_groups=request.param != OLD_KAFKA))
        yield node


@contextmanager
def _running(kind: str, folder: Path) -> Iterator[Node | KafkaNode]:
    if kind == BARNABAS:
        with Node(settings=SETTINGS) as ours:
            yield ours
        return
    kafka = KafkaNode(folder, settings=SETTINGS, version=LAST_3_X if kind == OLD_KAFKA else KAFKA_VERSION)
    kafka.start(timeout_s=120)
    try:
        yield kafka
    finally:
        kafka.stop()


async def furnish(bootstrap: str, *, has_groups: bool) -> None:
    """The state of a manually operated cluster; group settings exist since Kafka 4."""
    async with AdminClient(bootstrap) as admin:
        topics = [NewTopic(f"t{number}", 1 + number % 3, 1, {"retention.ms": "5000"}) for number in range(20)]
        (await admin.create_topics(topics)).raise_for_errors()
        rules = [
            AclBinding(
                ResourceType.TOPIC if number % 2 else ResourceType.GROUP,
                f"t{number}",
                PatternType.PREFIXED if number % 3 else PatternType.LITERAL,
                f"User:u{number % 5}",
                "*" if number % 4 else "10.0.0.1",
                AclOperation.READ,
                AclPermissionType.DENY if number % 7 == 0 else AclPermissionType.ALLOW,
            )
            for number in range(30)
        ]
        (await admin.create_acls(rules)).raise_for_errors()
        users = [ScramUpsertion(f"u{number}", ScramMechanism.SCRAM_SHA_256, "pw", 4096) for number in range(4)]
        (await admin.alter_user_scram_credentials(users)).raise_for_errors()
        quotas = {ClientQuotaEntity.of({"user": f"u{number}"}): {"producer_byte_rate": 1000.0} for number in range(4)}
        quotas[ClientQuotaEntity.of({"user": None, "client-id": "app"})] = {"request_percentage": 12.5}
        (await admin.alter_client_quotas(quotas)).raise_for_errors()
        settings = {ConfigResource.broker(): [AlterConfigOp.set("log.retention.ms", "86400000")]}
        if has_groups:
            settings[ConfigResource.group("g1")] = [AlterConfigOp.set("consumer.session.timeout.ms", "50000")]
        (await admin.incremental_alter_configs(settings, wait=True)).raise_for_errors()


def exported(node: Node | KafkaNode, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert export.main(["--bootstrap-server", node.bootstrap_servers]) == 0
    return dict(yaml.safe_load(capsys.readouterr().out))


def changed(document: dict[str, Any]) -> dict[str, Any]:
    """About 50 resources are new, changed or deleted."""
    new: dict[str, Any] = yaml.safe_load(yaml.safe_dump(document))
    for number in range(8):
        new["topics"][f"new{number}"] = {"partitions": 1, "replication-factor": 1, "configs": {"flush.ms": 9}}
        new["topics"][f"t{number}"]["configs"] = {"retention.ms": 7000 + number, "cleanup.policy": "compact"}
    for number in range(8, 12):
        del new["topics"][f"t{number}"]
        new["topics"][f"t{number + 4}"]["partitions"] = 5
    new["acls"] = new["acls"][3:]
    for number in range(8):
        new["acls"].append(
            {"principal": f"User:new{number}", "operations": ["Read", "Write"], "resources": [f"Topic:new{number}"]}
        )
    new["acls"].append({"principal": "User:new1", "permission": "deny", "operations": "All", "resources": "Topic:new*"})
    new["users"]["new"] = {"SCRAM-SHA-512": {"iterations": 8192, "password": "${env:NEW_PASSWORD}"}}
    new["users"]["u1"]["SCRAM-SHA-256"] = {"iterations": 5000, "password": "${env:NEW_PASSWORD}"}
    del new["users"]["u0"]
    new["quotas"] = [quota for quota in new["quotas"] if quota["entity"] != {"user": "u0"}]
    new["quotas"].append({"entity": {"user": "new"}, "limits": {"consumer_byte_rate": 5000}})
    new["configs"]["broker-defaults"]["log.retention.ms"] = "76400000"
    if "group:g1" in new["configs"]:
        new["configs"]["group:g1"]["consumer.session.timeout.ms"] = "55000"
    return new


def with_passwords(document: dict[str, Any]) -> dict[str, Any]:
    """Returning to an export needs passwords: a deleted user is then new."""
    for mechanisms in document["users"].values():
        for credential in mechanisms.values():
            credential["password"] = "${env:NEW_PASSWORD}"
    return document


class Files:
    """Two states and the change from one to the other."""

    def __init__(self, node: Node | KafkaNode, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.at = ["--bootstrap-server", node.bootstrap_servers]
        self.capsys = capsys
        self.old, self.new = str(folder / "old.yaml"), str(folder / "new.yaml")
        before = with_passwords(exported(node, capsys))
        self.document = changed(before)
        Path(self.old).write_text(yaml.safe_dump(before))
        Path(self.new).write_text(yaml.safe_dump(self.document))

    def is_as(self, file: str) -> bool:
        return plan.main([file, "--allow-delete", *self.at]) == 0

    def apply(self, file: str) -> None:
        assert apply.main([file, "--allow-delete", *self.at]) == 0
        self.wait_until_as(file)

    def wait_until_as(self, file: str) -> None:
        """A broker shows a change a moment after the controller commits it."""
        deadline = time.monotonic() + 20
        while not self.is_as(file):
            printed = "".join(self.capsys.readouterr())
            assert time.monotonic() < deadline, f"the cluster did not become what was applied: {printed}"
            time.sleep(0.2)


@pytest.fixture
def files(
    node: Node | KafkaNode, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Files]:
    monkeypatch.setenv("NEW_PASSWORD", "a new secret")
    found = Files(node, tmp_path, capsys)
    yield found
    # Partitions are never removed, so topics that grew are deleted before they are created again.
    asyncio.run(remove_grown(node.bootstrap_servers))
    found.apply(found.old)


async def remove_grown(bootstrap: str) -> None:
    async with AdminClient(bootstrap) as admin:
        await admin.delete_topics([f"t{number}" for number in range(12, 16)], wait=True)


@pytest.mark.kafka_3("always")
def test_an_export_after_apply_equals_the_applied_file(
    node: Node | KafkaNode, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files.is_as(files.old)
    assert plan.main([files.new, "--allow-delete", *files.at, "-o", "json"]) == 3
    capsys.readouterr()
    assert apply.main([files.new, "--allow-delete", "--dry-run", *files.at]) == 0
    assert apply.main([files.new, "--allow-delete", "--forbid-new-access", *files.at]) == 3
    assert files.is_as(files.old)
    files.apply(files.new)
    capsys.readouterr()
    again = exported(node, capsys)
    assert set(again["topics"]) == set(files.document["topics"])
    assert again["configs"] == files.document["configs"]
    assert again["quotas"] == sorted(files.document["quotas"], key=again["quotas"].index)
    assert "a new secret" not in yaml.safe_dump(again)


def test_apply_resumes_after_an_interruption_at_any_step(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run is interrupted after the cluster has completed one more step and before the run reports it."""
    apply_step = desired_state_cluster.apply_step
    made: list[Step] = []

    async def apply_and_die(admin: Any, step: Step, passwords: Any, **more: Any) -> Any:
        await apply_step(admin, step, passwords)
        made.append(step)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(desired_state_cluster, "apply_step", apply_and_die)
        for _ in range(MOST_RUNS):
            count = len(made)
            try:
                status = apply.main([files.new, "--allow-delete", *files.at])
            except KeyboardInterrupt:
                status = INTERRUPTED  # The exit status of the barnabas command.
            assert (status, len(made)) in ((0, count), (INTERRUPTED, count + 1))
            if status == 0:
                break  # No steps remained.
            time.sleep(0.5)  # A broker that is behind may make the next run repeat the step, which is allowed.
    assert len({step.kind for step in made}) >= 8
    files.wait_until_as(files.new)


@pytest.mark.parametrize("after_s", [0.3, 0.6, 0.9, 1.2])
def test_apply_resumes_after_a_kill(files: Files, after_s: float) -> None:
    command = [str(Path(sys.executable).parent / "barnabas"), "apply", files.new, "--allow-delete", *files.at]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    files.apply(files.new)
