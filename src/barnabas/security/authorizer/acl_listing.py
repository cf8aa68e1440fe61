"""The response to DescribeAcls: immediate if it is short, otherwise built and encoded in steps.

The parts of an entry repeat: a few principals and hosts occur in many rules. So their bytes are kept, and an entry
does not become an object.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from barnabas.common.long_response import LongAnswer
from barnabas.protocol.compiler_runtime import compact_length, compact_string_length
from barnabas.protocol.messages.describe_acls import DescribeAclsResponse
from barnabas.security.authorizer.acl_requests import describe_bindings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.common.acl import AclBinding

__all__ = ["AclListing", "listed"]

_INT8, _INT8S, _INT16, _INT32 = Struct(">b"), Struct(">bb"), Struct(">h"), Struct(">i")
_KEPT_MAX: Final = 4_096


def listed(slices: Iterator[Sequence[AclBinding]], version: int) -> DescribeAclsResponse | AclListing:
    """``slices`` as of ``AclAuthorizer.acl_slices``."""
    first = next(slices, None)
    if first is None:
        return DescribeAclsResponse()
    known = [first]
    if first:
        second = next(slices, None)
        if second is None:
            return DescribeAclsResponse(resources=describe_bindings(first))
        known.append(second)
    return AclListing(version, known, slices)


class AclListing(LongAnswer):
    """A DescribeAclsResponse that can be written after ``advance`` has returned False."""

    __slots__ = (
        "_count",
        "_entries",
        "_entry_count",
        "_held",
        "_is_flexible",
        "_known",
        "_no_tags",
        "_pattern",
        "_pieces",
        "_slices",
        "_texts",
        "error_code",
        "throttle_time_ms",
    )

    def __init__(self, version: int, known: list[Sequence[AclBinding]], more: Iterator[Sequence[AclBinding]]) -> None:
        """``known`` are the first slices; ``more`` yields the rest."""
        super().__init__()
        self.throttle_time_ms = 0
        self.error_code = 0
        self._known = known
        self._slices = more
        self._is_flexible = DescribeAclsResponse.is_flexible(version)
        self._no_tags = b"\0" if self._is_flexible else b""
        self._texts: dict[str, bytes] = {}
        self._pieces: list[bytes] = []
        self._pattern: tuple[int, str, int] | None = None
        self._held: list[bytes] = []
        """Entries of the open resource: those of earlier slices, then, in pieces, those of this one."""
        self._entries: list[bytes] = []
        self._entry_count = 0
        self._count = 0

    def advance(self) -> bool:
        """Do the work of one slice; False when all is done."""
        part = self._known.pop(0) if self._known else next(self._slices, None)
        out: list[bytes] = []
        if part is None:
            self._close_resource(out)
        else:
            self._encode(part, out)
        if out:
            self._pieces.append(b"".join(out))
        return part is not None

    def _encode(self, bindings: Sequence[AclBinding], out: list[bytes]) -> None:
        """Encode a slice. Its last resource stays open: the next slice may have more rules for it."""
        texts = self._texts
        if len(texts) > _KEPT_MAX:
            texts.clear()
        tails: dict[tuple[int, int], bytes] = {}
        for resource_type, name, pattern_type, principal, host, operation, permission in bindings:
            if (resource_type, name, pattern_type) != self._pattern:
                self._close_resource(out)
                self._pattern = (resource_type, name, pattern_type)
            principal_bytes = texts.get(principal)
            if principal_bytes is None:
                principal_bytes = texts[principal] = self._text(principal)
            host_bytes = texts.get(host)
            if host_bytes is None:
                host_bytes = texts[host] = self._text(host)
            tail = tails.get((operation, permission))
            if tail is None:
                tail = tails[operation, permission] = _INT8S.pack(operation, permission) + self._no_tags
            self._entries += (principal_bytes, host_bytes, tail)
            self._entry_count += 1
        if self._entries:
            self._held.append(b"".join(self._entries))
            self._entries = []

    def _close_resource(self, out: list[bytes]) -> None:
        if self._pattern is None:
            return
        resource_type, name, pattern_type = self._pattern
        out += (_INT8.pack(resource_type), self._text(name), _INT8.pack(pattern_type) + self._length(self._entry_count))
        if self._held:
            out += self._held
            self._held = []
        out += self._entries
        out.append(self._no_tags)
        self._pattern = None
        self._entries = []
        self._entry_count = 0
        self._count += 1

    def _text(self, text: str) -> bytes:
        data = text.encode()
        return (compact_string_length(len(data) + 1) if self._is_flexible else _INT16.pack(len(data))) + data

    def _length(self, count: int) -> bytes:
        return compact_length(count + 1) if self._is_flexible else _INT32.pack(count)

    def write(self, version: int, chunks: list[bytes]) -> None:
        """Encode a response without resources, and replace its empty list, the last field before the tags."""
        encoded = DescribeAclsResponse(throttle_time_ms=self.throttle_time_ms).encode(version)
        end = len(encoded) - len(self._no_tags)
        chunks.append(encoded[: end - len(self._length(0))] + self._length(self._count))
        chunks += self._pieces
        chunks.append(encoded[end:])
