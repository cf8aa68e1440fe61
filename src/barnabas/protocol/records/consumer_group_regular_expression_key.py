"""ConsumerGroupRegularExpressionKey (coordinator record key 16).

Names a subscription by regular expression, resolved.
"""

from barnabas.protocol.schema import Message, string

__all__ = ["ConsumerGroupRegularExpressionKey"]


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions="0"):
    group_id: str = string("0")
    regular_expression: str = string("0")
