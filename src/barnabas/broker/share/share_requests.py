"""What ShareFetch and ShareAcknowledge have in common: the checks of a request, and the current leaders in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.share.share_session import SessionKey
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.share.share_session import TopicIdPartition
    from barnabas.network.api_handler import Access

__all__ = ["Leader", "Leaders", "checked_key"]

_MEMBER_ID_MAX = 36


def checked_key(broker: Broker, access: Access, group_id: str | None, member_id: str | None) -> SessionKey:
    """Return the group and member of a request. Raise ApiException if they may not use share groups."""
    if not broker.share_partitions.is_enabled:
        raise ApiException(ErrorCode.UNSUPPORTED_VERSION, "Share groups are disabled: share.version is 0")
    if group_id is None:
        raise ApiException(ErrorCode.INVALID_REQUEST, "The request has no group id")
    if not access.allows(ResourceType.GROUP, AclOperation.READ, group_id):
        raise access.denied(AclOperation.READ, ResourceType.GROUP, group_id)
    if not member_id or len(member_id) > _MEMBER_ID_MAX:
        raise ApiException(ErrorCode.INVALID_REQUEST, f"A member id has 1 to {_MEMBER_ID_MAX} characters")
    return SessionKey(group_id, member_id)


class Leader(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class Leaders:
    """The leaders of partitions that this broker does not lead (KIP-951). ``nodes`` collects their addresses."""

    __slots__ = ("_broker", "_listener_name", "nodes")

    def __init__(self, broker: Broker, listener_name: str) -> None:
        self._broker = broker
        self._listener_name = listener_name
        self.nodes: dict[int, Leader] = {}

    def of(self, partition: TopicIdPartition, error: int) -> tuple[int, int] | None:
        """Return (leader id, leader epoch) if the error means that another broker leads, and it is known."""
        if error not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            return None
        metadata = self._broker.metadata
        registration = metadata.image.topics.partition(partition.topic_id, partition.partition)
        if registration is None or registration.leader < 0:
            return None
        endpoint = metadata.endpoint(registration.leader, self._listener_name)
        if endpoint is not None:
            rack = metadata.image.cluster.brokers[registration.leader].rack
            self.nodes[registration.leader] = Leader(registration.leader, endpoint.host, endpoint.port, rack)
        return registration.leader, registration.leader_epoch
