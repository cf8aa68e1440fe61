"""ConsumerGroupMetadataValue (coordinator record value 3): a next-generation consumer group."""

from barnabas.protocol.schema import Message, int32, int64

__all__ = ["ConsumerGroupMetadataValue"]


class ConsumerGroupMetadataValue(Message, api_key=3, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)
