"""The voters of the quorum, as values: a set never changes, a control record of the log defines the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.raft.replica_key import ReplicaKey

__all__ = ["Endpoint", "VoterNode", "VoterSet"]


class Endpoint(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class VoterNode:
    """A voter: its key, its endpoints by listener name, and the kraft.version levels that it supports."""

    key: ReplicaKey
    listeners: Mapping[str, Endpoint]
    kraft_version_min: int = 0
    kraft_version_max: int = 0


class VoterSet:
    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[VoterNode] = ()) -> None:
        self._voters = {voter.key.id: voter for voter in voters}

    def __len__(self) -> int:
        return len(self._voters)

    def __iter__(self) -> Iterator[VoterNode]:
        return iter(self._voters.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(frozenset(voter.key for voter in self))

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter.key) for voter in self)})"

    @property
    def ids(self) -> list[int]:
        return list(self._voters)

    @property
    def keys(self) -> list[ReplicaKey]:
        return [voter.key for voter in self]

    @property
    def majority(self) -> int:
        return len(self._voters) // 2 + 1

    def get(self, voter_id: int) -> VoterNode | None:
        return self._voters.get(voter_id)

    def is_voter(self, key: ReplicaKey) -> bool:
        """Return whether a voter has this id, and this directory if the set knows the voter's directory."""
        voter = self._voters.get(key.id)
        if voter is None:
            return False
        return not voter.key.has_directory or voter.key.directory_id == key.directory_id

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self._voters) == 1 and self.is_voter(key)

    def endpoint(self, voter_id: int, listener: str) -> Endpoint | None:
        voter = self._voters.get(voter_id)
        return voter.listeners.get(listener) if voter is not None else None
