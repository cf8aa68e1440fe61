"""BrokerHeartbeat (API key 63): keeps a broker registered; fences, unfences and shuts it down."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Request, array, bool_, int16, int32, int64

__all__ = ["BrokerHeartbeatRequest", "BrokerHeartbeatResponse"]


class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"], api_key=63, versions="0-2", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = bool_()
    want_shut_down: bool = bool_()
    offline_log_dirs: list[Uuid] = array("uuid", "1+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = array("uuid", "2+", nullable="2+", tag=1, default=None)


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = bool_()
    is_fenced: bool = bool_(default=True)
    should_shut_down: bool = bool_()
