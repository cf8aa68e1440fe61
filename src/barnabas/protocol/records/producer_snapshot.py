"""ProducerSnapshot (data): the producer state file of a partition."""

from barnabas.protocol.schema import Message, Struct, array, int16, int32, int64, uint32

__all__ = ["ProducerEntry", "ProducerSnapshot"]


class ProducerEntry(Struct):
    producer_id: int = int64("1")
    epoch: int = int16("1")
    last_sequence: int = int32("1")
    last_offset: int = int64("1")
    offset_delta: int = int32("1")
    timestamp: int = int64("1")
    coordinator_epoch: int = int32("1")
    current_txn_first_offset: int = int64("1")


class ProducerSnapshot(Message, versions="1"):
    crc: int = uint32("1")
    producer_entries: list[ProducerEntry] = array(ProducerEntry, "1")
