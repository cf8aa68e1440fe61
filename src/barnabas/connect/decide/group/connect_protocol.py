"""The bytes that workers exchange through the group coordinator: metadata when they join, assignments when they sync.

Version 0 (``default``, eager) has assignments only. Versions 1 (``compatible``, KIP-415) and 2 (``sessioned``, KIP-507,
the same fields) add the work that a worker runs, the work that it must give up, and the time to join again. A worker
offers every version up to its own, the highest first; the coordinator chooses one that all members support.

Readers accept fields that later versions may append, and unknown versions. A reader of versions 1 and 2 that finds the
end instead of a field with a default uses the default. Any other mismatch raises a DecodeError. Writers write the bytes
that Kafka's worker writes for the same content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from struct import Struct

from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.protocol.errors import BufferUnderflow, DecodeError, InvalidLength, UnexpectedNull, UnsupportedVersion

__all__ = [
    "CONFIG_MISMATCH",
    "NO_ERROR",
    "PROTOCOL_TYPE",
    "Assignment",
    "ProtocolVersion",
    "WorkerMetadata",
    "decode_assignment",
    "decode_metadata",
    "encode_assignment",
    "encode_metadata",
    "join_protocols",
]

PROTOCOL_TYPE = "connect"
"""The protocol type of every group of workers."""

NO_ERROR = 0
CONFIG_MISMATCH = 1
"""The leader has read less of the config topic than a member: no member gets work, and all join again."""

_CONNECTOR = -1
"""The number of the connector itself among the numbers of its tasks."""

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


class ProtocolVersion(IntEnum):
    """The version in the bytes. ``wire_name`` is the group protocol's name, the lower-case name the setting's value
    (``connect.protocol``)."""

    EAGER = 0
    COMPATIBLE = 1
    SESSIONED = 2

    @property
    def wire_name(self) -> str:
        return _WIRE_NAMES[self]

    @property
    def config_value(self) -> str:
        return self.name.lower()

    @property
    def is_cooperative(self) -> bool:
        """Whether workers keep running while they join again."""
        return self is not ProtocolVersion.EAGER

    @classmethod
    def of_wire_name(cls, name: str) -> ProtocolVersion:
        """Return the version of the name. Raise ValueError."""
        for version, wire_name in _WIRE_NAMES.items():
            if wire_name == name:
                return version
        known = ", ".join(_WIRE_NAMES.values())
        raise ValueError(f"the group agreed on the protocol {name!r}, which no worker has; known: {known}")

    @classmethod
    def of_config_value(cls, value: str) -> ProtocolVersion:
        """Return the version of a value of ``connect.protocol``, in any case. Raise ValueError."""
        for version in cls:
            if version.config_value == value.lower():
                return version
        raise ValueError(f"connect.protocol is {value!r}; it may be eager, compatible or sessioned")


_WIRE_NAMES = {
    ProtocolVersion.SESSIONED: "sessioned",
    ProtocolVersion.COMPATIBLE: "compatible",
    ProtocolVersion.EAGER: "default",
}


@dataclass(frozen=True, slots=True)
class Assignment:
    """The work that the leader assigns to a member; inside metadata, the work that a member reports.

    ``config_offset`` is the offset of the config topic for which the assignment was decided. From version 1 on,
    connectors and tasks are the new work of the member, and after ``delay_ms`` it joins again (0: not needed).
    ``leader`` and ``leader_url`` are None only in ``Assignment()``, which means no assignment.
    """

    version: int = ProtocolVersion.COMPATIBLE
    error: int = NO_ERROR
    leader: str | None = None
    leader_url: str | None = None
    config_offset: int = -1
    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[ConnectorTaskId, ...] = ()
    delay_ms: int = 0

    @property
    def has_failed(self) -> bool:
        return self.error != NO_ERROR

    @property
    def has_work(self) -> bool:
        return bool(self.connectors or self.tasks)

    @property
    def revokes(self) -> bool:
        return bool(self.revoked_connectors or self.revoked_tasks)

    def followed_by(self, next_: Assignment) -> Assignment:
        """Return the member's work after a cooperative round (KIP-415): the new work, then the work that it keeps."""
        given = frozenset(next_.connectors), frozenset(next_.tasks)
        gone = frozenset(next_.revoked_connectors), frozenset(next_.revoked_tasks)
        kept_connectors = (
            connector for connector in self.connectors if connector not in gone[0] and connector not in given[0]
        )
        kept_tasks = (task for task in self.tasks if task not in gone[1] and task not in given[1])
        return replace(
            next_,
            connectors=(*next_.connectors, *kept_connectors),
            tasks=(*next_.tasks, *kept_tasks),
            revoked_connectors=(),
            revoked_tasks=(),
        )


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """The metadata of a joining member. ``config_offset`` is the offset of the last config record that it has read plus
    one, -1 for an empty topic. ``allocation`` is all its work, None before its first assignment."""

    url: str
    config_offset: int
    allocation: Assignment | None = None


