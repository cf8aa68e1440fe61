"""Builds new partitions from chosen replicas, and checks replicas that a caller chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.replica_placer import place_replicas
from barnabas.metadata.image.partition_registration import PartitionRegistration

__all__ = [
    "all_assigned_inactive",
    "all_placed_inactive",
    "new_partition",
    "place_on",
    "validate_can_replicate",
    "validate_manual_assignment",
]


def place_on(
    cluster: ClusterControlManager, count: int, factor: int, random_int: Callable[[int], int]
) -> Iterator[tuple[int, ...]]:
    """Yield the replicas of ``count`` new partitions, chosen on demand.

    Raises INVALID_REPLICATION_FACTOR immediately if too few brokers are available.

    Several replicas of a partition are placed only on brokers that support replication.
    """
    brokers = list(cluster.usable_brokers())
    alone = cluster.cannot_replicate(broker.id for broker in brokers) if factor > 1 else []
    if alone and len(brokers) - len(alone) < factor <= len(brokers):
        raise ApiException(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"Replication factor {factor} is not possible: {_why_alone(alone)}"
        )
    if factor <= len(brokers):
        brokers = [broker for broker in brokers if broker.id not in alone]
    return place_replicas(brokers, count, factor, random_int)


def validate_can_replicate(replicas: Sequence[int], cluster: ClusterControlManager) -> None:
    """Check brokers that will share a partition, or take it over from others."""
    alone = cluster.cannot_replicate(replicas) if len(replicas) > 1 else []
    if alone:
        raise _invalid(f"Replicas {', '.join(map(str, replicas))} can't share a partition: {_why_alone(alone)}")


def _why_alone(brokers: Sequence[int]) -> str:
    named = ", ".join(map(str, sorted(brokers)))
    who = f"broker {named} runs" if len(brokers) == 1 else f"brokers {named} run"
    return (
        f"{who} a release of barnabas that can't replicate. Upgrade there, use replication factor 1, or name other "
        "brokers."
    )


def new_partition(
    replicas: Sequence[int], cluster: ClusterControlManager, all_inactive: Callable[[], ApiException]
) -> PartitionRegistration:
    """Build a partition: every active replica is in sync and the first of them leads; raises if none is active."""
    isr = tuple(replica for replica in replicas if cluster.is_active(replica))
    if not isr:
        raise all_inactive()
    return PartitionRegistration(
        replicas=tuple(replicas),
        directories=tuple(cluster.directory_for_new_replica(replica) for replica in replicas),
        isr=isr,
        leader=isr[0],
    )


def all_placed_inactive(replication_factor: int) -> ApiException:
    return ApiException(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced or in "
        "controlled shutdown.",
    )


def all_assigned_inactive(partition_id: int) -> ApiException:
    return _invalid(
        f"All brokers specified in the manual partition assignment for partition {partition_id} are fenced or in "
        "controlled shutdown."
    )


def validate_manual_assignment(
    replicas: Sequence[int], replication_factor: int | None, cluster: ClusterControlManager
) -> None:
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    previous: int | None = None
    for replica in sorted(replicas):
        if not cluster.is_registered(replica):
            raise _invalid(
                f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            )
        if replica == previous:
            raise _invalid(f"The manual partition assignment includes the broker {replica} more than once.")
        previous = replica
    validate_can_replicate(replicas, cluster)
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _invalid(message: str) -> ApiException:
    return ApiException(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
