"""The leaders of the partitions of topics, requested from any node that answers, without creating the topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError, UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from barnabas.clients.admin.routing import Connection, Network

__all__ = ["NO_LEADER", "TopicMetadata", "TopicMetadataSource", "TopicsMetadataSource"]

NO_LEADER = -1
_CAN_REFUSE_CREATION = 4
_HAS_TOPIC_IDS = 12
"""The first version that finds topics by id: Kafka 3.1."""
_ABSENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
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


class _MetadataClient:
    """Sends requests to a bootstrap server; when none answers, to the nodes that it returned."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._nodes: dict[int, Address] = {}

    async def topics(self, wanted: Sequence[MetadataRequestTopic], *, at_least: int = 0) -> list[Any]:
        """Return the answers about the topics. Raise ClientError."""
        try:
            return await self._ask(await self._network.connect(), wanted, at_least)
        except ClientError as failure:
            if not isinstance(failure, Transient):
                raise
            for address in list(self._nodes.values()):
                try:
                    return await self._ask(await self._network.connection_to(address), wanted, at_least)
                except ClientError as error:
                    if not isinstance(error, Transient):
                        raise
            raise

    async def _ask(self, connection: Connection, wanted: Sequence[MetadataRequestTopic], at_least: int) -> list[Any]:
        version = connection.version_of(MetadataRequest.API_KEY)
        if version < at_least:
            raise UnsupportedVersion(f"the node at {connection.address} does not find topics by id: it needs Kafka 3.1")
        request = MetadataRequest(topics=list(wanted), allow_auto_topic_creation=version < _CAN_REFUSE_CREATION)
        response = await connection.request(request, version=version)
        self._nodes = {node.node_id: Address(node.host, node.port) for node in response.brokers}
        return list(response.topics)

    def metadata(self, name: str, topic: Any) -> TopicMetadata:
        """Raise AdminError for the error of a topic."""
        if topic.error_code and not (topic.error_code in _RETRIABLE and topic.partitions):
            raise admin_error(topic.error_code, None, name)
        if not topic.partitions:
            raise AdminError(ErrorCode.LEADER_NOT_AVAILABLE, "the topic has no partitions yet", name)
        return TopicMetadata(
            name,
            topic.topic_id,
            {partition.partition_index: partition.leader_id for partition in topic.partitions},
            {partition.partition_index: partition.leader_epoch for partition in topic.partitions},
            dict(self._nodes),
        )


class TopicMetadataSource:
    """The metadata of one topic."""

    def __init__(self, network: Network, topic: str) -> None:
        self.topic = topic
        self._client = _MetadataClient(network)

    async def load(self) -> TopicMetadata:
        """Read the metadata. Raise AdminError for a missing or invisible topic, ClientError without an answer."""
        (topic,) = await self._client.topics([MetadataRequestTopic(name=self.topic)])
        return self._client.metadata(self.topic, topic)

    async def leaders(self) -> dict[str, TopicMetadata]:
        """Like ``load``, for a fetcher."""
        return {self.topic: await self.load()}


class TopicsMetadataSource:
    """The metadata of several topics. A topic that does not exist, or that the caller may not see, is left out."""

    def __init__(self, network: Network, topics: Iterable[str] = ()) -> None:
        self.topics = set(topics)
        self._client = _MetadataClient(network)

    async def leaders(self) -> dict[str, TopicMetadata]:
        """Read the metadata of ``topics``. Raise AdminError for another error of a topic, ClientError."""
        if not self.topics:
            return {}
        found = await self._client.topics([MetadataRequestTopic(name=name) for name in sorted(self.topics)])
        return {
            topic.name: self._client.metadata(topic.name, topic)
            for topic in found
            if topic.error_code not in _ABSENT and (topic.partitions or topic.error_code)
        }

    async def names(self, topic_ids: Iterable[Uuid]) -> dict[Uuid, str]:
        """Return the names of topics by their ids; those of unknown or invisible topics are left out."""
        wanted = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
        found = await self._client.topics(wanted, at_least=_HAS_TOPIC_IDS) if wanted else []
        return {topic.topic_id: topic.name for topic in found if topic.name and not topic.error_code}
