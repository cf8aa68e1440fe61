from __future__ import annotations

import gzip
import tracemalloc
import zlib
from random import Random

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.compression import Compression, compress, decompress, iter_decompressed
from barnabas.protocol.errors import DecodeError, DecompressionLimitExceeded, InvalidCompressedData

CODECS = [codec for codec in Compression if codec]
every_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
TEXT = b"".join(b"line %d of some text\n" % index for index in range(2000))


@every_codec
@given(data=st.binary(max_size=1000), repeat=st.sampled_from((1, 3, 300)))
def test_data_survives(codec: Compression, data: bytes, repeat: int) -> None:
    data *= repeat
    assert decompress(codec, compress(codec, data)) == data
    assert decompress(codec, memoryview(compress(codec, data))) == data


@every_codec
def test_levels_equal_those_of_the_settings(codec: Compression) -> None:
    levels = {Compression.GZIP: (1, 9), Compression.LZ4: (1, 9, 17), Compression.ZSTD: (-5, 1, 22)}
    for level in levels.get(codec, (None,)):
        assert decompress(codec, compress(codec, TEXT, level)) == TEXT


@every_codec
def test_a_decompression_bomb_uses_no_more_than_the_limit(codec: Compression) -> None:
    limit = 4_000_000
    bomb = compress(codec, bytes(50_000_000))
    decompress(codec, compress(codec, TEXT))  # Imports what is needed.
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimitExceeded):
            for _ in iter_decompressed(codec, bomb, limit):
                pass
        streamed = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        with pytest.raises(DecompressionLimitExceeded):
            decompress(codec, bomb, limit)
        joined = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert streamed < 3_500_000
    assert joined < limit + 3_500_000


@every_codec
def test_exactly_the_limit_is_accepted(codec: Compression) -> None:
    data = compress(codec, TEXT)
    assert decompress(codec, data, len(TEXT)) == TEXT
    with pytest.raises(DecompressionLimitExceeded):
        decompress(codec, data, len(TEXT) - 1)


@every_codec
def test_truncated_data_is_refused(codec: Compression) -> None:
    data = compress(codec, TEXT)
    header_size = 16 if codec is Compression.SNAPPY else 0  # An empty snappy stream consists only of its header.
    for size in (*range(header_size), *range(header_size + 1, len(data), 7), len(data) - 1):
        with pytest.raises(InvalidCompressedData):
            decompress(codec, data[:size])


@every_codec
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_damaged_data_raises_nothing_but_decode_errors(codec: Compression, seed: int) -> None:
    random = Random(seed)
    data = bytearray(compress(codec, random.randbytes(random.choice((0, 20))) + TEXT[: random.choice((10, 3000))]))
    for _ in range(random.randint(1, 3)):
        data[random.randrange(min(len(data), random.choice((8, 64, 10_000))))] = random.randrange(256)
    try:
        assert len(decompress(codec, bytes(data), 10_000_000)) <= 10_000_000
    except DecodeError:
        pass


@every_codec
@given(data=st.binary(max_size=100))
def test_random_bytes_raise_nothing_but_decode_errors(codec: Compression, data: bytes) -> None:
    try:
        decompress(codec, data, 1_000_000)
    except DecodeError:
        pass


@every_codec
@given(data=st.binary(max_size=40))
def test_a_valid_start_followed_by_random_bytes_raises_nothing_but_decode_errors(
    codec: Compression, data: bytes
) -> None:
    start = compress(codec, b"")[:16]
    tracemalloc.start()
    try:
        decompress(codec, start + data, 1_000_000)
    except DecodeError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 3_500_000


def test_gzip_members_may_follow_each_other_and_later_bytes_are_ignored() -> None:
    members = gzip.compress(b"one") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, members) == b"onetwo"
    assert decompress(Compression.GZIP, members + b"garbage") == b"onetwo"


def test_zlib_without_the_gzip_header_is_refused() -> None:
    with pytest.raises(InvalidCompressedData):
        decompress(Compression.GZIP, zlib.compress(b"data"))


def test_snappy_without_framing_is_read_as_one_block() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_snappy_streams_may_follow_each_other() -> None:
    assert decompress(Compression.SNAPPY, compress(Compression.SNAPPY, TEXT) * 2) == TEXT * 2


def test_a_snappy_block_that_claims_two_gigabytes_is_refused_before_anything_is_allocated() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidCompressedData, match="claims more than its bytes can hold"):
            decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x07" + bytes(20), 2**31)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_lz4_blocks_are_independent_because_kafka_cannot_read_linked_ones() -> None:
    data = compress(Compression.LZ4, TEXT)
    info = lz4.frame.get_frame_info(data)
    assert not info["block_linked"]
    assert not info["content_checksum"]
    assert info["block_size_id"] == lz4.frame.BLOCKSIZE_MAX64KB


def test_bytes_after_an_lz4_frame_are_ignored() -> None:
    assert decompress(Compression.LZ4, compress(Compression.LZ4, TEXT) + b"garbage") == TEXT


def test_zstd_frames_of_every_shape_are_read() -> None:
    for content in (b"", b"x", TEXT, Random(1).randbytes(300_000), bytes(3_000_000)):
        for checksum in (False, True):
            for sized in (False, True):
                compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=sized)
                frame = compressor.compress(content)
                streamed = compressor.compressobj()
                pieces = streamed.compress(content[:1000]) + streamed.compress(content[1000:]) + streamed.flush()
                skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
                assert decompress(Compression.ZSTD, frame + skippable + pieces) == content * 2


def test_bytes_after_a_zstd_frame_are_refused() -> None:
    with pytest.raises(InvalidCompressedData):
        decompress(Compression.ZSTD, compress(Compression.ZSTD, TEXT) + b"garbage")


def test_a_zstd_frame_that_claims_two_gigabytes_uses_no_memory() -> None:
    frame = b"\x28\xb5\x2f\xfd\xa0" + (2**31 - 1).to_bytes(4, "little") + b"\x03\x00\x00\x00"
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decompress(Compression.ZSTD, frame, 2**31)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_lz4_frames_that_no_kafka_client_reads_are_refused() -> None:
    linked = lz4.frame.compress(TEXT * 10, block_linked=True)
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    for data in (linked, skippable, skippable + compress(Compression.LZ4, TEXT)):
        with pytest.raises(InvalidCompressedData, match="independent blocks"):
            decompress(Compression.LZ4, data)
    for options in ({"content_checksum": True}, {"block_checksum": True}, {"store_size": True}):
        data = lz4.frame.compress(TEXT, block_linked=False, **options)
        assert decompress(Compression.LZ4, data) == TEXT


def test_the_version_of_snappy_framing_is_ignored_as_in_kafka() -> None:
    data = compress(Compression.SNAPPY, TEXT)
    assert decompress(Compression.SNAPPY, data[:8] + bytes(8) + data[16:]) == TEXT