def join_protocols(
    highest: ProtocolVersion, url: str, config_offset: int, allocation: Assignment | None = None
) -> list[tuple[str, bytes]]:
    """Return the protocols to offer in JoinGroup, the first choice first: a name and the metadata for it."""
    metadata = WorkerMetadata(url, config_offset, allocation)
    return [
        (version.wire_name, encode_metadata(metadata, version))
        for version in sorted(ProtocolVersion, reverse=True)
        if version <= highest
    ]


# -- writing


def encode_metadata(metadata: WorkerMetadata, version: int) -> bytes:
    """Encode the metadata. The worker's work is written in the same version; version 0 has no field for it."""
    parts = [_INT16.pack(version), _string(metadata.url), _INT64.pack(metadata.config_offset)]
    if version > ProtocolVersion.EAGER:
        allocation = None
        if metadata.allocation is not None and metadata.allocation.leader is not None:
            allocation = encode_assignment(replace(metadata.allocation, version=version))
        parts.append(_INT32.pack(-1) if allocation is None else _INT32.pack(len(allocation)) + allocation)
    return b"".join(parts)


def encode_assignment(assignment: Assignment) -> bytes:
    """Encode in the assignment's own version. Raises ValueError without a leader, which has no encoding."""
    if assignment.leader is None or assignment.leader_url is None:
        raise ValueError("an assignment without a leader can't be written")
    parts = [
        _INT16.pack(assignment.version),
        _INT16.pack(assignment.error),
        _string(assignment.leader),
        _string(assignment.leader_url),
        _INT64.pack(assignment.config_offset),
        _work(_in_hash_order(assignment.connectors), assignment.tasks),
    ]
    if assignment.version > ProtocolVersion.EAGER:
        if assignment.revokes:
            parts.append(_work(assignment.revoked_connectors, assignment.revoked_tasks))
        else:
            parts.append(_INT32.pack(0))
        parts.append(_INT32.pack(assignment.delay_ms))
    return b"".join(parts)


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0x7FFF:
        raise ValueError(f"{text[:40]!r}... has {len(data)} bytes; at most 32767 can be written")
    return _INT16.pack(len(data)) + data


