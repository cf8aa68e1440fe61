"""RegisterControllerRecord (metadata record 27): puts a controller registration."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, bool_, int16, int32, string, uint16, uuid

__all__ = ["ControllerEndpoint", "ControllerFeature", "RegisterControllerRecord"]


class ControllerEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class ControllerFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterControllerRecord(Message, api_key=27, versions="0", flexible="0+"):
    controller_id: int = int32()
    incarnation_id: Uuid = uuid()
    zk_migration_ready: bool = bool_()
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint)
    features: list[ControllerFeature] = array(ControllerFeature)
