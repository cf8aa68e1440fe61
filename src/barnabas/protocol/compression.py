"""Compress and decompress the record section of a batch: gzip, snappy, lz4, zstd.

A few compressed bytes can expand to gigabytes, so a reader sets a limit: a decompression bomb costs at most that
limit and raises ``DecompressionLimitExceeded``. The libraries are imported when first needed, because most nodes
pass compressed batches through unopened.

Two properties of Kafka are followed on purpose. Bytes after the end of a gzip member or an lz4 frame are ignored. And
snappy data is either in the chunked framing of snappy-java, which Kafka's clients write, or one raw block.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.protocol.errors import DecompressionLimitExceeded, InvalidCompressedData
from barnabas.protocol.zstd_frame import measure_zstd_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Buffer: TypeAlias = bytes | bytearray | memoryview

__all__ = ["DECOMPRESSED_SIZE_MAX", "Compression", "compress", "decompress", "iter_decompressed"]

DECOMPRESSED_SIZE_MAX: Final = 128 * 1024 * 1024
"""The default limit. Well-behaved producers stay far below: their batches are at most
max.request.size (1 MiB) before compression."""

_CHUNK_SIZE_MAX = 1024 * 1024
_CHUNK_SIZE_MIN = 64 * 1024

_GZIP_WBITS = 31  # 15 bits of window, plus 16 for the gzip header and trailer.
_GZIP_MAGIC = b"\x1f\x8b"

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_SNAPPY_BLOCK_SIZE = 32 * 1024
_SNAPPY_EXPANSION_MAX = 22
"""The densest element copies 64 bytes and takes three."""

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FLAGS_MASK, _LZ4_FLAGS = 0xE3, 0x60
"""The flags of a frame: version 1, independent blocks, no dictionary; Kafka's clients read only these."""
_LZ4_LEVEL_DEFAULT = 9
"""Kafka's default level, which selects the fast compressor, not level 9 of the high-compression one."""
_LZ4_LEVEL_MAX = 12


class Compression(IntEnum):
    """The compression type in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: bytes, level: int | None = None) -> bytes:
    """Compress as Kafka's producer does; ``level`` is that of ``compression.<codec>.level``, None its default."""
    return _COMPRESSORS[codec](data, level)


