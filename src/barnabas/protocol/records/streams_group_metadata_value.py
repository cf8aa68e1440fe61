"""StreamsGroupMetadataValue (coordinator record value 17): the epoch of a streams group."""

from barnabas.protocol.schema import Message, Struct, array, int32, int64, string

__all__ = ["LastAssignmentConfig", "StreamsGroupMetadataValue"]


class LastAssignmentConfig(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(Message, api_key=17, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(LastAssignmentConfig, nullable="0+", tag=1)
