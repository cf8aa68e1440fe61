"""The ports through which an operator may veto changes.

A policy refuses by raising ``PolicyViolation``; its message goes to the caller. Policies also run when a
caller only validates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from barnabas.common.errors import ApiException, ErrorCode

__all__ = ["AlterConfigPolicy", "CreateTopicPolicy", "PolicyViolation"]


class PolicyViolation(ApiException):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, message)


class CreateTopicPolicy(Protocol):
    """Either counts or assignments are given, as in the request; configs are those of the request."""

    def validate(
        self,
        topic: str,
        num_partitions: int | None,
        replication_factor: int | None,
        replica_assignments: Mapping[int, Sequence[int]] | None,
        configs: Mapping[str, str | None],
    ) -> None: ...


class AlterConfigPolicy(Protocol):
    """``configs`` has the keys that change; a key that is deleted has None."""

    def validate(self, resource_type: int, resource_name: str, configs: Mapping[str, str | None]) -> None: ...
