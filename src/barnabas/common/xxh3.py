"""XXH3, the 64-bit hash by which a group notices that its topics have changed (KIP-1101), with seed 0.

Inputs of up to 240 bytes are hashed by formulas of their own; longer ones stripe by stripe of 64 bytes, in blocks of
1024. A whole block is combined with the secret as one integer, so that 1 KiB costs some 25 µs.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from struct import Struct

__all__ = ["xxh3_64"]

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_PRIME32_1 = 0x9E3779B1
_PRIME32_2 = 0x85EBCA77
_PRIME32_3 = 0xC2B2AE3D
_PRIME64_1 = 0x9E3779B185EBCA87
_PRIME64_2 = 0xC2B2AE3D27D4EB4F
_PRIME64_3 = 0x165667B19E3779F9
_PRIME64_4 = 0x85EBCA77C2B2AE63
_PRIME64_5 = 0x27D4EB2F165667C5
_MIX_1 = 0x165667919E3779F9
_MIX_2 = 0x9FB21C651E98DF25

_MASK = 0xFFFFFFFFFFFFFFFF
_STRIPE = 64
_STRIPES_PER_BLOCK = 16
_BLOCK = _STRIPE * _STRIPES_PER_BLOCK
_LANES = 8
_INITIAL_LANES = (
    _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1,
)  # fmt: skip
_EIGHT_WORDS = Struct("<8Q")
_SCRAMBLE_SECRET = _EIGHT_WORDS.unpack_from(_SECRET, 128)
_LAST_STRIPE_SECRET = 121
_MERGE_SECRET = 11
_SHORT_MAX = 240


def xxh3_64(data: bytes) -> int:
    """Return the hash as an unsigned number."""
    size = len(data)
    if size > _SHORT_MAX:
        return _hash_long(data)
    if size > 128:
        return _hash_129_to_240(data)
    if size > 16:
        return _hash_17_to_128(data)
    if size > 8:
        return _hash_9_to_16(data)
    if size > 3:
        return _hash_4_to_8(data)
    if size:
        return _hash_1_to_3(data)
    return _avalanche_of_xxh64(_word(_SECRET, 56) ^ _word(_SECRET, 64))


def _word(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 8], "little")


def _half_word(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 4], "little")


def _folded_product(left: int, right: int) -> int:
    product = left * right
    return product & _MASK ^ product >> 64


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _MIX_1 & _MASK
    return value ^ value >> 32


def _avalanche_of_xxh64(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64_2 & _MASK
    value = (value ^ value >> 29) * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _rotated_left(value: int, count: int) -> int:
    return (value << count | value >> 64 - count) & _MASK


def _hash_1_to_3(data: bytes) -> int:
    size = len(data)
    combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
    return _avalanche_of_xxh64(combined ^ _half_word(_SECRET, 0) ^ _half_word(_SECRET, 4))


def _hash_4_to_8(data: bytes) -> int:
    size = len(data)
    combined = _half_word(data, size - 4) + (_half_word(data, 0) << 32)
    value = combined ^ _word(_SECRET, 8) ^ _word(_SECRET, 16)
    value = (value ^ _rotated_left(value, 49) ^ _rotated_left(value, 24)) * _MIX_2 & _MASK
    value = (value ^ (value >> 35) + size) * _MIX_2 & _MASK
    return value ^ value >> 28


def _hash_9_to_16(data: bytes) -> int:
    size = len(data)
    low = _word(data, 0) ^ _word(_SECRET, 24) ^ _word(_SECRET, 32)
    high = _word(data, size - 8) ^ _word(_SECRET, 40) ^ _word(_SECRET, 48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(size + swapped + high + _folded_product(low, high) & _MASK)


def _mixed(data: bytes, offset: int, secret_offset: int) -> int:
    """Return the contribution of 16 bytes."""
    return _folded_product(
        _word(data, offset) ^ _word(_SECRET, secret_offset), _word(data, offset + 8) ^ _word(_SECRET, secret_offset + 8)
    )


def _hash_17_to_128(data: bytes) -> int:
    size = len(data)
    value = size * _PRIME64_1
    for pair in range((size - 1) // 32 + 1):
        value += _mixed(data, 16 * pair, 32 * pair)
        value += _mixed(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(value & _MASK)


def _hash_129_to_240(data: bytes) -> int:
    size = len(data)
    value = size * _PRIME64_1
    for index in range(8):
        value += _mixed(data, 16 * index, 16 * index)
    value = _avalanche(value & _MASK) + _mixed(data, size - 16, 119)
    for index in range(8, size // 16):
        value += _mixed(data, 16 * index, 16 * (index - 8) + 3)
    return _avalanche(value & _MASK)


def _hash_long(data: bytes) -> int:
    size = len(data)
    lanes = list(_INITIAL_LANES)
    block_count = (size - 1) // _BLOCK
    for index in range(block_count):
        _accumulate(lanes, data[index * _BLOCK : (index + 1) * _BLOCK], _BLOCK_SECRET)
        _scramble(lanes)
    rest = data[block_count * _BLOCK : (size - 1) // _STRIPE * _STRIPE]
    if rest:
        _accumulate(lanes, rest, _BLOCK_SECRET[: len(rest)])
    _accumulate(lanes, data[-_STRIPE:], _SECRET[_LAST_STRIPE_SECRET : _LAST_STRIPE_SECRET + _STRIPE])
    return _merged(lanes, size * _PRIME64_1)


_BLOCK_SECRET = b"".join(_SECRET[8 * index : 8 * index + _STRIPE] for index in range(_STRIPES_PER_BLOCK))
"""Each stripe of a block uses the secret from eight bytes further on."""


def _accumulate(lanes: list[int], stripes: bytes, secret: bytes) -> None:
    size = len(stripes)
    keyed = int.from_bytes(stripes, "little") ^ int.from_bytes(secret, "little")
    halves = Struct(f"<{size // 4}I").unpack(keyed.to_bytes(size, "little"))
    products = list(map(mul, halves[::2], halves[1::2]))
    words = Struct(f"<{size // 8}Q").unpack(stripes)
    for lane in range(_LANES):
        lanes[lane] = lanes[lane] + sum(products[lane::_LANES]) + sum(words[lane ^ 1 :: _LANES]) & _MASK


def _scramble(lanes: list[int]) -> None:
    for lane, secret in enumerate(_SCRAMBLE_SECRET):
        value = lanes[lane]
        lanes[lane] = (value ^ value >> 47 ^ secret) * _PRIME32_1 & _MASK


def _merged(lanes: Sequence[int], start: int) -> int:
    secret = _EIGHT_WORDS.unpack_from(_SECRET, _MERGE_SECRET)
    value = start
    for lane in range(0, _LANES, 2):
        value += _folded_product(lanes[lane] ^ secret[lane], lanes[lane + 1] ^ secret[lane + 1])
    return _avalanche(value & _MASK)
