import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.network.framing import FrameReader, InvalidFrameSize


def feed(reader: FrameReader, data: bytes, sizes: list[int]) -> list[bytes]:
    """Feed ``data`` in pieces of the given sizes (the last size repeats), as a socket would."""
    frames: list[bytes] = []
    position = index = 0
    while position < len(data):
        buffer = reader.next_buffer()
        size = min(sizes[min(index, len(sizes) - 1)], len(buffer), len(data) - position)
        buffer[:size] = data[position : position + size]
        del buffer
        frames.extend(bytes(frame) for frame in reader.received(size))
        position += size
        index += 1
    return frames


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(
    bodies=st.lists(st.binary(max_size=3000), max_size=6),
    sizes=st.lists(st.integers(min_value=1, max_value=5000), min_size=1, max_size=20),
)
def test_any_split_of_the_stream_results_in_the_same_frames(bodies: list[bytes], sizes: list[int]) -> None:
    assert feed(FrameReader(10_000), framed(*bodies), sizes) == bodies


def test_one_byte_at_a_time_is_enough() -> None:
    assert feed(FrameReader(100), framed(b"abc", b"", b"d"), [1]) == [b"abc", b"", b"d"]


def test_a_frame_larger_than_the_scratch_memory_arrives_whole() -> None:
    body = bytes(range(256)) * 8192
    assert feed(FrameReader(len(body)), framed(body, b"next"), [100_000]) == [body, b"next"]


def test_raises_invalid_frame_size_when_the_length_is_negative() -> None:
    with pytest.raises(InvalidFrameSize, match=r"-1 .*socket\.request\.max\.bytes"):
        feed(FrameReader(100), b"\xff\xff\xff\xff", [4])


def test_raises_invalid_frame_size_when_the_length_is_over_the_limit() -> None:
    with pytest.raises(InvalidFrameSize) as caught:
        feed(FrameReader(100), (101).to_bytes(4, "big"), [4])
    assert caught.value.size == 101


def test_frames_before_a_bad_length_are_still_returned() -> None:
    reader = FrameReader(100)
    frames = []
    data = framed(b"good") + b"\x7f\xff\xff\xff"
    reader.next_buffer()[: len(data)] = data
    with pytest.raises(InvalidFrameSize):  # noqa: PT012 - what came before it is the point.
        for frame in reader.received(len(data)):
            frames.append(bytes(frame))  # noqa: PERF401
    assert frames == [b"good"]


def test_a_length_of_2_gb_costs_no_memory() -> None:
    reader = FrameReader(2**31 - 1)
    tracemalloc.start()
    feed(reader, (2**31 - 1).to_bytes(4, "big") + b"x" * 30, [34])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 1024 * 1024
    assert not reader.is_idle


@pytest.mark.parametrize("size", [100, 20_000, 100 * 1024 * 1024])
def test_a_frame_uses_memory_for_received_bytes_and_not_for_its_announced_length(size: int) -> None:
    reader = FrameReader(size)
    start = size.to_bytes(4, "big") + b"x" * 30
    reader.next_buffer()[: len(start)] = start
    assert list(reader.received(len(start))) == []
    assert 0 < len(reader.next_buffer()) <= 16 * 1024


def test_readers_of_two_threads_do_not_write_into_each_others_memory() -> None:
    """Each thread may have its own event loop, and the interpreter may switch threads while one receives."""
    ours = FrameReader(100)
    ours.next_buffer()[:7] = framed(b"abc")

    def receive() -> list[bytes]:
        return feed(FrameReader(100), framed(b"xyz"), [7])

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(receive).result() == [b"xyz"]
    assert [bytes(frame) for frame in ours.received(7)] == [b"abc"]
