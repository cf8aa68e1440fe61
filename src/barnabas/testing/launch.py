"""What a node needs to start. It travels to the node's process as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

__all__ = ["Launch"]


@dataclass(frozen=True, slots=True)
class Launch:
    name: str
    settings: Mapping[str, str]
    cluster_id: str
    folder: str
    """The node's folder, which is its disk."""
    initial_controllers: str | None = None
    """The voters, for a node that is a controller."""
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by user: SCRAM credentials of a new cluster."""
    to_remove: str | None = None
    """A temporary folder, which the node's process removes when its parent has died."""
    is_disk_full: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Launch:
        return cls(**json.loads(text))
