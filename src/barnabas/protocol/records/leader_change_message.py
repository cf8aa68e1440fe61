"""LeaderChangeMessage (data): control record: the leader of a raft epoch and the voters that elected it."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, int16, int32, uuid

__all__ = ["LeaderChangeMessage", "Voter"]


class Voter(Struct):
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid("1+")


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    version: int = int16()
    leader_id: int = int32()
    voters: list[Voter] = array(Voter)
    granting_voters: list[Voter] = array(Voter)
