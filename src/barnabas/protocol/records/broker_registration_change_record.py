"""BrokerRegistrationChangeRecord (metadata record 17).

Fences, unfences, shuts down, or changes the directories of a broker.
"""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, array, int8, int32, int64

__all__ = ["BrokerRegistrationChangeRecord"]


class BrokerRegistrationChangeRecord(Message, api_key=17, versions="0-3", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8("1+", tag=1)
    log_dirs: list[Uuid] = array("uuid", "2+", tag=2)
    cordoned_log_dirs: list[Uuid] | None = array("uuid", "3+", nullable="3+", tag=3, default=None)
