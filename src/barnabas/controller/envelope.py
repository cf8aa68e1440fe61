"""Envelope: a broker forwards a client's request, with the client's principal and address (KIP-590).

Errors are checked in this order, and the client's request takes effect only without an error: the sender lacks
CLUSTER_ACTION (31); the principal can't be read (97); the address is invalid (42); the header inside can't be read or
names an unknown API (35); brokers do not forward the API, Envelope itself among them (42); its
version is not served here, or its body can't be read (35). Bytes after the body are ignored, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.host_address import host_address_text
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import AclRule
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.decode_limits import UNLIMITED, DecodeLimits
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.headers import read_fixed_header, read_rest_of_header
from barnabas.security.request_context import RequestContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.network.api_handler import Access, ApiHandler, HandlerTable
    from barnabas.protocol.messages.envelope import EnvelopeRequest
    from barnabas.protocol.schema import Message
    from barnabas.security.principal import Principal

__all__ = ["ACL", "ForwardedRequest", "open_envelope"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),)

_HEADER_TAGS_MAX = 64


class ForwardedRequest(NamedTuple):
    """The content of an envelope. The context is the client's, on the channel of the broker."""

    handler: ApiHandler
    request: Message
    context: RequestContext


class _Header(NamedTuple):
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int


def open_envelope(
    envelope: EnvelopeRequest,
    access: Access,
    handlers: HandlerTable,
    deserialize: Callable[[bytes | None], Principal],
    limits: DecodeLimits = UNLIMITED,
) -> ForwardedRequest:
    """``access`` is the broker's. Raises ApiException with the error of the envelope.

    ``deserialize`` raises ValueError for bytes that are not a principal.
    """
    access.require_on_cluster(AclOperation.CLUSTER_ACTION)
    broker = access.context
    try:
        principal = deserialize(envelope.request_principal)
    except ValueError as error:
        raise ApiException(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, f"no principal: {error}") from error
    try:
        client_host = host_address_text(envelope.client_host_address)
    except ValueError as error:
        raise ApiException(ErrorCode.INVALID_REQUEST, str(error)) from error
    data = envelope.request_data
    header = _read_header(data, handlers)
    name = API_TABLE[header.api_key].name
    if not API_TABLE[header.api_key].forwardable:
        raise ApiException(ErrorCode.INVALID_REQUEST, f"brokers do not forward {name}")
    handler = handlers.handler(header.api_key)
    try:
        request, _ = handler.read(memoryview(data), header.end, header.api_version, limits)
    except (DecodeError, IndexError) as error:
        raise _unreadable(f"{name} version {header.api_version} cannot be read: {error}") from error
    context = RequestContext(
        api_key=header.api_key,
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        principal=principal,
        client_host=client_host,
        listener_name=broker.listener_name,
        security_protocol=broker.security_protocol,
        connection_id=broker.connection_id,
        from_privileged_listener=broker.from_privileged_listener,
        forwarding_principal=broker.principal,
    )
    return ForwardedRequest(handler, request, context)


def _read_header(data: bytes, handlers: HandlerTable) -> _Header:
    try:
        key, version, correlation_id, client_id_length = read_fixed_header(data)
    except DecodeError as error:
        raise _unreadable(str(error)) from error
    try:
        api_key = ApiKey(key)
    except ValueError:
        raise _unreadable(f"no API has the key {key}") from None
    info = API_TABLE[api_key]
    if info.forwardable:
        low, high = handlers.served.get(api_key, (0, -1))
        if not low <= version <= high:
            raise _unreadable(f"{info.name} version {version} is not served here")
    is_flexible = version >= info.request_flexible_since
    try:
        client_id, end = read_rest_of_header(
            data, client_id_length, is_flexible=is_flexible, tagged_fields_max=_HEADER_TAGS_MAX
        )
    except DecodeError as error:
        raise _unreadable(f"the header cannot be read: {error}") from error
    return _Header(api_key, version, correlation_id, client_id, end)


def _unreadable(why: str) -> ApiException:
    return ApiException(ErrorCode.UNSUPPORTED_VERSION, why)
