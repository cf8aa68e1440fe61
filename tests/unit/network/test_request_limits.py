import pytest

from barnabas.network.framing import FrameReader, InvalidFrameSize
from barnabas.network.request_limits import LARGE, RequestLimits, bytes_by_api
from barnabas.protocol.api_keys import API_TABLE, ApiKey

MIB = 1024 * 1024
TOKEN_MAX = 524288


def begin(reader: FrameReader, size: int, key: int, *, pieces: int = 100) -> list[bytearray]:
    """Return the first bytes of a frame of ``size`` bytes, in pieces of the given size."""
    data = size.to_bytes(4, "big") + key.to_bytes(2, "big", signed=True) + bytes(20)
    frames = []
    for start in range(0, len(data), pieces):
        piece = data[start : start + pieces]
        reader.next_buffer()[: len(piece)] = piece
        frames += list(reader.received(len(piece)))
    return frames


@pytest.mark.parametrize("pieces", [1, 3, 5, 100])
def test_a_frame_too_large_for_its_api_is_refused_when_its_header_arrives(pieces: int) -> None:
    reader = FrameReader(RequestLimits().frames)
    with pytest.raises(
        InvalidFrameSize, match=r"frame size 1048577 of Heartbeat .* 1048576 \(barnabas\.request\.max\.bytes\)"
    ):
        begin(reader, MIB + 1, ApiKey.HEARTBEAT, pieces=pieces)


@pytest.mark.parametrize("pieces", [1, 3, 5, 100])
@pytest.mark.parametrize("key", sorted(LARGE))
def test_an_api_with_large_requests_may_use_the_limit_of_the_node(key: ApiKey, pieces: int) -> None:
    reader = FrameReader(RequestLimits(bytes_max=20 * MIB).frames)
    assert begin(reader, 20 * MIB, key, pieces=pieces) == []
    with pytest.raises(InvalidFrameSize, match=r"20971520 \(socket\.request\.max\.bytes\)"):
        begin(FrameReader(RequestLimits(bytes_max=20 * MIB).frames), 20 * MIB + 1, key, pieces=pieces)


@pytest.mark.parametrize("key", [99, -1, 32767])
def test_an_unknown_api_has_the_usual_limit(key: int) -> None:
    with pytest.raises(InvalidFrameSize):
        begin(FrameReader(RequestLimits().frames), MIB + 1, key)


def test_a_small_limit_for_all_applies_to_each_api() -> None:
    reader = FrameReader(RequestLimits(bytes_max=1000).frames)
    with pytest.raises(InvalidFrameSize, match=r"1000 \(socket\.request\.max\.bytes\)"):
        begin(reader, 1001, ApiKey.HEARTBEAT)


def test_brokers_and_controllers_may_send_requests_that_grow_with_partitions() -> None:
    needed = {
        ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ALTER_PARTITION, ApiKey.ENVELOPE,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.WRITE_TXN_MARKERS,
    }  # fmt: skip
    assert needed <= LARGE


def test_overrides_apply_only_to_their_api() -> None:
    limits = RequestLimits(overrides={ApiKey.METADATA: 2000, ApiKey.HEARTBEAT: 3 * MIB})
    with pytest.raises(InvalidFrameSize, match=r"Metadata .* 2000 \(barnabas\.request\.max\.bytes\.overrides\)"):
        begin(FrameReader(limits.frames), 2001, ApiKey.METADATA)
    assert begin(FrameReader(limits.frames), 3 * MIB, ApiKey.HEARTBEAT) == []
    assert begin(FrameReader(limits.frames), 3 * MIB, ApiKey.FETCH) == []


@pytest.mark.parametrize("key", sorted(set(API_TABLE) - {ApiKey.SASL_AUTHENTICATE}))
def test_before_a_login_only_a_token_may_be_large(key: ApiKey) -> None:
    limits = RequestLimits().before_login(TOKEN_MAX)
    assert begin(FrameReader(limits), 4096, key) == []
    with pytest.raises(InvalidFrameSize, match=r"4096 \(barnabas\.request\.max\.bytes\.before\.login\)"):
        begin(FrameReader(limits), 4097, key)
    assert begin(FrameReader(limits), TOKEN_MAX, ApiKey.SASL_AUTHENTICATE) == []
    with pytest.raises(InvalidFrameSize, match=r"524288 \(sasl\.server\.max\.receive\.size\)"):
        begin(FrameReader(limits), TOKEN_MAX + 1, ApiKey.SASL_AUTHENTICATE)


def test_tokens_without_headers_may_begin_with_any_bytes() -> None:
    limits = RequestLimits().raw_tokens(TOKEN_MAX)
    assert begin(FrameReader(limits), TOKEN_MAX, ApiKey.API_VERSIONS) == []
    with pytest.raises(InvalidFrameSize, match=r"sasl\.server\.max\.receive\.size"):
        begin(FrameReader(limits), TOKEN_MAX + 1, ApiKey.API_VERSIONS)


def test_overrides_are_read_by_the_names_of_apis() -> None:
    assert bytes_by_api("") == {}
    assert bytes_by_api(" Metadata:100, describeacls : 5 ") == {ApiKey.METADATA: 100, ApiKey.DESCRIBE_ACLS: 5}


@pytest.mark.parametrize("text", ["Metdata:100", "Metadata", "Metadata:x", "Metadata:0", "Metadata:-1"])
def test_malformed_overrides_are_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"Met"):
        bytes_by_api(text)


@pytest.mark.parametrize("size", [0, 1, 9])
def test_a_frame_too_small_for_a_request_is_refused_before_the_next_is_split(size: int) -> None:
    limits = RequestLimits()
    for reader in (FrameReader(limits.frames), FrameReader(limits.before_login(512 * 1024))):
        data = (size.to_bytes(4, "big") + bytes(size)) * 5_000
        reader.next_buffer()[: len(data)] = data
        received = []
        with pytest.raises(InvalidFrameSize, match=rf"frame size {size} is not allowed; it must be between 10 and"):
            received.extend(reader.received(len(data)))
        assert received == []


def test_a_raw_token_may_be_empty() -> None:
    reader = FrameReader(RequestLimits().raw_tokens(1000))
    reader.next_buffer()[:4] = bytes(4)
    assert list(reader.received(4)) == [bytearray()]
