"""An admin client that loads an operation's module when it is first used.

All modules together take longer to load than most commands to run, and a command uses one or two of them.
"""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.clients.admin.routing import Router

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient as _AdminClient
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.network_client import NetworkClient
else:
    _AdminClient = object  # The class itself would load all modules.

__all__ = ["AREAS", "LazyAdmin"]

AREAS = {
    "topics": ("TopicOperations", "create_topics delete_topics create_partitions list_topics describe_topics"),
    "transactions": (
        "TransactionOperations",
        "describe_producers list_transactions describe_transactions fence_producers abort_transaction",
    ),
    "partitions": ("PartitionOperations", "list_offsets delete_records"),
    "replicas": (
        "ReplicaOperations",
        "elect_leaders alter_partition_reassignments await_replicas list_partition_reassignments",
    ),
    "configs": (
        "ConfigOperations",
        "describe_configs stream_configs incremental_alter_configs alter_configs list_config_resources",
    ),
    "acls": ("AclOperations", "describe_acls create_acls delete_acls"),
    "group_offsets": ("GroupOffsetOperations", "list_group_offsets alter_group_offsets delete_group_offsets"),
    "share_group_offsets": (
        "ShareGroupOffsetOperations",
        "list_share_group_offsets alter_share_group_offsets delete_share_group_offsets",
    ),
    "groups": ("GroupOperations", "list_groups describe_groups delete_groups remove_members"),
    "quotas": ("QuotaOperations", "describe_client_quotas alter_client_quotas"),
    "users": ("UserOperations", "describe_user_scram_credentials alter_user_scram_credentials"),
    "tokens": (
        "TokenOperations",
        "create_delegation_token renew_delegation_token expire_delegation_token describe_delegation_tokens",
    ),
    "cluster": ("ClusterOperations", "describe_cluster require_api unregister_broker"),
    "features": ("FeatureOperations", "describe_features describe_features_of_brokers update_features"),
    "quorum": ("QuorumOperations", "describe_quorum add_raft_voter remove_raft_voter"),
    "log_dirs": ("LogDirOperations", "describe_log_dirs alter_replica_log_dirs"),
}
"""The class of each module of ``barnabas.clients.admin``, and its operations."""


class LazyAdmin(_AdminClient):
    """Has the operations of ``AdminClient``."""

    def __init__(self, config: ClientConfig, network: NetworkClient) -> None:
        self._config = config
        self._router = Router(network, to_controllers=config.asks_controllers)

    @property
    def config(self) -> ClientConfig:
        return self._config

    if not TYPE_CHECKING:  # A type checker would accept any name.

        def __getattr__(self, name: str) -> object:
            for module, (area, operations) in AREAS.items():
                if name in operations.split():
                    kind = getattr(import_module(f"barnabas.clients.admin.{module}"), area)
                    found: object = getattr(kind(self._config, self._router), name)
                    setattr(self, name, found)
                    return found
            raise AttributeError(f"{type(self).__name__} has no operation {name!r}")

    async def close(self) -> None:
        await self._router.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
