"""Mistakes about who is in sync, who may lead, and what a leader still knows when it leads again."""

from __future__ import annotations

from typing import Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster.defects import defect, replace_in

NEEDS = "replicates"
NEEDS_ELR = "remembers_eligible"
LEADERSHIP = "broker.replication.partition_leadership"


@defect("lost-leadership-answered-as-success", "who waits for the replicas is told that all is well", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, error=ErrorCode.NONE: original(self, ErrorCode.NONE)

    replace_in("broker.replication.leader_replica", "LeaderReplica.end", make)


@defect("min-insync-replicas-ignored", "records are taken and committed however few are in sync", NEEDS_ELR)
def _() -> None:
    replace_in(LEADERSHIP, "PartitionLeadership.required_in_sync", lambda original: lambda self, min_insync_replicas: 1)


@defect("unclean-election-unasked", "a replica that is out of sync is elected where the topic does not allow it", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def builder_for(self: Any, *arguments: Any, **options: Any) -> Any:
            from barnabas.controller.partition_change_builder import Election

            builder = original(self, *arguments, **options)
            builder.election = Election.UNCLEAN
            return builder

        return builder_for

    replace_in("controller.partition_election", "PartitionElection.builder_for", make)
