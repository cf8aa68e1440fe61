"""FeatureLevelRecord (metadata record 12): finalizes a feature's level; level 0 removes it."""

from barnabas.protocol.schema import Message, int16, string

__all__ = ["FeatureLevelRecord"]


class FeatureLevelRecord(Message, api_key=12, versions="0", flexible="0+"):
    name: str = string()
    feature_level: int = int16()
