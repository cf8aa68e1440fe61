"""Request and response headers, and the header version of each API version.

An ApiVersions response always has header version 0, so that a client may read it before anything is negotiated.
A server reads a request's header in two steps, because the fields of fixed size decide whether it can read the rest.
"""

from struct import Struct

from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.compiler_runtime import skip_tagged_fields
from barnabas.protocol.errors import BufferUnderflow
from barnabas.protocol.schema import Message, int16, int32, string

__all__ = [
    "RequestHeader",
    "ResponseHeader",
    "read_fixed_header",
    "read_rest_of_header",
    "request_header_version",
    "response_header_version",
]

_FIXED = Struct(">hhih")


class RequestHeader(Message, versions="1-2", flexible="2+"):
    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = string("1+", nullable="1+", flexible=False)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = int32()


def request_header_version(api_key: ApiKey, api_version: int) -> int:
    return 2 if api_version >= API_TABLE[api_key].request_flexible_since else 1


def response_header_version(api_key: ApiKey, api_version: int) -> int:
    if api_key is ApiKey.API_VERSIONS:
        return 0
    return 1 if api_version >= API_TABLE[api_key].response_flexible_since else 0


def read_fixed_header(request: bytes | bytearray) -> tuple[int, int, int, int]:
    """Return the API key, API version, correlation id and the length of the client id. Raises DecodeError."""
    if len(request) < _FIXED.size:
        raise BufferUnderflow(f"{len(request)} bytes cannot hold a request header")
    return _FIXED.unpack_from(request)


def read_rest_of_header(
    request: bytes | bytearray, client_id_length: int, *, is_flexible: bool, tagged_fields_max: int
) -> tuple[str | None, int]:
    """Return the client id, and the position where the body begins. Raises DecodeError."""
    position = _FIXED.size
    client_id = None
    if client_id_length >= 0:
        position += client_id_length
        if position > len(request):
            raise BufferUnderflow("the client id is longer than the request")
        client_id = str(request[_FIXED.size : position], "utf-8", "replace")
    if is_flexible:
        try:
            position = skip_tagged_fields(request, position, tagged_fields_max)
        except IndexError:
            raise BufferUnderflow("the request ends inside its header") from None
    return client_id, position
