"""StreamsGroupMemberMetadataValue (coordinator record value 19): a member of a streams group."""

from barnabas.protocol.schema import Message, Struct, array, int32, string, struct, uint16

__all__ = ["Endpoint", "KeyValue", "StreamsGroupMemberMetadataValue"]


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataValue(Message, api_key=19, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)
