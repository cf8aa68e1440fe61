"""Kafka's names of loggers, and the corresponding loggers here.

Operators and runbooks use names like ``kafka.server.KafkaApis``. An exact name is listed as a logger of the broker; any
other class or package below one of the packages means the same logger as the package.
"""

from __future__ import annotations

__all__ = ["LOGGER_ALIASES", "logger_for"]

LOGGER_ALIASES: dict[str, str] = {
    "kafka": "barnabas",
    "org.apache.kafka": "barnabas",
    "state.change.logger": "barnabas.broker.isr_maintenance",
    "kafka.cluster.Partition": "barnabas.broker.replication",
    "kafka.controller": "barnabas.controller",
    "kafka.coordinator.group": "barnabas.coordinator.group",
    "kafka.coordinator.transaction": "barnabas.coordinator",
    "kafka.log": "barnabas.storage",
    "kafka.log.LogCleaner": "barnabas.storage.log_cleaner",
    "kafka.log.LogManager": "barnabas.storage.log_manager",
    "kafka.network": "barnabas.network",
    "kafka.network.ConnectionQuotas": "barnabas.network",
    "kafka.network.Processor": "barnabas.network",
    "kafka.network.RequestChannel$": "barnabas.network",
    "kafka.network.SocketServer": "barnabas.network",
    "kafka.server": "barnabas.server",
    "kafka.server.BrokerLifecycleManager": "barnabas.broker.lifecycle",
    "kafka.server.BrokerServer": "barnabas.server.node",
    "kafka.server.ConfigAdminManager": "barnabas.broker.config_alteration",
    "kafka.server.ControllerApis": "barnabas.controller.apis",
    "kafka.server.ControllerServer": "barnabas.server.controller.service",
    "kafka.server.DefaultAutoTopicCreationManager": "barnabas.broker.auto_topic_creation",
    "kafka.server.ForwardingManager": "barnabas.server.controller_channel.network",
    "kafka.server.KafkaApis": "barnabas.broker",
    "kafka.server.KafkaRaftServer": "barnabas.server.node",
    "kafka.server.ReplicaFetcherManager": "barnabas.server.broker.replica_fetcher_manager",
    "kafka.server.ReplicaFetcherThread": "barnabas.server.broker.replica_fetcher_manager",
    "kafka.server.ReplicaManager": "barnabas.broker.replica_manager",
    "org.apache.kafka.clients": "barnabas.clients",
    "org.apache.kafka.common.network": "barnabas.network",
    "org.apache.kafka.common.security": "barnabas.security",
    "org.apache.kafka.controller": "barnabas.controller",
    "org.apache.kafka.controller.QuorumController": "barnabas.controller",
    "org.apache.kafka.coordinator.group": "barnabas.coordinator.group",
    "org.apache.kafka.image": "barnabas.metadata",
    "org.apache.kafka.image.loader.MetadataLoader": "barnabas.server.metadata_log.commit_listener",
    "org.apache.kafka.metadata": "barnabas.metadata",
    "org.apache.kafka.metadata.authorizer": "barnabas.security.authorizer",
    "org.apache.kafka.raft": "barnabas.server.quorum.raft_driver",
    "org.apache.kafka.raft.KafkaRaftClient": "barnabas.server.quorum.raft_driver",
    "org.apache.kafka.server": "barnabas.server",
    "org.apache.kafka.storage": "barnabas.storage",
}

_TOO_WIDE = frozenset({"kafka", "org.apache.kafka"})
"""Exact names only: a name that is merely below one of them may be a typo, and would change every logger."""


def logger_for(name: str) -> str | None:
    """Return the logger here for a name of Kafka's; None for a name that Kafka cannot have."""
    if name in LOGGER_ALIASES:
        return LOGGER_ALIASES[name]
    above = name
    while "." in above:
        above = above.rpartition(".")[0]
        if above in LOGGER_ALIASES:
            return None if above in _TOO_WIDE else LOGGER_ALIASES[above]
    return None
