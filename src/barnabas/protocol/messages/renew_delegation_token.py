"""RenewDelegationToken (API key 39): renews a delegation token."""

from barnabas.protocol.schema import Message, Request, bytes_, int16, int32, int64

__all__ = ["RenewDelegationTokenRequest", "RenewDelegationTokenResponse"]


class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"], api_key=39, versions="1-2", flexible="2+"):
    hmac: bytes = bytes_(secret=True)
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Message, api_key=39, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
