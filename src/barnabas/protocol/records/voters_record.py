"""VotersRecord (data): control record: the voters of the quorum."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, int16, int32, string, struct, uint16, uuid

__all__ = ["Endpoint", "KRaftVersionFeature", "Voter", "VotersRecord"]


class Endpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class Voter(Struct):
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    endpoints: list[Endpoint] = array(Endpoint)
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature, json="kRaftVersionFeature")


class VotersRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    voters: list[Voter] = array(Voter)
