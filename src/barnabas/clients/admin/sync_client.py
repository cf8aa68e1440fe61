"""The admin client for code without asyncio: the same operations, run by an event loop on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from barnabas.clients.admin.async_client import AsyncAdminClient
from barnabas.clients.client_config import ClientConfig, client_config, read_client_config

__all__ = ["SyncAdminClient"]

P = ParamSpec("P")
R = TypeVar("R")

_BATCH = 1000
"""Items of a stream that are passed from one thread to the other at a time."""


def _blocking(
    operation: Callable[Concatenate[AsyncAdminClient, P], Awaitable[R]],
) -> Callable[Concatenate[SyncAdminClient, P], R]:
    @wraps(operation)
    def run(self: SyncAdminClient, /, *args: P.args, **options: P.kwargs) -> R:
        async def done() -> R:
            return await operation(self._admin, *args, **options)

        return self._run(done())

    return run


def _streaming(
    operation: Callable[Concatenate[AsyncAdminClient, P], AsyncGenerator[R]],
) -> Callable[Concatenate[SyncAdminClient, P], Iterator[R]]:
    @wraps(operation)
    def run(self: SyncAdminClient, /, *args: P.args, **options: P.kwargs) -> Iterator[R]:
        items = operation(self._admin, *args, **options)

        async def next_batch() -> list[R]:
            batch: list[R] = []
            async for item in items:
                batch.append(item)
                if len(batch) == _BATCH:
                    break
            return batch

        try:
            while batch := self._run(next_batch()):
                yield from batch
        finally:
            self._run(items.aclose())

    return run


class SyncAdminClient:
    """Use it as ``with SyncAdminClient("host:9092") as admin``, or close it. Any thread may use it.

    Each operation is the one of ``AdminClient``, with the same arguments and results; listings are ordinary iterators.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        config: ClientConfig | None = None,
    ) -> None:
        if config is None:
            servers = bootstrap_servers
            joined = servers if servers is None or isinstance(servers, str) else ",".join(servers)
            config = client_config(properties or {}, bootstrap=joined)
        self._admin = AsyncAdminClient(config=config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="barnabas-admin", daemon=True)
        self._thread.start()

    @classmethod
    def from_file(cls, path: str, *, bootstrap_servers: str | None = None) -> Self:
        return cls(config=read_client_config(path, bootstrap=bootstrap_servers))

    create_topics = _blocking(AsyncAdminClient.create_topics)
    delete_topics = _blocking(AsyncAdminClient.delete_topics)
    create_partitions = _blocking(AsyncAdminClient.create_partitions)
    list_topics = _streaming(AsyncAdminClient.list_topics)
    describe_topics = _blocking(AsyncAdminClient.describe_topics)

    list_offsets = _blocking(AsyncAdminClient.list_offsets)
    delete_records = _blocking(AsyncAdminClient.delete_records)
    elect_leaders = _blocking(AsyncAdminClient.elect_leaders)
    alter_partition_reassignments = _blocking(AsyncAdminClient.alter_partition_reassignments)
    await_replicas = _blocking(AsyncAdminClient.await_replicas)
    list_partition_reassignments = _blocking(AsyncAdminClient.list_partition_reassignments)

    describe_producers = _blocking(AsyncAdminClient.describe_producers)
    list_transactions = _blocking(AsyncAdminClient.list_transactions)
    describe_transactions = _blocking(AsyncAdminClient.describe_transactions)
    fence_producers = _blocking(AsyncAdminClient.fence_producers)
    abort_transaction = _blocking(AsyncAdminClient.abort_transaction)

    describe_configs = _blocking(AsyncAdminClient.describe_configs)
    stream_configs = _streaming(AsyncAdminClient.stream_configs)
    incremental_alter_configs = _blocking(AsyncAdminClient.incremental_alter_configs)
    alter_configs = _blocking(AsyncAdminClient.alter_configs)
    list_config_resources = _blocking(AsyncAdminClient.list_config_resources)

    describe_acls = _streaming(AsyncAdminClient.describe_acls)
    create_acls = _blocking(AsyncAdminClient.create_acls)
    delete_acls = _blocking(AsyncAdminClient.delete_acls)

    list_groups = _blocking(AsyncAdminClient.list_groups)
    describe_groups = _blocking(AsyncAdminClient.describe_groups)
    delete_groups = _blocking(AsyncAdminClient.delete_groups)
    remove_members = _blocking(AsyncAdminClient.remove_members)
    list_group_offsets = _blocking(AsyncAdminClient.list_group_offsets)
    alter_group_offsets = _blocking(AsyncAdminClient.alter_group_offsets)
    delete_group_offsets = _blocking(AsyncAdminClient.delete_group_offsets)
    list_share_group_offsets = _blocking(AsyncAdminClient.list_share_group_offsets)
    alter_share_group_offsets = _blocking(AsyncAdminClient.alter_share_group_offsets)
    delete_share_group_offsets = _blocking(AsyncAdminClient.delete_share_group_offsets)

    describe_cluster = _blocking(AsyncAdminClient.describe_cluster)
    require_api = _blocking(AsyncAdminClient.require_api)
    unregister_broker = _blocking(AsyncAdminClient.unregister_broker)

    describe_client_quotas = _blocking(AsyncAdminClient.describe_client_quotas)
    alter_client_quotas = _blocking(AsyncAdminClient.alter_client_quotas)

    describe_user_scram_credentials = _blocking(AsyncAdminClient.describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(AsyncAdminClient.alter_user_scram_credentials)

    create_delegation_token = _blocking(AsyncAdminClient.create_delegation_token)
    renew_delegation_token = _blocking(AsyncAdminClient.renew_delegation_token)
    expire_delegation_token = _blocking(AsyncAdminClient.expire_delegation_token)
    describe_delegation_tokens = _blocking(AsyncAdminClient.describe_delegation_tokens)

    describe_features = _blocking(AsyncAdminClient.describe_features)
    describe_features_of_brokers = _blocking(AsyncAdminClient.describe_features_of_brokers)
    update_features = _blocking(AsyncAdminClient.update_features)

    describe_quorum = _blocking(AsyncAdminClient.describe_quorum)
    add_raft_voter = _blocking(AsyncAdminClient.add_raft_voter)
    remove_raft_voter = _blocking(AsyncAdminClient.remove_raft_voter)

    describe_log_dirs = _blocking(AsyncAdminClient.describe_log_dirs)
    alter_replica_log_dirs = _blocking(AsyncAdminClient.alter_replica_log_dirs)

    @property
    def config(self) -> ClientConfig:
        return self._admin.config

    def close(self) -> None:
        """End the thread. A second call does nothing."""
        if self._loop.is_closed():
            return
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Close the client; calls of other threads are cancelled."""
        await self._admin.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()

    def _run(self, operation: Coroutine[object, object, R]) -> R:
        """Run on the loop. An interrupted call (Ctrl-C) is cancelled there too."""
        if self._loop.is_closed():
            operation.close()
            raise RuntimeError("this admin client is closed")
        future = asyncio.run_coroutine_threadsafe(operation, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
