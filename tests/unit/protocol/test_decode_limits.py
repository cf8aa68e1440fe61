"""A decoder refuses data above its limits before it creates any object from it."""

import tracemalloc

import pytest

from barnabas.protocol.decode_limits import UNLIMITED, DecodeLimits
from barnabas.protocol.errors import DecodeLimitExceeded, TooManyElements
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

LIMITS = DecodeLimits(elements=100, tagged_fields=4)


def tags(count: int) -> bytes:
    """Return this many unknown tagged fields, encoded in bytes 0 to 127 only."""
    assert count < 128
    return bytes([count]) + b"\x64\0" * count


def test_as_many_tagged_fields_as_the_limit_are_read() -> None:
    body = b"\x01\0\0" + tags(4)
    request, end = MetadataRequest.read(body, 0, 12, LIMITS)
    assert end == len(body)
    assert len(request.unknown_tags or ()) == 4


def test_one_more_tagged_field_is_refused_even_if_the_version_defines_it() -> None:
    with pytest.raises(DecodeLimitExceeded, match="a structure has 5 tagged fields; at most 4 are accepted"):
        MetadataRequest.read(b"\x01\0\0" + tags(5), 0, 12, LIMITS)
    with pytest.raises(DecodeLimitExceeded):
        ApiVersionsRequest.read(b"\x01\x01" + tags(5), 0, 3, LIMITS)


def test_twenty_megabytes_of_tagged_fields_use_no_memory() -> None:
    count = 7_000_000
    varint = bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14 & 127 | 128, count >> 21])
    body = b"\x01\0\0" + varint + b"\xe8\x07\0" * count
    tracemalloc.start()
    with pytest.raises(DecodeLimitExceeded):
        MetadataRequest.read(body, 0, 12, LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("version", [0, 5, 9, 12])
def test_elements_are_counted_before_they_are_read(version: int) -> None:
    body = MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(101)]).encode(version)
    assert len(MetadataRequest.read(body, 0, version)[0].topics or ()) == 101
    with pytest.raises(TooManyElements, match="more than the 100 array elements"):
        MetadataRequest.read(body, 0, version, LIMITS)
    smaller = MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(100)]).encode(version)
    assert len(MetadataRequest.read(smaller, 0, version, LIMITS)[0].topics or ()) == 100


def test_elements_of_all_arrays_count_together() -> None:
    topics = [FetchTopic(partitions=[FetchPartition(partition=p) for p in range(10)]) for _ in range(10)]
    body = FetchRequest(topics=topics).encode(17)
    with pytest.raises(TooManyElements):
        FetchRequest.read(body, 0, 17, LIMITS)
    request, _ = FetchRequest.read(body, 0, 17, DecodeLimits(elements=110, tagged_fields=4))
    assert len(request.topics) == 10


def test_tagged_fields_count_as_elements_too() -> None:
    inner = b"\0" * 16 + b"\x02t" + tags(4)
    body = bytes([26]) + inner * 25 + b"\0\0\0"
    with pytest.raises(TooManyElements):
        MetadataRequest.read(body, 0, 12, LIMITS)


def test_numbers_in_arrays_count_as_elements() -> None:
    body = b"\0\0\0\x01" + b"\0" * 8 + b"\x02" + b"\0" * 16 + b"\x02" + b"\0" * 8 + b"\x7f"
    with pytest.raises(DecodeLimitExceeded):
        AlterPartitionRequest.read(body + b"\0" * 600, 0, 2, LIMITS)


def test_without_limits_nothing_changes() -> None:
    body = MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(5000)]).encode(12)
    assert MetadataRequest.read(body, 0, 12) == MetadataRequest.read(body, 0, 12, UNLIMITED)
