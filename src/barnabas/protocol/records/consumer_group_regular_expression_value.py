"""ConsumerGroupRegularExpressionValue (coordinator record value 16).

A subscription by regular expression, resolved.
"""

from barnabas.protocol.schema import Message, array, int64

__all__ = ["ConsumerGroupRegularExpressionValue"]


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions="0", flexible="0+"):
    topics: list[str] = array("string")
    version: int = int64()
    timestamp: int = int64()
