"""Forwarded calls: the Envelope that a broker sends, and the answer that it unwraps (KIP-590)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.host_address import host_address_text
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.record_serde import decode_versioned, encode_versioned
from barnabas.protocol.records.default_principal_data import DefaultPrincipalData
from tests.oracles.corpus import check_all, grouped
from tests.oracles.messages import message_class

pytestmark = pytest.mark.oracle

GROUPS = grouped("envelope", lambda data: data.get("innerApi", "error"))


@pytest.mark.parametrize("api", GROUPS)
def test_envelopes_equal_those_of_kafka(api: str) -> None:
    check_all(GROUPS[api], check_error if api == "error" else check_envelope)


def check_error(data: dict[str, Any]) -> None:
    response = EnvelopeResponse(error_code=ErrorCode[data["error"]])
    assert response.encode(0).hex() == data["envelopeResponseHex"]
    assert EnvelopeResponse.decode(bytes.fromhex(data["envelopeResponseHex"]), 0) == response


def check_envelope(data: dict[str, Any]) -> None:
    key, version = ApiKey(data["innerKey"]), data["innerVersion"]
    assert request_header_version(key, version) == data["innerHeaderVersion"]
    assert response_header_version(key, version) == data["innerResponseHeaderVersion"]
    check_request(data, version)
    check_response(data, version)


def check_request(data: dict[str, Any], version: int) -> None:
    encoded = bytes.fromhex(data["envelopeRequestHex"])
    envelope = EnvelopeRequest.decode(encoded, 0)
    header, end = RequestHeader.read(envelope.request_data, 0, data["innerHeaderVersion"])
    assert header.to_json(data["innerHeaderVersion"]) == data["innerHeader"]
    request_class = message_class(data["innerApi"], "request")
    assert request_class.decode(envelope.request_data, version, end).to_json(version) == data["innerRequest"]
    assert envelope.request_principal is not None
    principal, _ = decode_versioned(DefaultPrincipalData, envelope.request_principal)
    assert f"{principal.type}:{principal.name}" == data["principal"]
    assert principal.token_authenticated == data["tokenAuthenticated"]
    assert host_address_text(envelope.client_host_address) == data["clientAddress"]

    type_, _, name = data["principal"].partition(":")
    again = EnvelopeRequest(
        request_data=RequestHeader.from_json(data["innerHeader"], data["innerHeaderVersion"]).encode(
            data["innerHeaderVersion"]
        )
        + request_class.from_json(data["innerRequest"], version).encode(version),
        request_principal=encode_versioned(
            DefaultPrincipalData(type=type_, name=name, token_authenticated=data["tokenAuthenticated"]), 0
        ),
        client_host_address=bytes.fromhex(data["clientAddressHex"]),
    )
    assert again.encode(0) == encoded


def check_response(data: dict[str, Any], version: int) -> None:
    encoded = bytes.fromhex(data["envelopeResponseHex"])
    envelope = EnvelopeResponse.decode(encoded, 0)
    assert envelope.error_code == ErrorCode.NONE
    assert envelope.response_data is not None
    header, end = ResponseHeader.read(envelope.response_data, 0, data["innerResponseHeaderVersion"])
    assert header.correlation_id == data["innerHeader"]["correlationId"]
    response_class = message_class(data["innerApi"], "response")
    response = response_class.decode(envelope.response_data, version, end)
    assert response.to_json(version) == data["innerResponse"]
    inner = header.encode(data["innerResponseHeaderVersion"])
    inner += response_class.from_json(data["innerResponse"], version).encode(version)
    assert EnvelopeResponse(response_data=inner).encode(0) == encoded
