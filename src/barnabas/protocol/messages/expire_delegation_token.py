"""ExpireDelegationToken (API key 40): changes when a delegation token expires."""

from barnabas.protocol.schema import Message, Request, bytes_, int16, int32, int64

__all__ = ["ExpireDelegationTokenRequest", "ExpireDelegationTokenResponse"]


class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"], api_key=40, versions="1-2", flexible="2+"):
    hmac: bytes = bytes_(secret=True)
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message, api_key=40, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