def _work(connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> bytes:
    """Yield one entry for each connector: itself first, then its tasks in their order."""
    numbers: dict[str, list[int]] = {connector: [_CONNECTOR] for connector in connectors}
    for task in tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    parts = [_INT32.pack(len(numbers))]
    for connector, connector_numbers in numbers.items():
        parts.append(_string(connector))
        parts.append(Struct(f">i{len(connector_numbers)}i").pack(len(connector_numbers), *connector_numbers))
    return b"".join(parts)


def _in_hash_order(connectors: Sequence[str]) -> list[str]:
    """Return the order of Kafka's worker, that of a Java HashSet.

    The order has no meaning. But with it the same content gives the same bytes, ours or Java's, and a coordinator
    detects by the bytes whether metadata has changed.
    """
    distinct = list(dict.fromkeys(connectors))
    table_size = 16
    while table_size < int(len(distinct) / 0.75) + 1:
        table_size *= 2

    def bucket(name: str) -> int:
        value = 0
        for (unit,) in Struct(">H").iter_unpack(name.encode("utf-16-be")):
            value = value * 31 + unit & 0xFFFFFFFF
        return (value ^ value >> 16) & table_size - 1

    return sorted(distinct, key=bucket)


# -- reading


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._data)

    def number(self, layout: Struct) -> int:
        if len(self._data) - self._position < layout.size:
            raise BufferUnderflow(f"{layout.size} bytes are needed at {self._position} of {len(self._data)}")
        value: int = layout.unpack_from(self._data, self._position)[0]
        self._position += layout.size
        return value

    def take(self, length: int) -> bytes:
        left = len(self._data) - self._position
        if length > left:
            raise BufferUnderflow(f"{length} bytes are announced at {self._position}, but only {left} remain")
        taken = self._data[self._position : self._position + length]
        self._position += length
        return taken

    def string(self) -> str:
        length = self.number(_INT16)
        if length < 0:
            raise UnexpectedNull(f"a text has the length {length}")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"a text is not UTF-8: {error.reason}") from error

    def count(self, smallest: int, *, nullable: bool = False) -> int:
        """Read the count of an array whose items have at least so many bytes."""
        count = self.number(_INT32)
        if count < 0 and not (nullable and count == -1):
            raise InvalidLength(f"an array has the count {count}")
        if count * smallest > len(self._data) - self._position:
            raise InvalidLength(f"an array has the count {count}, more than its bytes can hold")
        return max(count, 0)

    def version(self) -> int:
        version = self.number(_INT16)
        if version < 0:
            raise UnsupportedVersion(f"the version is {version}; versions begin at 0")
        return version

    def work(self, *, nullable: bool = False) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
        connectors: list[str] = []
        tasks: list[ConnectorTaskId] = []
        for _ in range(self.count(6, nullable=nullable)):
            connector = self.string()
            for _ in range(self.count(4)):
                number = self.number(_INT32)
                if number == _CONNECTOR:
                    connectors.append(connector)
                else:
                    tasks.append(ConnectorTaskId(connector, number))
        return tuple(connectors), tuple(tasks)


def decode_metadata(data: bytes, agreed: ProtocolVersion) -> WorkerMetadata:
    """Decode metadata by the agreed protocol: an eager group ignores fields of later versions. Raise DecodeError."""
    reader = _Reader(data)
    reader.version()
    url, config_offset = reader.string(), reader.number(_INT64)
    if agreed is ProtocolVersion.EAGER or reader.at_end:
        return WorkerMetadata(url, config_offset)
    length = reader.number(_INT32)
    if length == -1:
        return WorkerMetadata(url, config_offset)
    if length < 0:
        raise InvalidLength(f"the allocation has the length {length}")
    return WorkerMetadata(url, config_offset, decode_assignment(reader.take(length), agreed))


def decode_assignment(data: bytes, agreed: ProtocolVersion) -> Assignment:
    """Decode an assignment by the agreed protocol. Raise DecodeError."""
    reader = _Reader(data)
    version, error = reader.version(), reader.number(_INT16)
    leader, leader_url, config_offset = reader.string(), reader.string(), reader.number(_INT64)
    is_cooperative = agreed.is_cooperative
    if is_cooperative and reader.at_end:
        return Assignment(version, error, leader, leader_url, config_offset)
    connectors, tasks = reader.work(nullable=is_cooperative)
    revoked: tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]] = (), ()
    delay_ms = 0
    if is_cooperative and not reader.at_end:
        revoked = reader.work(nullable=True)
        delay_ms = 0 if reader.at_end else reader.number(_INT32)
    return Assignment(version, error, leader, leader_url, config_offset, connectors, tasks, *revoked, delay_ms)
