"""ControlRecordTypeSchema (data): the key of a control record, after its version."""

from barnabas.protocol.schema import Message, int16

__all__ = ["ControlRecordTypeSchema"]


class ControlRecordTypeSchema(Message, versions="0"):
    type: int = int16()
