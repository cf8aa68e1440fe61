"""PushTelemetry (API key 72): a client's metrics."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Request, bool_, bytes_, int8, int16, int32, uuid

__all__ = ["PushTelemetryRequest", "PushTelemetryResponse"]


class PushTelemetryRequest(Request["PushTelemetryResponse"], api_key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    terminating: bool = bool_()
    compression_type: int = int8()
    metrics: bytes = bytes_()


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
