"""A member of a consumer group, in either protocol, and the choice of the protocol.

Without ``group.protocol`` a member speaks what its group speaks: it joins the members of a classic group as one of
them, and so never converts their group. A group that is new or has no members has the consumer protocol, if the
cluster does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas.clients.consumer.classic_member import ClassicMember
from barnabas.clients.consumer.config import CLASSIC, CONSUMER
from barnabas.clients.consumer.consumer_member import ConsumerMember
from barnabas.clients.consumer.group_coordinator import GroupCoordinator
from barnabas.clients.errors import UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest

if TYPE_CHECKING:
    import asyncio

    from barnabas.clients.consumer.config import GroupConfig
    from barnabas.clients.consumer.rebalance_listener import RebalanceListener
    from barnabas.clients.membership.consumer_membership import Subscription
    from barnabas.clients.network_client import NetworkClient

__all__ = ["GroupMember", "group_member"]

_GROUP_VERSION = "group.version"


class GroupMember(Protocol):
    """``start`` joins, ``leave`` leaves. A listener receives the partitions."""

    ended: asyncio.Event
    failure: Exception | None
    """Why the member can't continue: an AdminError, a ClientError, or an exception of the listener."""

    def start(self) -> None: ...

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets; partitions without one are left out. Raise AdminError, ClientError."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit the next offset to read of each partition. Return False if the group has removed the member.

        Raise AdminError, ClientError.
        """

    async def leave(self) -> None:
        """Leave the group, so that others get the partitions immediately. The listener is not called any more.

        The caller has given up its partitions. A static member keeps them for its return, until its session ends. A
        coordinator that can't be reached notices later.
        """


async def group_member(
    network: NetworkClient,
    group_id: str,
    subscription: Subscription,
    config: GroupConfig,
    listener: RebalanceListener,
    *,
    member_id: str,
) -> GroupMember:
    """Create a member that speaks ``group.protocol``. ``member_id`` is its id in the consumer protocol.

    Raise AdminError or ClientError if the coordinator can't be reached, UnsupportedVersion for a regular expression in
    the classic protocol.
    """
    coordinator = GroupCoordinator(network, group_id)
    protocol = config.protocol or await _spoken_protocol(coordinator, has_pattern=subscription.pattern is not None)
    if protocol == CONSUMER:
        return ConsumerMember(network, coordinator, subscription, config, listener, member_id=member_id)
    if subscription.pattern is not None:
        raise UnsupportedVersion("only the consumer protocol (group.protocol=consumer) has regular expressions")
    return ClassicMember(network, coordinator, subscription.topics, config, listener)


async def _spoken_protocol(coordinator: GroupCoordinator, *, has_pattern: bool) -> str:
    connection = await coordinator.connected()
    if has_pattern:
        return CONSUMER
    if ApiKey.CONSUMER_GROUP_DESCRIBE not in connection.versions or not connection.features.get(_GROUP_VERSION):
        return CLASSIC
    request = ConsumerGroupDescribeRequest(group_ids=[coordinator.group_id])
    (described,) = (await coordinator.request(request)).groups
    if described.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        return CONSUMER
    (classic,) = (await coordinator.request(DescribeGroupsRequest(groups=[coordinator.group_id]))).groups
    return CLASSIC if classic.members else CONSUMER
