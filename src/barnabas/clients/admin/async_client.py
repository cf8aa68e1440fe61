"""The admin client for asyncio: every operation on a cluster in Kafka's protocol.

Use ``AdminClient``, which is this class and can also create the client for code without asyncio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from barnabas.clients.admin.acls import AclOperations
from barnabas.clients.admin.cluster import ClusterOperations
from barnabas.clients.admin.configs import ConfigOperations
from barnabas.clients.admin.features import FeatureOperations
from barnabas.clients.admin.log_dirs import LogDirOperations
from barnabas.clients.admin.quorum import QuorumOperations
from barnabas.clients.admin.quotas import QuotaOperations
from barnabas.clients.admin.replicas import ReplicaOperations
from barnabas.clients.admin.routing import Network, Router
from barnabas.clients.admin.share_group_offsets import ShareGroupOffsetOperations
from barnabas.clients.admin.tokens import TokenOperations
from barnabas.clients.admin.topics import TopicOperations
from barnabas.clients.admin.transactions import TransactionOperations
from barnabas.clients.admin.users import UserOperations
from barnabas.clients.client_config import ClientConfig, client_config, read_client_config
from barnabas.clients.network_client import NetworkClient

__all__ = ["AsyncAdminClient"]


class AsyncAdminClient(
    TopicOperations,
    TransactionOperations,
    ReplicaOperations,
    ConfigOperations,
    AclOperations,
    ShareGroupOffsetOperations,
    QuotaOperations,
    UserOperations,
    TokenOperations,
    ClusterOperations,
    FeatureOperations,
    QuorumOperations,
    LogDirOperations,
):
    """The operations of the admin client, with its settings and connections."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        config: ClientConfig | None = None,
        network: Network | None = None,
    ) -> None:
        """``config`` replaces the first two arguments. Raise InvalidClientConfig with all problems."""
        if config is None:
            servers = bootstrap_servers
            joined = servers if servers is None or isinstance(servers, str) else ",".join(servers)
            config = client_config(properties or {}, bootstrap=joined)
        if network is None:
            network = NetworkClient(config)
        super().__init__(config, Router(network, to_controllers=config.asks_controllers))

    @classmethod
    def from_file(cls, path: str, *, bootstrap_servers: str | None = None) -> Self:
        """Create a client from a properties file, as with ``--command-config`` of Kafka's tools."""
        return cls(config=read_client_config(path, bootstrap=bootstrap_servers))

    @property
    def config(self) -> ClientConfig:
        return self._config

    async def close(self) -> None:
        await self._router.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
