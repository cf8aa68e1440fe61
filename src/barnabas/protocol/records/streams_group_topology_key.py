"""StreamsGroupTopologyKey (coordinator record key 23): names the topology of a streams group."""

from barnabas.protocol.schema import Message, string

__all__ = ["StreamsGroupTopologyKey"]


class StreamsGroupTopologyKey(Message, api_key=23, versions="0"):
    group_id: str = string("0")
