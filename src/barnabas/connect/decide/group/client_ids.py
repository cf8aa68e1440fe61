"""Distinguishes workers of this project from Kafka's by their ``client.id``, the prefix of member ids.

The coordinator creates the member ids (KIP-394), and the leader sees those of all members. A worker with another
``client.id`` counts as one of Kafka's, which is always safe.
"""

from __future__ import annotations

__all__ = ["default_client_id", "is_ours"]

_PREFIX = "barnabas-connect-"


def default_client_id(worker_id: str) -> str:
    """Return the ``client.id`` of a membership whose settings have none. Kafka's workers use ``connect-...``."""
    return _PREFIX + worker_id


def is_ours(member_id: str) -> bool:
    return member_id.startswith(_PREFIX)
