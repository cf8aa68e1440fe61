"""Copies partitions from one leader: over one connection with a fetch session, and a second one for new partitions.

A fetch waits at the leader for records, for ``replica.fetch.wait.max.ms`` at most. Partitions that are followed in the
meantime (after a failover, or of a new topic) would wait as long, and so would clients that wait for their records.
They are fetched over a second connection, without a session, until the first connection's request returns and the
next one can name them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.broker.fetch_connection import FetchConnection

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from barnabas.broker.replication.fetcher_partitions import FetchedPartition
    from barnabas.broker.replication.follower_replica import FollowerReplica
    from barnabas.broker.replication.replica_fetcher import ReplicaFetcher
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.server.broker.fetch_connection import LeaderAddress

__all__ = ["LeaderSource"]


class LeaderSource:
    def __init__(self, leader: LeaderAddress, new_fetcher: Callable[[bool], ReplicaFetcher]) -> None:
        """``new_fetcher`` receives whether the fetcher uses a fetch session."""
        self._leader = leader
        self._new_fetcher = new_fetcher
        self._main = FetchConnection(leader, new_fetcher(True), self._take_newcomers)
        self._newcomers: FetchConnection | None = None
        self._is_started = False

    def start(self) -> None:
        self._is_started = True
        self._main.start()

    def end(self) -> list[asyncio.Task[None]]:
        """End both connections and return their tasks."""
        tasks = [self._main.cancel(), self._end_newcomers()]
        return [task for task in tasks if task is not None]

    def follow(self, replica: FollowerReplica, leader_epoch: int) -> None:
        name = replica.topic_partition
        if self._main.is_waiting and not self._main.fetcher.is_following(replica, leader_epoch):
            self._main.fetcher.stop(name)
            connection = self._connection_of_newcomers()
            connection.fetcher.follow(replica, leader_epoch)
            connection.wake()
        else:
            if self._newcomers is not None:
                self._newcomers.fetcher.stop(name)
            self._main.fetcher.follow(replica, leader_epoch)
            self._main.wake()

    def stop(self, name: TopicPartition) -> None:
        self._main.fetcher.stop(name)
        if self._newcomers is not None:
            self._newcomers.fetcher.stop(name)

    @property
    def is_idle(self) -> bool:
        """Whether every fetcher is empty and none has a failed partition."""
        fetchers = self._fetchers()
        return all(fetcher.is_empty and not fetcher.failed for fetcher in fetchers)

    @property
    def failed_count(self) -> int:
        return sum(len(fetcher.failed) for fetcher in self._fetchers())

    def partitions(self) -> Iterator[FetchedPartition]:
        for fetcher in self._fetchers():
            yield from list(fetcher.partitions)

    def _fetchers(self) -> list[ReplicaFetcher]:
        newcomers = self._newcomers
        return [self._main.fetcher] if newcomers is None else [self._main.fetcher, newcomers.fetcher]

    # --- newcomers

    def _connection_of_newcomers(self) -> FetchConnection:
        if self._newcomers is None:
            self._newcomers = FetchConnection(self._leader, self._new_fetcher(False), _nothing)
            if self._is_started:
                self._newcomers.start()
        return self._newcomers

    def _take_newcomers(self) -> None:
        """Move the new partitions to the first connection, whose next request names them."""
        newcomers = self._newcomers
        if newcomers is None:
            return
        self._end_newcomers()
        for partition in list(newcomers.fetcher.partitions):
            self._main.fetcher.follow(partition.replica, partition.leader_epoch)
        self._main.fetcher.failed.update(newcomers.fetcher.failed)

    def _end_newcomers(self) -> asyncio.Task[None] | None:
        newcomers, self._newcomers = self._newcomers, None
        return None if newcomers is None else newcomers.cancel()


def _nothing() -> None:
    pass
