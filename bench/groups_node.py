"""The node of a benchmark of groups: its settings, its topics, and the CPU that it and the load have used."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from barnabas.common.config_codes import AlterConfigOpType, ConfigResourceType
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from bench.sides import Node, make_node, usage_of
from tests.interop.raw_client import RawClient

__all__ = ["Figures", "GroupsNode", "running_node"]

Figures = dict[str, float]

_SETTLE_S = 2.0
_LIMIT_S = 60.0
_SESSION_MS = "600000"
_INTERVAL_MS = "500"
_SETTINGS = {
    "group.share.max.size": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
    **{
        f"group.{kind}.{name}": value
        for kind in ("consumer", "share", "streams")
        for name, value in (
            ("min.heartbeat.interval.ms", _INTERVAL_MS),
            ("heartbeat.interval.ms", _INTERVAL_MS),
            ("max.session.timeout.ms", _SESSION_MS),
            ("session.timeout.ms", _SESSION_MS),
        )
    },
}


class GroupsNode:
    """A node that runs, and knows where its groups are coordinated: here."""

    def __init__(self, node: Node) -> None:
        self.port = node.port
        self.pid = node.pid
        self.bootstrap_servers = node.bootstrap_servers
        self._client = RawClient(node.port, timeout_s=_LIMIT_S)
        _until(lambda: not self._client.call(FindCoordinatorRequest(coordinator_keys=["g"])).coordinators[0].error_code)

    def create(self, name: str, partitions: int) -> Uuid:
        """Return the id of a new topic, all of whose partitions have a leader."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        (result,) = self._client.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000)).topics
        assert not result.error_code, result
        _until(lambda: self._led_partitions(name) == partitions)
        topic_id: Uuid = result.topic_id
        return topic_id

    def _led_partitions(self, name: str) -> int:
        (topic,) = self._client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
        return sum(partition.leader_id >= 0 for partition in topic.partitions)

    def configure_group(self, group: str, name: str, value: str) -> None:
        setting = AlterableConfig(name=name, config_operation=AlterConfigOpType.SET, value=value)
        resource = AlterConfigsResource(resource_type=ConfigResourceType.GROUP, resource_name=group, configs=[setting])
        (answer,) = self._client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert not answer.error_code, answer

    @property
    def cpu_s(self) -> float:
        return usage_of(self.pid).cpu_s

    def close(self) -> None:
        self._client.close()


@contextmanager
def running_node(side: str) -> Iterator[GroupsNode]:
    """Run a new node during a ``with`` block."""
    folder = Path(tempfile.mkdtemp(prefix="barnabas-bench-"))
    node = make_node(side, folder / "node", settings=_SETTINGS)
    node.start()
    try:
        running = GroupsNode(node)
        time.sleep(_SETTLE_S)
        yield running
        running.close()
    finally:
        node.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"still not after {_LIMIT_S:g} s"
        time.sleep(0.05)
