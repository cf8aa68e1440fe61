"""The order in which publishers receive a new metadata image: the same in nodes and in the simulator.

The authorizer is first: a topic is never visible before its ACLs. The replicas of a broker precede the groups that are
stored in them. The publisher that announces an image as applied is last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.metadata.loader import MetadataLoader
    from barnabas.metadata.publisher import MetadataPublisher
    from barnabas.server.metadata_log.applied_offset import AppliedOffset
    from barnabas.server.node_authorizer import NodeAuthorizer

__all__ = ["broker_followers", "install_followers"]


def install_followers(
    loader: MetadataLoader,
    authorization: NodeAuthorizer,
    *,
    metadata: MetadataPublisher,
    snapshots: MetadataPublisher,
    applied: AppliedOffset,
    checks: Iterable[MetadataPublisher] = (),
    first: Iterable[MetadataPublisher] = (),
    last: Iterable[MetadataPublisher] = (),
) -> None:
    """Install the publishers in their order.

    ``checks`` may find that the node can't work with an image. Publishers in ``first`` serve requests from the image;
    those in ``last`` only adapt to it.
    """
    authorization.install(loader)
    for publisher in (*checks, metadata, *first, snapshots, *last, applied):
        loader.install(publisher)


def broker_followers(
    *,
    lifecycle: MetadataPublisher,
    replicas: MetadataPublisher,
    groups: MetadataPublisher,
    transactions: MetadataPublisher | None = None,
    share_state: MetadataPublisher | None = None,
    share_partitions: MetadataPublisher | None = None,
    topic_defaults: MetadataPublisher | None = None,
    replication_quotas: MetadataPublisher | None = None,
    log_dirs: MetadataPublisher | None = None,
    feature_notices: MetadataPublisher | None = None,
) -> tuple[MetadataPublisher, ...]:
    followers = (
        lifecycle,
        topic_defaults,
        replicas,
        replication_quotas,
        groups,
        transactions,
        share_state,
        share_partitions,
        log_dirs,
        feature_notices,
    )
    return tuple(follower for follower in followers if follower is not None)
