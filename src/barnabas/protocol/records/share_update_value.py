"""ShareUpdateValue (coordinator record value 1): changes to the state of a share-partition since its snapshot."""

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, int64

__all__ = ["ShareUpdateValue", "StateBatch"]


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareUpdateValue(Message, api_key=1, versions="0", flexible="0+"):
    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, default=-1)
    state_batches: list[StateBatch] = array(StateBatch)
