import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.errors import BufferUnderflow, DecodeError, InvalidVarint
from barnabas.protocol.varint import (
    read_uvarint,
    read_varint,
    read_varlong,
    size_of_varint,
    write_uvarint,
    write_varint,
    write_varlong,
)

INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)
INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_unsigned_values_survive(value: int) -> None:
    data = write_uvarint(value)
    assert read_uvarint(b"?" + data, 1) == (value, 1 + len(data))


@given(INT32)
def test_signed_32_bit_values_survive(value: int) -> None:
    data = write_varint(value)
    assert read_varint(data + b"?", 0) == (value, len(data))
    assert size_of_varint(value) == len(data)
    assert write_varlong(value) == data


@given(INT64)
def test_signed_64_bit_values_survive(value: int) -> None:
    data = write_varlong(value)
    assert read_varlong(data, 0) == (value, len(data))
    assert size_of_varint(value) == len(data)


@given(INT64)
def test_a_truncated_value_is_an_underflow(value: int) -> None:
    data = write_varlong(value)
    for size in range(len(data)):
        with pytest.raises(BufferUnderflow):
            read_varlong(data[:size], 0)


@given(st.binary(max_size=12))
def test_any_bytes_are_a_value_in_range_or_a_decode_error(data: bytes) -> None:
    for read, low, high in (
        (read_uvarint, 0, 2**32 - 1),
        (read_varint, -(2**31), 2**31 - 1),
        (read_varlong, -(2**63), 2**63 - 1),
    ):
        try:
            value, end = read(data, 0)
        except DecodeError:
            continue
        assert low <= value <= high
        assert end <= len(data)


def test_a_negative_unsigned_value_is_its_twos_complement() -> None:
    assert write_uvarint(-1) == b"\xff\xff\xff\xff\x0f"


def test_overlong_forms_are_accepted() -> None:
    assert read_uvarint(b"\x81\x80\x80\x80\x00", 0) == (1, 5)
    assert read_varlong(b"\x82" + b"\x80" * 8 + b"\x00", 0) == (1, 10)


def test_too_long_forms_are_refused() -> None:
    with pytest.raises(InvalidVarint):
        read_uvarint(b"\x80\x80\x80\x80\x80\x00", 0)
    with pytest.raises(InvalidVarint):
        read_varlong(b"\x80" * 10 + b"\x00", 0)
