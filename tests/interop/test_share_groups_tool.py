"""kafka-share-groups.sh shows and changes share groups of our node as those of Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, run_class
from tests.peers.command_node import CommandNode
from tests.peers.kinds import KAFKA, run_on_each_kind
from tests.peers.node_process import NodeProcess
from tests.peers.quorums import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    # The member stays without heartbeats.
    "group.share.max.session.timeout.ms": "600000",
    "group.share.session.timeout.ms": "600000",
    "share.coordinator.state.topic.num.partitions": "4",
}

WHILE_A_MEMBER_WORKS = {
    "--list": "workers",
    "--list --state": "GROUP STATE | workers Stable",
    "--list --state Empty": "GROUP STATE",
    "--describe --group workers": (
        "GROUP TOPIC PARTITION START-OFFSET LAG | workers jobs 0 - - | workers jobs 1 - - | workers other 0 - -"
    ),
    "--describe --group workers --members --verbose": (
        "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS MEMBER-EPOCH ASSIGNMENT"
        f" | workers {MEMBER} /127.0.0.1 raw 3 3 jobs:0,1;other:0"
    ),
    "--describe --group workers --state --verbose": (
        "GROUP COORDINATOR (ID) STATE GROUP-EPOCH ASSIGNMENT-EPOCH #MEMBERS | workers NODE (1) Stable 3 3 1"
    ),
    "--reset-offsets --group workers --topic jobs --to-earliest --execute": "Share group 'workers' is not empty.",
    "--delete-offsets --group workers --topic jobs": (
        "Error: The group is not empty. | TOPIC STATUS | jobs Error: The group is not empty."
    ),
    "--delete --group workers": (
        "Error: Deletion of some share groups failed: | * Group 'workers' could not be deleted due to:"
        " org.apache.kafka.common.errors.GroupNotEmptyException: Share group 'workers' is not EMPTY."
    ),
}
AFTER_IT_HAS_LEFT = {
    "--describe --group workers --state": "GROUP COORDINATOR (ID) STATE #MEMBERS | workers NODE (1) Empty 0",
    "--reset-offsets --group workers --topic jobs --to-earliest --dry-run": (
        "GROUP TOPIC PARTITION NEW-OFFSET | workers jobs 0 0 | workers jobs 1 0"
    ),
    "--reset-offsets --group workers --topic jobs:1 --to-latest --execute": (
        "GROUP TOPIC PARTITION NEW-OFFSET | workers jobs 1 10"
    ),
    "--reset-offsets --group workers --topic jobs --to-datetime 1970-01-01T00:00:05.000 --execute": (
        "GROUP TOPIC PARTITION NEW-OFFSET | workers jobs 0 2 | workers jobs 1 2"
    ),
    "--describe --group workers --offsets --verbose": (
        "GROUP TOPIC PARTITION LEADER-EPOCH START-OFFSET LAG"
        " | workers jobs 0 0 2 8 | workers jobs 1 0 2 8 | workers other 0 - - -"
    ),
    "--reset-offsets --group workers --all-topics --to-latest --execute": (
        "GROUP TOPIC PARTITION NEW-OFFSET | workers other 0 0 | workers jobs 0 10 | workers jobs 1 10"
    ),
    "--reset-offsets --group fresh --topic jobs --to-earliest --execute": (
        "GROUP TOPIC PARTITION NEW-OFFSET | fresh jobs 0 0 | fresh jobs 1 0"
    ),
    "--reset-offsets --group workers --topic missing --to-earliest --execute": (
        "Error: Executing share group command failed due to This server does not host this topic-partition."
    ),
    "--delete-offsets --group workers --topic jobs --topic missing": (
        "TOPIC STATUS | jobs Successful | missing Error: This server does not host this topic-partition."
    ),
    "--describe --group workers --offsets": "GROUP TOPIC PARTITION START-OFFSET LAG | workers other 0 0 0",
    "--delete --group workers --group nobody": (
        "Error: Deletion of some share groups failed: | * Group 'nobody' could not be deleted due to:"
        " java.lang.IllegalArgumentException: Group 'nobody' is not a share group."
        " | These share groups were deleted successfully: 'workers'"
    ),
    "--describe --group workers --verbose": (
        "Error: Executing share group command failed due to"
        " org.apache.kafka.common.errors.GroupIdNotFoundException: Group workers not found."
    ),
    "--list": "fresh",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "node")


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    kind = KafkaNode if request.param == KAFKA else CommandNode
    node: NodeProcess = kind(tmp_path_factory.mktemp("tool"), settings=SETTINGS)
    node.start()
    yield node
    node.stop()
    if request.param != KAFKA:
        assert "Traceback" not in node.printed()


def fill(node: NodeProcess) -> None:
    server = f"127.0.0.1:{node.port}"
    with SyncAdminClient(server) as admin:
        admin.create_topics([NewTopic("jobs", partitions=2), NewTopic("other", partitions=1)], wait=True)
    producer = Producer({"bootstrap.servers": server})
    for number in range(20):
        producer.produce("jobs", f"{number}", partition=number % 2, timestamp=1000 * (number + 1))
    assert producer.flush(20) == 0


def beat(client: RawClient, epoch: int, topics: list[str] | None = None) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id="workers", member_id=MEMBER, member_epoch=epoch, subscribed_topic_names=topics
    )
    answers: list[Any] = []

    def is_answered() -> bool:
        answers.append(client.call(request))
        return bool(answers[-1].error_code == 0)

    wait_until(is_answered, what="a heartbeat", timeout_s=60)
    return answers[-1]


def join(client: RawClient) -> None:
    """Return when the member has all partitions."""
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["workers"])
    wait_until(lambda: client.call(find).coordinators[0].error_code == 0, what="a coordinator", timeout_s=60)
    epochs = [beat(client, 0, ["jobs", "other"]).member_epoch]

    def has_all() -> bool:
        answer = beat(client, epochs[-1])
        epochs.append(answer.member_epoch)
        return answer.assignment is not None and len(answer.assignment.topic_partitions) == 2

    wait_until(has_all, what="the assignment", timeout_s=60)


def shown(node: NodeProcess, command: str) -> str:
    """Return the lines that the tool prints, or else the first one of its errors."""
    server = f"127.0.0.1:{node.port}"
    done = run_class("groups-share", "--bootstrap-server", server, *command.split(), check=False)
    printed = done.stdout if done.stdout.strip() else done.stderr.splitlines()[0]
    lines = (" ".join(line.replace(server, "NODE").split()) for line in printed.splitlines())
    return " | ".join(line for line in lines if line)


def test_the_tool_shows_and_changes_groups(node: NodeProcess) -> None:
    fill(node)
    with closing(RawClient(node.port)) as client:
        join(client)
        assert {command: shown(node, command) for command in WHILE_A_MEMBER_WORKS} == WHILE_A_MEMBER_WORKS
        beat(client, -1)
    assert {command: shown(node, command) for command in AFTER_IT_HAS_LEFT} == AFTER_IT_HAS_LEFT
