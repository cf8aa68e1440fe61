"""Controllers and brokers of either side in processes of their own, and requests to them.

All users are super users, on nodes that decide by ACLs. Kafka's nodes have the options of its own start script, with a
heap of at most 1 GiB, as there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponsePartitionData,
)
from bench.sides import KAFKA_JVM
from tests.interop.raw_client import RawClient
from tests.peers import kafka_command
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import ControllerNode, OurController, Quorum, RealController, new_quorum, wait_until

__all__ = ["acl", "active_controller", "broker_of", "quorum_of", "wait_for_change", "wait_until_followed"]

_JVM = ("-Xmx1g", *KAFKA_JVM)
_SETTINGS: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_POLL_S = 0.005
_ANSWER_S = 2
_CHANGE_S = 60
_METADATA = [
    DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
]


class _KafkaController(RealController):
    def command(self) -> list[str]:
        return kafka_command("node", str(self.properties), jvm=_JVM)


def quorum_of(side: str, folder: Path, voters: int, settings: Mapping[str, str] | None = None) -> Quorum:
    """Formatted and not started."""
    kind = _KafkaController if side == "kafka" else OurController
    return new_quorum(folder, [kind] * voters, settings={**_SETTINGS, **(settings or {})})


def broker_of(
    side: str, folder: Path, quorum: Quorum, broker_id: int = 1, settings: Mapping[str, str] | None = None
) -> RealBroker | OurBroker:
    """Not started; its first start formats its folder."""
    servers, cluster_id, all_settings = quorum.servers, quorum.cluster_id, {**_SETTINGS, **(settings or {})}
    if side == "kafka":
        return RealBroker(
            folder, broker_id, controllers=servers, cluster_id=cluster_id, settings=all_settings, jvm=_JVM
        )
    return OurBroker(folder, broker_id, controllers=servers, cluster_id=cluster_id, settings=all_settings)


def acl(principal: str, number: int) -> AclCreation:
    """Another one for each number."""
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=f"quorum-{number:06}",
        resource_pattern_type=PatternType.LITERAL,
        principal=f"User:{principal}",
        host="*",
        operation=AclOperation.READ,
        permission_type=AclPermissionType.ALLOW,
    )


def wait_for_change(quorum: Quorum, principal: str) -> float:
    """Ask each controller for a new ACL until one has committed it; the moment of its answer (``perf_counter``).

    All are asked at the same time, because one that is still starting may accept a request and answer late.
    """
    answered: list[float] = []
    is_over = threading.Event()
    threads = [
        threading.Thread(target=_ask_until_changed, args=(each.controller_port, principal, answered, is_over))
        for each in quorum.controllers
    ]
    for thread in threads:
        thread.start()
    is_over.wait(_CHANGE_S)
    is_over.set()
    for thread in threads:
        thread.join()
    if not answered:
        printed = "\n".join(each.printed()[-1000:] for each in quorum.controllers)
        raise AssertionError(f"no controller became active in {_CHANGE_S} s:\n{printed}")
    return min(answered)


def _ask_until_changed(port: int, principal: str, answered: list[float], is_over: threading.Event) -> None:
    request = CreateAclsRequest(creations=[acl(principal, 0)])
    client: RawClient | None = None
    while not is_over.is_set():
        try:
            client = client or RawClient(port, timeout_s=_ANSWER_S)
            if client.call(request).results[0].error_code == 0:
                answered.append(time.perf_counter())
                is_over.set()
                break
        except OSError:
            if client is not None:
                client.close()
            client = None
        is_over.wait(_POLL_S)
    if client is not None:
        client.close()


def active_controller(quorum: Quorum) -> ControllerNode:
    """The leader, as soon as a running controller names one that runs."""
    found: list[ControllerNode] = []

    def is_elected() -> bool:
        for asked in quorum.controllers:
            state = _quorum_state(asked) if asked.is_running else None
            leader_id = -1 if state is None or state.error_code else state.leader_id
            found.extend(each for each in quorum.controllers if each.node_id == leader_id and each.is_running)
            if found:
                return True
        return False

    wait_until(is_elected, what="an election", timeout_s=_CHANGE_S)
    return found[0]


def wait_until_followed(quorum: Quorum) -> None:
    """Until every voter has what is committed."""

    def has_followers() -> bool:
        state = _quorum_state(active_controller(quorum))
        return (
            state is not None
            and not state.error_code
            and len(state.current_voters) == len(quorum.controllers)
            and all(voter.log_end_offset >= state.high_watermark for voter in state.current_voters)
        )

    wait_until(has_followers, what="that all voters follow", timeout_s=_CHANGE_S)


def _quorum_state(controller: ControllerNode) -> DescribeQuorumResponsePartitionData | None:
    try:
        client = RawClient(controller.controller_port, timeout_s=_ANSWER_S)
        try:
            answer = client.call(DescribeQuorumRequest(topics=_METADATA))
        finally:
            client.close()
    except OSError:
        return None
    if answer.error_code or not answer.topics:
        return None
    state: DescribeQuorumResponsePartitionData = answer.topics[0].partitions[0]
    return state
