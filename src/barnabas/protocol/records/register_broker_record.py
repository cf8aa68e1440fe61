"""RegisterBrokerRecord (metadata record 0): puts a broker registration."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, bool_, int16, int32, int64, string, uint16, uuid

__all__ = ["BrokerEndpoint", "BrokerFeature", "RegisterBrokerRecord"]


class BrokerEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(Message, api_key=0, versions="0-4", flexible="0+"):
    broker_id: int = int32()
    is_migrating_zk_broker: bool = bool_("2+")
    incarnation_id: Uuid = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable="0+")
    fenced: bool = bool_(default=True)
    in_controlled_shutdown: bool = bool_("1+")
    log_dirs: list[Uuid] = array("uuid", "3+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = array("uuid", "4+", nullable="4+", tag=1, default=None)
