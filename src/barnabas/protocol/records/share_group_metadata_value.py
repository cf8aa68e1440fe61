"""ShareGroupMetadataValue (coordinator record value 11): the epoch of a share group."""

from barnabas.protocol.schema import Message, int32, int64

__all__ = ["ShareGroupMetadataValue"]


class ShareGroupMetadataValue(Message, api_key=11, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()
