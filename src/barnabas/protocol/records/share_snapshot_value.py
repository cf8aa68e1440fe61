"""ShareSnapshotValue (coordinator record value 0): the whole state of a share-partition."""

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, int64

__all__ = ["ShareSnapshotValue", "StateBatch"]


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Message, api_key=0, versions="0", flexible="0+"):
    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, default=-1)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)
