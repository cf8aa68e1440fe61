"""What the coordinator needs to know of whoever sent a request."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GroupRequestContext"]


class GroupRequestContext(NamedTuple):
    api_version: int
    client_id: str = ""
    client_host: str = ""
    """As Kafka shows it in DescribeGroups: ``/127.0.0.1``."""