def decompress(codec: Compression, data: Buffer, max_size: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Return the decompressed bytes, at most ``max_size`` of them."""
    chunks = list(iter_decompressed(codec, data, max_size))
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def iter_decompressed(codec: Compression, data: Buffer, max_size: int = DECOMPRESSED_SIZE_MAX) -> Iterator[bytes]:
    """Yield the decompressed bytes in pieces; raises once they would be more than ``max_size``.

    One piece is held at a time: at most about 1 MiB, or as much as the compressed bytes justify.
    """
    size = 0
    for chunk in _DECOMPRESSORS[codec](data, max_size):
        size += len(chunk)
        if size > max_size:
            raise _too_large(max_size)
        yield chunk


def _too_large(max_size: int) -> DecompressionLimitExceeded:
    return DecompressionLimitExceeded(f"the decompressed records are more than the {max_size} bytes that are allowed")


def _chunk_size(data: Buffer, max_size: int) -> int:
    """Return how much to request from a stream in one call: four times the input, bounded by one past the limit."""
    return min(max(4 * len(data), _CHUNK_SIZE_MIN), _CHUNK_SIZE_MAX, max_size + 1)


def _read_plain(data: Buffer, max_size: int) -> Iterator[bytes]:
    yield bytes(data)


def _read_gzip(data: Buffer, max_size: int) -> Iterator[bytes]:
    chunk_size = _chunk_size(data, max_size)
    reader = zlib.decompressobj(_GZIP_WBITS)
    pending: Buffer = data
    while True:
        try:
            chunk = reader.decompress(pending, chunk_size)
        except zlib.error as error:
            raise InvalidCompressedData(f"gzip: {error}") from None
        if chunk:
            yield chunk
        if reader.eof:
            pending = reader.unused_data
            if pending[:2] != _GZIP_MAGIC:
                return
            reader = zlib.decompressobj(_GZIP_WBITS)
            continue
        pending = reader.unconsumed_tail
        if not pending and not chunk:
            raise InvalidCompressedData("gzip data ends inside a member")


def _read_snappy(data: Buffer, max_size: int) -> Iterator[bytes]:
    if data[:8] != _SNAPPY_MAGIC:
        yield _snappy_block(data, max_size, max_size)
        return
    size, position, left = len(data), 16, max_size
    while position < size:
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        if data[position : position + 8] == _SNAPPY_MAGIC:  # Streams may be concatenated.
            position += 16
            continue
        position += 4
        if not 0 <= length <= size - position:
            raise InvalidCompressedData("snappy data ends inside a chunk")
        chunk = _snappy_block(data[position : position + length], left, max_size)
        position += length
        left -= len(chunk)
        yield chunk
    if position > size:
        raise InvalidCompressedData("snappy data ends inside its header")


def _snappy_block(block: Buffer, size_left: int, max_size: int) -> bytes:
    from cramjam import DecompressionError, snappy

    size = shift = 0
    for byte in block[:5]:  # The block's declared size; limited to what its length allows.
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _SNAPPY_EXPANSION_MAX * len(block):
        raise InvalidCompressedData("a snappy block claims more than its bytes can hold")
    if size > size_left:
        raise _too_large(max_size)
    try:
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as error:
        raise InvalidCompressedData(f"snappy: {error}") from None


def _read_lz4(data: Buffer, max_size: int) -> Iterator[bytes]:
    from lz4.frame import create_decompression_context, decompress_chunk

    if data[:4] != _LZ4_MAGIC or len(data) < 7 or data[4] & _LZ4_FLAGS_MASK != _LZ4_FLAGS:
        raise InvalidCompressedData("lz4 data does not begin with a frame of independent blocks")
    chunk_size = _chunk_size(data, max_size)
    context = create_decompression_context()
    data = memoryview(data)
    while True:
        try:
            chunk, consumed, is_end = decompress_chunk(context, data, max_length=chunk_size)
        except RuntimeError as error:
            raise InvalidCompressedData(f"lz4: {error}") from None
        if chunk:
            yield chunk
        if is_end:
            return
        if not chunk and not consumed:
            raise InvalidCompressedData("lz4 data ends inside a frame")
        data = data[consumed:]


def _read_zstd(data: Buffer, max_size: int) -> Iterator[bytes]:
    """Decompress frame by frame: in one step if its blocks are small, else as a stream."""
    from zstandard import ZstdDecompressor, ZstdError

    if not data:
        raise InvalidCompressedData("zstd data ends before its frame header")
    position, left = 0, max_size
    while position < len(data):
        end, size_max = measure_zstd_frame(data, position)
        frame = data[position:end]
        position = end
        if not size_max:
            continue
        try:
            if size_max <= min(left, _CHUNK_SIZE_MAX):
                chunk = ZstdDecompressor().decompress(frame, max_output_size=size_max)
                left -= len(chunk)
                yield chunk
                continue
            for chunk in ZstdDecompressor().read_to_iter(frame):
                left -= len(chunk)
                yield chunk
        except ZstdError as error:
            raise InvalidCompressedData(f"zstd: {error}") from None


def _write_gzip(data: bytes, level: int | None) -> bytes:
    writer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
    return writer.compress(data) + writer.flush()


def _write_snappy(data: bytes, level: int | None) -> bytes:
    from cramjam import snappy

    parts = [_SNAPPY_HEADER]
    for start in range(0, len(data), _SNAPPY_BLOCK_SIZE):
        block = bytes(snappy.compress_raw(data[start : start + _SNAPPY_BLOCK_SIZE]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _write_lz4(data: bytes, level: int | None) -> bytes:
    """Write independent blocks without content size or checksum: Kafka's reader refuses linked ones."""
    import lz4.frame

    return bytes(
        lz4.frame.compress(
            data,
            compression_level=0 if level is None or level == _LZ4_LEVEL_DEFAULT else min(level, _LZ4_LEVEL_MAX),
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
    )


def _write_zstd(data: bytes, level: int | None) -> bytes:
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=3 if level is None else level).compress(data)


# Indexed by Compression.
_COMPRESSORS: tuple[Callable[[bytes, int | None], bytes], ...] = (
    lambda data, _: data,
    _write_gzip,
    _write_snappy,
    _write_lz4,
    _write_zstd,
)
_DECOMPRESSORS: tuple[Callable[[Buffer, int], Iterator[bytes]], ...] = (
    _read_plain,
    _read_gzip,
    _read_snappy,
    _read_lz4,
    _read_zstd,
)
