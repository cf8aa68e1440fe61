"""SaslAuthenticate (API key 36): carries SASL tokens, with errors and session life time."""

from barnabas.protocol.schema import Message, Request, bytes_, int16, int64, string

__all__ = ["SaslAuthenticateRequest", "SaslAuthenticateResponse"]


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = bytes_(secret=True)


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = bytes_(secret=True)
    session_lifetime_ms: int = int64("1+", ignorable=True)
