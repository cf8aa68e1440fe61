"""Envelope (API key 58): a forwarded request with the principal and address of its sender (KIP-590)."""

from barnabas.protocol.schema import Message, Request, bytes_, int16

__all__ = ["EnvelopeRequest", "EnvelopeResponse"]


class EnvelopeRequest(Request["EnvelopeResponse"], api_key=58, versions="0", flexible="0+"):
    request_data: bytes = bytes_(secret=True)
    request_principal: bytes | None = bytes_(nullable="0+")
    client_host_address: bytes = bytes_()


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    response_data: bytes | None = bytes_(nullable="0+", default=None, secret=True)
    error_code: int = int16()
