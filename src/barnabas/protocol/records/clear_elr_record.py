"""ClearElrRecord (metadata record 28).

Drops the eligible leader replicas of a topic, or of all when the name is empty.
"""

from barnabas.protocol.schema import Message, string

__all__ = ["ClearElrRecord"]


class ClearElrRecord(Message, api_key=28, versions="0", flexible="0+"):
    topic_name: str = string()
