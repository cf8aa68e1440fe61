"""A request's header: the fixed fields, then the client id and the tagged fields."""

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.headers import RequestHeader, read_fixed_header, read_rest_of_header

BODY = b"\7\7"


@pytest.mark.parametrize("client_id", [None, "", "producer-1", "zoë"])
@pytest.mark.parametrize("header_version", [1, 2])
def test_reading_returns_what_was_written(client_id: str | None, header_version: int) -> None:
    header = RequestHeader(
        request_api_key=ApiKey.FETCH, request_api_version=12, correlation_id=-5, client_id=client_id
    ).encode(header_version)
    key, version, correlation_id, length = read_fixed_header(header + BODY)
    assert (key, version, correlation_id) == (ApiKey.FETCH, 12, -5)
    rest = read_rest_of_header(header + BODY, length, is_flexible=header_version == 2, tagged_fields_max=0)
    assert rest == (client_id, len(header))


def test_tagged_fields_are_skipped_up_to_the_limit() -> None:
    request = bytes.fromhex("00010001000000070000" + "02" + "0001aa" + "0500") + BODY
    assert read_rest_of_header(request, 0, is_flexible=True, tagged_fields_max=2) == ("", len(request) - len(BODY))
    with pytest.raises(DecodeError):
        read_rest_of_header(request, 0, is_flexible=True, tagged_fields_max=1)


def test_a_malformed_client_id_is_kept_with_replacement_characters() -> None:
    request = bytes.fromhex("00010001000000070002" + "61ff")
    assert read_rest_of_header(request, 2, is_flexible=False, tagged_fields_max=0) == ("a\ufffd", len(request))


def test_a_truncated_header_is_a_decode_error_at_every_length() -> None:
    header = RequestHeader(request_api_key=ApiKey.FETCH, request_api_version=12, client_id="cut").encode(2)
    for size in range(len(header)):
        with pytest.raises(DecodeError):
            read_rest_of_header(
                header[:size], read_fixed_header(header[:size])[3], is_flexible=True, tagged_fields_max=0
            )
