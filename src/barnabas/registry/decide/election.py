"""The election of the leader, by the group protocol of Confluent's registry: protocol type ``sr``, JSON in its fields.

Every member sends its URL and says whether it may lead. The leader of the group, as the coordinator names it, chooses
the registry's leader: the eligible member with the smallest id. Members with equal URLs can't be distinguished, so the
result is an error for all. Nodes of barnabas and of Confluent can be in one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

__all__ = ["PROTOCOL_NAME", "PROTOCOL_TYPE", "Assignment", "Identity", "MalformedIdentity", "elect"]

PROTOCOL_TYPE = "sr"
PROTOCOL_NAME = "v0"
_VERSION = 1


class MalformedIdentity(ValueError):
    """Bytes that no registry has written."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A node of the registry, as its group knows it."""

    scheme: str
    host: str
    port: int
    is_eligible: bool

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def as_json(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
            "version": _VERSION,
        }

    def encode(self) -> bytes:
        return msgspec.json.encode(self.as_json())

    @classmethod
    def decode(cls, data: bytes) -> Identity:
        """Raise MalformedIdentity."""
        return cls._read(_object(data))

    @classmethod
    def _read(cls, found: Mapping[str, Any]) -> Identity:
        host, port = found.get("host"), found.get("port")
        if not isinstance(host, str) or type(port) is not int:
            raise MalformedIdentity(f"no host and port: {found}")
        return cls(found.get("scheme") or "http", host, port, found.get("master_eligibility") is True)


@dataclass(frozen=True, slots=True)
class Assignment:
    """``leader`` is None if no member may lead. ``has_duplicates``: two members have the same URL."""

    member_id: str | None = None
    leader: Identity | None = None
    has_duplicates: bool = False

    def encode(self) -> bytes:
        found: dict[str, Any] = {"version": _VERSION, "error": int(self.has_duplicates)}
        if self.leader is not None:
            found |= {"master": self.member_id, "master_identity": self.leader.as_json()}
        return msgspec.json.encode(found)

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """Raise MalformedIdentity."""
        found = _object(data)
        if found.get("error"):
            return cls(has_duplicates=True)
        identity = found.get("master_identity")
        if not isinstance(identity, dict):
            return cls()
        return cls(found.get("master"), Identity._read(identity))


def elect(members: Mapping[str, bytes]) -> Assignment:
    """Choose the leader. ``members`` are their metadata by their ids. Raise MalformedIdentity."""
    identities = {member_id: Identity.decode(data) for member_id, data in members.items()}
    if len({identity.url for identity in identities.values()}) < len(identities):
        return Assignment(has_duplicates=True)
    eligible = sorted(member_id for member_id, identity in identities.items() if identity.is_eligible)
    return Assignment(eligible[0], identities[eligible[0]]) if eligible else Assignment()


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise MalformedIdentity(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise MalformedIdentity("not a JSON object")
    return found
