"""Properties of every declared message, in every version: nothing is lost, and malformed bytes are harmless."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.errors import BufferUnderflow, DecodeError
from barnabas.protocol.schema import Message
from tests.unit.protocol.samples import MESSAGES, drop_unknown_tags, mutated, random_message

SEEDS = st.integers(min_value=0, max_value=2**64 - 1)
EXAMPLES = max(10, settings.default.max_examples // 10)  # More than 200 classes exist.
HUGE_LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x7f\xff", b"\x80\x80\x80\x80\x08")
every_message = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)


def sample(cls: type[Message], seed: int) -> tuple[Message, int, Random]:
    random = Random(seed)
    version = random.randint(cls.MIN_VERSION, cls.MAX_VERSION)
    return random_message(cls, version, random), version, random


@pytest.mark.roundtrip
@every_message
@settings(max_examples=EXAMPLES)
@given(seed=SEEDS)
def test_a_message_survives_encode_and_decode(cls: type[Message], seed: int) -> None:
    message, version, random = sample(cls, seed)
    encoded = message.encode(version)
    prefix, suffix = random.randbytes(random.randrange(4)), random.randbytes(random.randrange(4))
    decoded, end = cls.read(memoryview(prefix + encoded + suffix), len(prefix), version)
    assert decoded == message
    assert end == len(prefix) + len(encoded)
    assert decoded.encode(version) == encoded


@pytest.mark.roundtrip
@every_message
@settings(max_examples=EXAMPLES)
@given(seed=SEEDS)
def test_a_message_survives_its_json_form(cls: type[Message], seed: int) -> None:
    message, version, _ = sample(cls, seed)
    drop_unknown_tags(message)  # They have no JSON form, but keep a struct from being equal to its default.
    again = cls.from_json(message.to_json(version), version)
    assert again.to_json(version) == message.to_json(version)


@every_message
def test_a_truncated_message_raises_buffer_underflow(cls: type[Message]) -> None:
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        encoded = random_message(cls, version, Random(version)).encode(version)
        for size in range(min(len(encoded), 2000)):
            with pytest.raises(BufferUnderflow):
                cls.decode(encoded[:size], version)


@every_message
@settings(max_examples=EXAMPLES)
@given(seed=SEEDS)
def test_damaged_bytes_raise_nothing_but_decode_errors(cls: type[Message], seed: int) -> None:
    message, version, random = sample(cls, seed)
    encoded = message.encode(version)
    for _ in range(10):
        try:
            cls.decode(mutated(encoded, random), version)
        except DecodeError:
            pass


@every_message
@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=60), seed=SEEDS)
def test_random_bytes_raise_nothing_but_decode_errors(cls: type[Message], data: bytes, seed: int) -> None:
    try:
        cls.decode(data, Random(seed).randint(cls.MIN_VERSION, cls.MAX_VERSION))
    except DecodeError:
        pass


@every_message
def test_a_huge_length_in_a_small_frame_uses_no_memory(cls: type[Message]) -> None:
    version = cls.MAX_VERSION
    encoded = random_message(cls, version, Random(1)).encode(version)
    cls.decode(encoded, version)  # Compiles the reader.
    tracemalloc.start()
    try:
        for position in range(min(len(encoded), 60)):
            for huge in HUGE_LENGTHS:
                try:
                    cls.decode(encoded[:position] + huge + encoded[position : position + 30], version)
                except DecodeError:
                    pass
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
