"""The leaders of one topic's partitions, requested from any node that answers, without creating the topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from barnabas.clients.admin.routing import Connection, Network

__all__ = ["NO_LEADER", "TopicMetadata", "TopicMetadataSource"]

NO_LEADER = -1
_CAN_REFUSE_CREATION = 4
_RETRIABLE = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE})


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """``topic_id`` is zero when the cluster has none. A partition without a leader has ``NO_LEADER``."""

    name: str
    topic_id: Uuid
    leaders: Mapping[int, int]
    epochs: Mapping[int, int]
    nodes: Mapping[int, Address]

    @property
    def partitions(self) -> list[int]:
        return sorted(self.leaders)

    def address_of(self, partition: int) -> Address | None:
        """Return the leader's address; None while it is unknown."""
        return self.nodes.get(self.leaders.get(partition, NO_LEADER))


class TopicMetadataSource:
    """Requests metadata from a bootstrap server; when none answers, from the nodes that it returned."""

    def __init__(self, network: Network, topic: str) -> None:
        self.topic = topic
        self._network = network
        self._nodes: dict[int, Address] = {}

    async def load(self) -> TopicMetadata:
        """Read the metadata. Raise AdminError for a missing or invisible topic, ClientError without an answer."""
        try:
            return await self._ask(await self._network.connect())
        except ClientError as failure:
            if not isinstance(failure, Transient):
                raise
            for address in list(self._nodes.values()):
                try:
                    return await self._ask(await self._network.connection_to(address))
                except ClientError as error:
                    if not isinstance(error, Transient):
                        raise
            raise

    async def _ask(self, connection: Connection) -> TopicMetadata:
        version = connection.version_of(MetadataRequest.API_KEY)
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=version < _CAN_REFUSE_CREATION
        )
        response = await connection.request(request, version=version)
        self._nodes = {node.node_id: Address(node.host, node.port) for node in response.brokers}
        (topic,) = response.topics
        if topic.error_code and not (topic.error_code in _RETRIABLE and topic.partitions):
            raise admin_error(topic.error_code, None, self.topic)
        return _metadata(self.topic, topic, self._nodes)


def _metadata(name: str, topic: Any, nodes: Mapping[int, Address]) -> TopicMetadata:
    if not topic.partitions:
        raise AdminError(ErrorCode.LEADER_NOT_AVAILABLE, "the topic has no partitions yet", name)
    return TopicMetadata(
        name,
        topic.topic_id,
        {partition.partition_index: partition.leader_id for partition in topic.partitions},
        {partition.partition_index: partition.leader_epoch for partition in topic.partitions},
        dict(nodes),
    )
