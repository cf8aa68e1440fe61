"""The voters of the quorum, as values.

A set never changes in place: ``add``, ``remove`` and ``update`` give the next one, or None when the change does
not apply. Only one voter may change at a time, so that any majority of the old set overlaps any of the new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
    """A voter: its key, its endpoints by listener name, and the kraft.version levels that it can work with."""

    key: ReplicaKey
    listeners: Mapping[str, Endpoint]
    kraft_version_min: int = 0
    kraft_version_max: int = 0

    def supports(self, kraft_version: int) -> bool:
        return self.kraft_version_min <= kraft_version <= self.kraft_version_max


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
        """A voter is known by id, and by directory too when the set knows the directory."""
        voter = self._voters.get(key.id)
        if voter is None:
            return False
        return not voter.key.has_directory or voter.key.directory_id == key.directory_id

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self._voters) == 1 and self.is_voter(key)

    def endpoint(self, voter_id: int, listener: str) -> Endpoint | None:
        voter = self._voters.get(voter_id)
        return voter.listeners.get(listener) if voter is not None else None

    def supports(self, kraft_version: int) -> bool:
        return all(voter.supports(kraft_version) for voter in self)

    def add(self, voter: VoterNode) -> VoterSet | None:
        if voter.key.id in self._voters:
            return None
        return VoterSet([*self, voter])

    def remove(self, key: ReplicaKey) -> VoterSet | None:
        voter = self._voters.get(key.id)
        if voter is None or voter.key != key:
            return None
        return VoterSet(other for other in self if other.key.id != key.id)

    def update(self, voter: VoterNode) -> VoterSet | None:
        """Replace the endpoints and levels of a voter whose key stays, or becomes known."""
        old = self._voters.get(voter.key.id)
        if old is None or (old.key.has_directory and old.key != voter.key):
            return None
        return VoterSet(voter if other.key.id == voter.key.id else other for other in self)

    def without_directories(self) -> VoterSet:
        return VoterSet(replace(voter, key=ReplicaKey(voter.key.id)) for voter in self)

    def has_overlapping_majority(self, other: VoterSet) -> bool:
        """True when the sets differ by one voter at most."""
        mine, theirs = set(self.keys), set(other.keys)
        return len(mine - theirs) <= 1 and len(theirs - mine) <= 1
