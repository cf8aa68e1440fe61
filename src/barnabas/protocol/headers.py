"""Request and response headers, and which header version goes with which API version.

An ApiVersions response always has header version 0, so that a client may read it before anything is negotiated.
"""

from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.schema import Message, int16, int32, string

__all__ = ["RequestHeader", "ResponseHeader", "request_header_version", "response_header_version"]


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
