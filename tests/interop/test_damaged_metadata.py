"""One flipped bit in a metadata log: a single node refuses to start, a controller of three repairs it from the
others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.record_batch import iter_batches
from barnabas.storage.lost_promises_file import LOST_PROMISES
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY
from tests.interop.raw_client import RawClient
from tests.peers.command_node import CommandNode
from tests.peers.quorums import ControllerNode, OurController, running_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

SECURE = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ALLOW, DENY = 3, 2


def add_rule(node: CommandNode, topic: str, permission: int) -> None:
    client = RawClient(node.port)
    try:
        rule = AclCreation(
            resource_type=2,
            resource_name=topic,
            resource_pattern_type=3,
            principal="User:alice",
            host="*",
            operation=3,
            permission_type=permission,
        )
        answer = client.call(CreateAclsRequest(creations=[rule]))
        assert [result.error_code for result in answer.results] == [0]
    finally:
        client.close()


def rules(node: CommandNode) -> set[tuple[str, int]]:
    client = RawClient(node.port)
    try:
        request = DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        answer = client.call(request)
        return {(resource.resource_name, acl.permission_type) for resource in answer.resources for acl in resource.acls}
    finally:
        client.close()


def flip_bit_of(path: Path, marker: bytes) -> int:
    """Flip a bit in the batch that holds this text; return its position."""
    data = bytearray(path.read_bytes())
    at = data.index(marker)
    position = next(batch.position for batch in iter_batches(bytes(data)) if batch.position + batch.size > at)
    data[at] ^= 1
    path.write_bytes(data)
    return position


def log_of(folder: Path) -> Path:
    return folder / "data" / METADATA_LOG_DIRECTORY / "00000000000000000000.log"


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_single_node_refuses_to_start_and_repair_lists_the_acl_at_risk(tmp_path: Path, is_killed: bool) -> None:
    node = CommandNode(tmp_path / "node", settings=SECURE)
    node.start()
    for topic, permission in (("public", ALLOW), ("payroll", ALLOW), ("secret", DENY), ("other", ALLOW)):
        add_rule(node, topic, permission)
    node.kill() if is_killed else node.stop()
    path = log_of(node.folder)
    position = flip_bit_of(path, b"payroll")
    before = path.read_bytes()
    with pytest.raises(AssertionError) as refused:
        node.start()
    assert f"the node can't start: {path}: at position {position}: the checksum is wrong; offsets " in str(
        refused.value
    )
    assert "storage repair --accept-loss" in str(refused.value)
    assert "Traceback" not in str(refused.value)
    assert path.read_bytes() == before

    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{node.controller_port}\nlog.dirs={node.folder}/data\n"
    )
    repair = [str(Path(sys.executable).parent / "barnabas"), "storage", "repair", "--config", str(properties)]
    listed = subprocess.run(repair, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    assert listed.returncode == 1, listed.stderr
    assert '"resourceName":"secret"' in listed.stdout
    assert "cannot be read" in listed.stdout
    assert path.read_bytes() == before
    accepted = subprocess.run([*repair, "--accept-loss"], capture_output=True, text=True, check=False, timeout=60)
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    node.start()
    try:
        assert rules(node) == {("public", ALLOW)}
    finally:
        node.stop()


def offset_reached(controller: ControllerNode) -> int:
    data = log_of(controller.folder).read_bytes()
    return sum(1 for _ in iter_batches(data))


def test_a_controller_fetches_lost_records_from_the_others_before_it_votes(tmp_path: Path) -> None:
    with running_quorum(tmp_path, [OurController] * 3) as quorum:
        first, damaged, third = quorum.controllers
        wait_until(lambda: offset_reached(damaged) > 6, what="some records")
        damaged.kill()
        path = log_of(damaged.folder)
        data = bytearray(path.read_bytes())
        positions = [batch.position for batch in iter_batches(bytes(data))]
        data[positions[2] + 63] ^= 1
        path.write_bytes(data)
        damaged.launch()
        wait_until(lambda: "has all records again that it had acknowledged" in damaged.printed(), what="the recovery")
        printed = damaged.printed()
        assert f"{path}: at position {positions[2]}: the checksum is wrong" in printed
        assert "This node does not vote until it holds again what it acknowledged" in printed
        assert Path(f"{path}.damaged").exists()
        wait_until(lambda: not (path.parent / LOST_PROMISES).exists(), what="forgetting the loss")
        sound = log_of(first.folder).read_bytes()
        assert path.read_bytes()[: len(sound)] == sound[: path.stat().st_size]

        # Its vote counts again: without it, the two others have no majority after this kill.
        third.kill()
        before = offset_reached(damaged)
        wait_until(lambda: offset_reached(damaged) > before + 2, what="new records")


def test_a_damaged_controller_and_a_single_sound_one_elect_no_leader(tmp_path: Path) -> None:
    with running_quorum(tmp_path, [OurController] * 3) as quorum:
        first, damaged, third = quorum.controllers
        wait_until(lambda: offset_reached(damaged) > 6, what="some records")
        for controller in quorum.controllers:
            controller.kill()
        path = log_of(damaged.folder)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        before = offset_reached(first)
        first.launch()
        damaged.launch()
        wait_until(lambda: "does not vote until" in damaged.printed(), what="the refusal to vote")
        with pytest.raises(AssertionError):
            wait_until(lambda: offset_reached(first) > before, what="a leader", timeout_s=6)
        third.launch()
        wait_until(lambda: offset_reached(first) > before, what="a leader")
        wait_until(lambda: "has all records again that it had acknowledged" in damaged.printed(), what="the recovery")


def test_a_controller_without_its_quorum_state_asks_the_others_for_their_epochs(tmp_path: Path) -> None:
    with running_quorum(tmp_path, [OurController] * 3) as quorum:
        forgetful = quorum.controllers[1]
        wait_until(lambda: offset_reached(forgetful) > 6, what="some records")
        forgetful.kill()
        (forgetful.folder / "data" / METADATA_LOG_DIRECTORY / "quorum-state").write_bytes(b"")
        forgetful.launch()
        wait_until(lambda: "has all records again that it had acknowledged" in forgetful.printed(), what="the recovery")
        assert "quorum-state: not a quorum state" in forgetful.printed()
