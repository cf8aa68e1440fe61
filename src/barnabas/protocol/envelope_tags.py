"""Tagged fields of an Envelope between barnabas nodes; Kafka's nodes ignore unknown ones.

A broker assigns a number to each call, and keeps it when it sends the call again. Only a controller that finds a number
answers with a tag: how far the metadata log was committed when the call was answered.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

__all__ = ["CALL_ID_SIZE", "CALL_TAG", "call_id_of", "committed_offset_of", "set_call_id", "set_committed_offset"]

CALL_TAG: Final = 10_590
"""The tag of a call's number in a request, and of the originating call in a metadata record."""
OFFSET_TAG: Final = 10_591
CALL_ID_SIZE: Final = 16

_OFFSET = Struct(">q")


def set_call_id(envelope: EnvelopeRequest, call_id: bytes) -> None:
    envelope.unknown_tags = [(CALL_TAG, call_id)]


def call_id_of(envelope: EnvelopeRequest) -> bytes | None:
    data = dict(envelope.unknown_tags or ()).get(CALL_TAG)
    return data if data is not None and len(data) == CALL_ID_SIZE else None


def set_committed_offset(response: EnvelopeResponse, offset: int) -> None:
    response.unknown_tags = [(OFFSET_TAG, _OFFSET.pack(offset))]


def committed_offset_of(response: EnvelopeResponse) -> int | None:
    data = dict(response.unknown_tags or ()).get(OFFSET_TAG)
    return int(_OFFSET.unpack(data)[0]) if data is not None and len(data) == _OFFSET.size else None
