"""Rules for topic names, with Kafka's texts."""

from __future__ import annotations

import re

__all__ = [
    "ACCESS_AUDIT_TOPIC",
    "GROUP_METADATA_TOPIC",
    "INTERNAL_TOPIC_NAMES",
    "SHARE_STATE_TOPIC",
    "TOPIC_NAME_LENGTH_MAX",
    "TRANSACTION_STATE_TOPIC",
    "has_collision_characters",
    "topic_name_problem",
    "unified_topic_name",
]

TOPIC_NAME_LENGTH_MAX = 249
"""A directory is named ``topic-partition``, and file names have at most 255 bytes."""

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
ACCESS_AUDIT_TOPIC = "__access_audit"
"""barnabas's own topic of access decisions. Only nodes write to it."""

INTERNAL_TOPIC_NAMES = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC, ACCESS_AUDIT_TOPIC})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_problem(name: str) -> str | None:
    """Return why the name is not allowed, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than "
            f"the max allowed length {TOPIC_NAME_LENGTH_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters "
            "other than ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def has_collision_characters(name: str) -> bool:
    """Dots become underscores in metric names, so names that differ only there would share metrics."""
    return "." in name or "_" in name


def unified_topic_name(name: str) -> str:
    return name.replace(".", "_")
