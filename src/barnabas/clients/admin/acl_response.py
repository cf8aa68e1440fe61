"""Read the rules of a DescribeAcls answer lazily, however many it has.

Decoding 250,000 rules at once would block the event loop for a second, and every other request with it. So the frame
is kept, and the caller can serve others while it iterates.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as too_short

from barnabas.common.acl import AclBinding
from barnabas.protocol.compiler_runtime import read_unsigned_varint
from barnabas.protocol.errors import BufferUnderflow, DecodeError, UnexpectedNull
from barnabas.protocol.messages.describe_acls import DescribeAclsResponse
from barnabas.protocol.schema import Message, int8, string

__all__ = ["AclAnswer"]

_INT8, _INT16, _INT32 = Struct(">b"), Struct(">h"), Struct(">i")


class _Rule(Message, versions="1-3", flexible="2+"):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class AclAnswer:
    """The fields before the rules are decoded immediately; ``rules`` can be iterated once."""

    def __init__(self, frame: bytearray, version: int, position: int) -> None:
        self._frame = frame
        self._version = version
        self._is_flexible = DescribeAclsResponse.is_flexible(version)
        self._position = position
        self.throttle_time_ms = self._number(_INT32)
        self.error_code = self._number(_INT16)
        self.error_message = self._string()

    def rules(self) -> Iterator[AclBinding]:
        """Iterate the rules. Raise DecodeError for a malformed frame."""
        read_rule, frame, version = _Rule.read, self._frame, self._version
        for _ in range(self._count()):
            resource_type = self._number(_INT8)
            name = self._string()
            pattern_type = self._number(_INT8)
            if name is None:
                raise UnexpectedNull("the name of a resource is null")
            for _ in range(self._count()):
                rule, self._position = read_rule(frame, self._position, version)
                yield AclBinding(
                    resource_type, name, pattern_type, rule.principal, rule.host, rule.operation, rule.permission_type
                )
            self._skip_tags()

    def _number(self, kind: Struct) -> int:
        try:
            (value,) = kind.unpack_from(self._frame, self._position)
        except too_short as error:
            raise BufferUnderflow("the answer ends too early") from error
        self._position += kind.size
        return int(value)

    def _varint(self) -> int:
        try:
            value, self._position = read_unsigned_varint(self._frame, self._position)
        except IndexError as error:
            raise BufferUnderflow("the answer ends too early") from error
        return value

    def _count(self) -> int:
        count = self._varint() - 1 if self._is_flexible else self._number(_INT32)
        if not 0 <= count <= len(self._frame):
            raise DecodeError(f"an array has {count} elements")
        return count

    def _string(self) -> str | None:
        length = self._varint() - 1 if self._is_flexible else self._number(_INT16)
        if length < 0:
            return None
        return str(self._bytes(length), "utf-8", "replace")

    def _bytes(self, length: int) -> bytearray:
        start, self._position = self._position, self._position + length
        if not start <= self._position <= len(self._frame):
            raise BufferUnderflow("the answer ends too early")
        return self._frame[start : self._position]

    def _skip_tags(self) -> None:
        for _ in range(self._varint() if self._is_flexible else 0):
            self._varint()
            self._bytes(self._varint())
