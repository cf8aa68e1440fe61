"""The offsets of a topic's partitions: of the first and last record, or of the first one from a time on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.errors import ClientError
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.clients.client_config import Address
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource

__all__ = ["EARLIEST", "LATEST", "list_offsets"]

LATEST = -1
EARLIEST = -2

_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
_PAUSE_S = 0.1
_LAST_VERSION = 6  # Later versions add offsets of tiered storage.


async def list_offsets(
    network: NetworkClient,
    source: TopicMetadataSource,
    timestamps: Mapping[int, int],
    *,
    read_committed: bool = False,
    timeout_s: float = 60.0,
) -> dict[int, int]:
    """Return the offset of each partition for its timestamp: ``LATEST``, ``EARLIEST``, or milliseconds since 1970.

    The offset is -1 if no record is that young. With ``read_committed``, the latest one is the last stable offset.
    Leaders that move are looked up again until ``timeout_s``. Raise AdminError, ClientError.
    """
    found: dict[int, int] = {}
    deadline = asyncio.get_running_loop().time() + timeout_s
    error: Exception | None = None
    while True:
        try:
            metadata = await source.load()
            missing = {partition: time for partition, time in timestamps.items() if partition not in found}
            error = await _ask_leaders(network, metadata, missing, found, read_committed=read_committed)
            if error is None:
                return found
        except ClientError as failure:
            if not isinstance(failure, Transient):
                raise
            error = failure
        if asyncio.get_running_loop().time() >= deadline:
            raise error
        await asyncio.sleep(_PAUSE_S)


async def _ask_leaders(
    network: NetworkClient,
    metadata: TopicMetadata,
    timestamps: Mapping[int, int],
    found: dict[int, int],
    *,
    read_committed: bool,
) -> AdminError | None:
    """Add the offsets to ``found``. Return an error after which to look up the leaders again, if any."""
    by_leader: dict[Address, list[int]] = {}
    again: AdminError | None = None
    for partition in timestamps:
        address = metadata.address_of(partition)
        if address is None:
            name = f"{metadata.name}-{partition}"
            again = AdminError(ErrorCode.LEADER_NOT_AVAILABLE, "the partition has no leader", name)
        else:
            by_leader.setdefault(address, []).append(partition)
    for address, partitions in by_leader.items():
        connection = await network.connection_to(address)
        version = min(connection.version_of(ListOffsetsRequest.API_KEY), _LAST_VERSION)
        wanted = [ListOffsetsPartition(partition_index=number, timestamp=timestamps[number]) for number in partitions]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[ListOffsetsTopic(name=metadata.name, partitions=wanted)],
        )
        response = await connection.request(request, version=version)
        for topic in response.topics:
            for listed in topic.partitions:
                if not listed.error_code:
                    found[listed.partition_index] = listed.offset
                    continue
                error = admin_error(listed.error_code, None, metadata.name)
                if error.code not in _MOVED:
                    raise error
                again = error
    return again
