"""Edge cases of the tagged section, each with bytes that were checked with a JVM."""

import pytest

from barnabas.protocol.errors import DecodeError, InvalidTaggedFields
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from barnabas.protocol.messages.vote import VoteResponse
from barnabas.protocol.records.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)

# Everything null or empty, up to the number of tagged fields.
MEMBER = bytes.fromhex("0000010101007fffffff00")


def test_a_tag_of_another_version_is_an_error_and_not_unknown() -> None:
    assert VoteResponse.MIN_VERSION == 0
    with pytest.raises(InvalidTaggedFields, match="tag 0 belongs to a field that version 0 does not have"):
        VoteResponse.decode(bytes.fromhex("00000101000100"), 0)


@pytest.mark.parametrize("section", ["01000100", "0100070000000000", "01000000"])
def test_the_marker_of_a_tagged_struct_is_a_varint_and_0_is_null(section: str) -> None:
    assert ConsumerGroupMemberMetadataValue.decode(MEMBER + bytes.fromhex(section), 0).classic_member_metadata is None


def test_any_other_marker_says_that_the_struct_follows() -> None:
    value = ConsumerGroupMemberMetadataValue.decode(MEMBER + bytes.fromhex("01000701000000050100"), 0)
    assert value.classic_member_metadata == ClassicMemberMetadata(session_timeout_ms=5)


@pytest.mark.parametrize("section", ["010001ff", "01000101", "01000082"])
def test_a_truncated_tagged_struct_is_refused(section: str) -> None:
    with pytest.raises(DecodeError):
        ConsumerGroupMemberMetadataValue.decode(MEMBER + bytes.fromhex(section), 0)


def test_a_tagged_struct_is_absent_by_default_and_null_only_if_encoded_so() -> None:
    absent = ConsumerGroupMemberMetadataValue.decode(MEMBER + b"\x00", 0)
    assert absent.classic_member_metadata == ClassicMemberMetadata()
    assert absent.encode(0) == MEMBER + b"\x00"
    absent.classic_member_metadata = None
    assert absent.encode(0) == MEMBER + bytes.fromhex("01000100")


def test_null_records_are_refused_where_they_are_not_nullable() -> None:
    encoded = bytes.fromhex(
        "0000000000000202610200000000107ee8be44559d18370700000000000000000000000000000000000000755c000000"
    )
    with pytest.raises(DecodeError, match="null"):
        FetchSnapshotResponse.decode(encoded, 1)
