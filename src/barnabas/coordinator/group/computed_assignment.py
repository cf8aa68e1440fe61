"""Calls an assignor, and turns its error into the answer of the member whose request needed the assignment."""

from __future__ import annotations

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.assignor.assignors import assignor_named
from barnabas.coordinator.group.assignor.group_spec import GroupAssignment, GroupSpec, PartitionAssignorError
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group_state import GroupType

__all__ = ["computed_assignment"]


def computed_assignment(
    group_type: GroupType, assignor: str, spec: GroupSpec, view: ClusterView, epoch: int
) -> GroupAssignment:
    """Return the target assignment for an epoch of a group; raises UNKNOWN_SERVER_ERROR, UNSUPPORTED_ASSIGNOR."""
    chosen = assignor_named(assignor, group_type)
    if chosen is None:
        raise ApiException(ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {assignor} is not supported.")
    try:
        return chosen.assign(spec, view)
    except PartitionAssignorError as error:
        raise ApiException(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Failed to compute a new target assignment for epoch {epoch}: {error}",
        ) from error
