"""ClientQuotaRecord (metadata record 14): sets or removes one quota key of an entity."""

from barnabas.protocol.schema import Message, Struct, array, bool_, float64, string

__all__ = ["ClientQuotaRecord", "EntityData"]


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class ClientQuotaRecord(Message, api_key=14, versions="0", flexible="0+"):
    entity: list[EntityData] = array(EntityData)
    key: str = string()
    value: float = float64()
    remove: bool = bool_()
