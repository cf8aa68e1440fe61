"""ShareGroupMemberMetadataValue (coordinator record value 10): a member of a share group."""

from barnabas.protocol.schema import Message, array, string

__all__ = ["ShareGroupMemberMetadataValue"]


class ShareGroupMemberMetadataValue(Message, api_key=10, versions="0", flexible="0+"):
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
