"""XXH3: hashes that the library of Kafka's group coordinator (hash4j) computed, at the limits of each formula."""

from __future__ import annotations

import pytest

from barnabas.common.xxh3 import xxh3_64

HASHES = {
    0: 0x2D06800538D394C2,
    1: 0xDC4D00F78AE4972D,
    2: 0x6965EFB896867347,
    3: 0xDEF6245ED93E5E3C,
    4: 0xF4363E724D92BB05,
    8: 0xB0C4D49CC0C40838,
    9: 0xC1A79854C05D66BD,
    16: 0xE44FAF88DDC10D66,
    17: 0x0CAE5C98F2163F45,
    32: 0xC505B50CAE33EC9D,
    33: 0x40AE498A9B23709E,
    64: 0xAC0D025C727D49FC,
    65: 0x2F791321A655A166,
    96: 0xA5D8A9C1814B45BB,
    97: 0xAC84F884026572F5,
    128: 0x330558DEE093138F,
    129: 0x58CF4A5710A287BE,
    240: 0xA279D0F593FB2952,
    241: 0x488C885F579D4178,
    256: 0xEC85B75BAFE6CA74,
    1023: 0xF53545EC6EF2A3C6,
    1024: 0x23BC880EBF0D29C6,
    1025: 0x7EE72589D34F36DE,
    1088: 0x5966FD68CA084A11,
    1089: 0x3AD17E683EB8E409,
    2048: 0x19F6F9C987331373,
    2049: 0x73E190B0B4931CF5,
    5000: 0x6368549B92337CD5,
}
"""By the number of bytes; the byte at ``index`` is ``31 * index + 7 + size``."""


@pytest.mark.parametrize("size", HASHES)
def test_a_hash_is_that_of_hash4j(size: int) -> None:
    assert xxh3_64(bytes(31 * index + 7 + size & 0xFF for index in range(size))) == HASHES[size]
