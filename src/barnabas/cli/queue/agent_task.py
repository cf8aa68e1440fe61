"""What an agent is started for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["AgentTask"]


@dataclass(frozen=True, slots=True)
class AgentTask:
    """A topic of a group. ``folder`` is that of the agents; ``idle_s`` is how long the agent stays without a use."""

    name: str
    folder: str
    bootstrap: str
    properties: Mapping[str, str]
    group: str
    topic: str
    idle_s: float
