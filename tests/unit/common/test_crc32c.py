import crc32c as library
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.crc32c import crc32c


def test_the_known_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=300))
def test_the_checksum_equals_the_librarys_for_every_kind_of_buffer(data: bytes) -> None:
    expected = library.crc32c(data)
    assert crc32c(data) == crc32c(bytearray(data)) == crc32c(memoryview(b"?" + data)[1:]) == expected
