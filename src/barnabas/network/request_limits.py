"""Limits on a request's size by its API: in bytes before it is received, in elements before it is decoded.

Most requests are small whatever the size of the cluster. Only those of ``_LARGE`` grow with the records that they carry
or with the number of partitions, topics, members or rules that they name; only they may have
``socket.request.max.bytes``. Before a login a client needs ApiVersions, SaslHandshake and its token.

A principal that may do CLUSTER_ACTION is a broker or a controller (or a super user): its requests name all partitions
that it leads or follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.network.framing import FrameLimits
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.decode_limits import DecodeLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LARGE", "RequestLimits", "bytes_by_api"]

LARGE: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_GROUPS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.OFFSET_DELETE,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)
"""APIs whose requests may need more than a megabyte."""

_REQUEST_BYTES_MIN = 10
"""API, version, correlation id, and the length of the client id."""
_CONSUMED_PARTITIONS_MAX = 20_000
_ALL, _USUAL, _OVERRIDES, _EARLY, _TOKEN = (
    "socket.request.max.bytes",
    "barnabas.request.max.bytes",
    "barnabas.request.max.bytes.overrides",
    "barnabas.request.max.bytes.before.login",
    "sasl.server.max.receive.size",
)


class RequestLimits:
    """The limits of a node. ``overrides`` are bytes by API, which replace the other two limits."""

    __slots__ = (
        "_before_login_bytes_max",
        "_bytes_min",
        "bytes_max",
        "frames",
        "in_parts",
        "inline",
        "of_brokers",
        "of_clients",
        "of_consumers",
    )

    def __init__(
        self,
        *,
        bytes_max: int = 104857600,
        usual_bytes_max: int = 1048576,
        overrides: Mapping[ApiKey, int] | None = None,
        before_login_bytes_max: int = 4096,
        elements: int = 20_000,
        elements_in_parts: int = 100_000,
        elements_of_brokers: int = 1_000_000,
        elements_inline: int = 250,
        tagged_fields: int = 64,
        bytes_min: int = _REQUEST_BYTES_MIN,
    ) -> None:
        """``bytes_min``: the smallest frame with a request."""
        self.bytes_max = bytes_max
        self._bytes_min = bytes_min
        self._before_login_bytes_max = min(before_login_bytes_max, bytes_max)
        usual = min(usual_bytes_max, bytes_max)
        by_api = {int(key): (bytes_max, _ALL) for key in LARGE}
        by_api.update({int(key): (min(size, bytes_max), _OVERRIDES) for key, size in (overrides or {}).items()})
        self.frames = FrameLimits(by_api, others=(usual, _USUAL if usual < bytes_max else _ALL), smallest=bytes_min)
        self.of_clients = DecodeLimits(elements=elements, tagged_fields=tagged_fields)
        self.in_parts = DecodeLimits(elements=max(elements_in_parts, elements), tagged_fields=tagged_fields)
        """Limits of APIs that are answered in parts, for clients too."""
        self.of_consumers = DecodeLimits(
            elements=min(self.in_parts.elements, _CONSUMED_PARTITIONS_MAX), tagged_fields=tagged_fields
        )
        """Limits of Fetch: reading takes turns, but its answer is built in one piece."""
        self.of_brokers = DecodeLimits(elements=max(elements_of_brokers, elements), tagged_fields=tagged_fields)
        self.inline = DecodeLimits(elements=min(elements_inline, elements), tagged_fields=tagged_fields)
        """Limits of a request that is decoded immediately; a larger one waits for its turn."""

    def before_login(self, token_bytes_max: int) -> FrameLimits:
        """The limit before the login: a token may be as large as SASL allows."""
        tokens = {int(ApiKey.SASL_AUTHENTICATE): (min(token_bytes_max, self.bytes_max), _TOKEN)}
        others = (min(self._before_login_bytes_max, token_bytes_max), _EARLY)
        return FrameLimits(tokens, others=others, smallest=self._bytes_min)

    def raw_tokens(self, token_bytes_max: int) -> FrameLimits:
        """The limit after SaslHandshake version 0: tokens have no header to identify them."""
        return FrameLimits({}, others=(min(token_bytes_max, self.bytes_max), _TOKEN))


def bytes_by_api(text: str) -> dict[ApiKey, int]:
    """Read ``barnabas.request.max.bytes.overrides``: ``Name:bytes``, separated by commas. Raises ValueError."""
    by_name = {info.name.lower(): key for key, info in API_TABLE.items()}
    overrides: dict[ApiKey, int] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, _, size = item.partition(":")
        key = by_name.get(name.strip().lower())
        if key is None:
            raise ValueError(f"{name.strip()!r} is not the name of an API")
        if not size.strip().isdecimal() or int(size) < 1:
            raise ValueError(f"{item!r} does not end with a colon and a number of bytes")
        overrides[key] = int(size)
    return overrides
