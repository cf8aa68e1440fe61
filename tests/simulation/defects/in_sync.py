"""Defects in the rules for which replicas are in sync, how many must be, and which may lead."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in

NEEDS = "replicates"
NEEDS_ELR = "remembers_eligible"
LEADERSHIP = "broker.replication.partition_leadership"


@defect("joins-before-it-has-caught-up", "a follower joins the ISR with its first fetch", NEEDS)
def _() -> None:
    replace_in(
        LEADERSHIP, "PartitionLeadership.has_caught_up", lambda original: lambda self, replica, high_watermark: True
    )


@defect("min-insync-replicas-ignored", "records are accepted and committed however few replicas are in sync", NEEDS_ELR)
def _() -> None:
    replace_in(LEADERSHIP, "PartitionLeadership.required_in_sync", lambda original: lambda self, min_insync_replicas: 1)


@defect("unclean-election-unasked", "an out-of-sync replica is elected although the topic does not allow it", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def builder_for(self: Any, *arguments: Any, **options: Any) -> Any:
            from barnabas.controller.partition_change_builder import Election

            builder = original(self, *arguments, **options)
            builder.election = Election.UNCLEAN
            return builder

        return builder_for

    replace_in("controller.partition_election", "PartitionElection.builder_for", make)
