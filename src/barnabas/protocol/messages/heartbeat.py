"""Heartbeat (API key 12): keeps a classic group member alive."""

from barnabas.protocol.schema import Message, Request, int16, int32, string

__all__ = ["HeartbeatRequest", "HeartbeatResponse"]


class HeartbeatRequest(Request["HeartbeatResponse"], api_key=12, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
