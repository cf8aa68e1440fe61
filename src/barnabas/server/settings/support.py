"""Which of Kafka's settings this release supports: one table, the source of ``docs/reference/configs.md``.

A setting is in one of three states. ``WORKS``: its value is used. ``NO_EFFECT``: any allowed value is taken and nothing
depends on it, because what it would tune does not exist here; nobody who sets it gets less than was asked for.
``REFUSED``: only the default (or one of the values listed) is taken, because anything else asks for something that
would silently not happen. What a node reads by another way than ``NodeConfig``'s attributes is said in the reason.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import NamedTuple

from barnabas.common.broker_config import (
    BROKER_CONFIG_DEF,
    DYNAMIC_QUOTA_CONFIG_DEF,
    broker_config_key,
    listener_base_name,
)
from barnabas.common.config_def import READ_ONLY
from barnabas.common.topic_config import TOPIC_SYNONYMS
from barnabas.security.tls_settings import TLS_SETTINGS, TLS_STORE_SETTINGS

__all__ = [
    "REMOVED_SETTINGS",
    "TOPIC_SETTINGS_WITHOUT_EFFECT",
    "DynamicSupport",
    "Support",
    "SupportState",
    "dynamic_support_of",
    "removed_setting",
    "support_of",
]


class SupportState(Enum):
    WORKS = "works"
    NO_EFFECT = "accepted, no effect"
    REFUSED = "refused unless default"


class Support(NamedTuple):
    state: SupportState
    reason: str = ""
    also_allowed: tuple[str, ...] = ()
    """Texts that a refused setting may have beside its default."""


WORKS = Support(SupportState.WORKS)

# Beside the broker's defaults for topics, which all work but those of tiered storage.
_WORKING = (
    "advertised.listeners",
    "alter.config.policy.class.name",
    "allow.everyone.if.no.acl.found",
    "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds",
    "authorizer.class.name",
    "auto.create.topics.enable",
    "auto.leader.rebalance.enable",
    "broker.heartbeat.interval.ms",
    "broker.id",
    "broker.rack",
    "broker.session.timeout.ms",
    "config.providers",
    "connection.failed.authentication.delay.ms",
    "connections.max.idle.ms",
    "connections.max.reauth.ms",
    "controlled.shutdown.enable",
    "controller.listener.names",
    "controller.quorum.append.linger.ms",
    "controller.quorum.auto.join.enable",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.election.backoff.max.ms",
    "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.max.bytes",
    "controller.quorum.fetch.snapshot.max.bytes",
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms",
    "controller.quorum.retry.backoff.ms",
    "controller.quorum.voters",
    "controller.socket.timeout.ms",
    "cordoned.log.dirs",
    "create.topic.policy.class.name",
    "default.replication.factor",
    "delegation.token.expiry.check.interval.ms",
    "delegation.token.expiry.time.ms",
    "delegation.token.max.lifetime.ms",
    "delegation.token.secret.key",
    "delete.topic.enable",
    "early.start.listeners",
    "fetch.max.bytes",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "initial.broker.registration.timeout.ms",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "leader.imbalance.check.interval.seconds",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.enable",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
    "log.dir",
    "log.dir.failure.timeout.ms",
    "log.dirs",
    "log.flush.offset.checkpoint.interval.ms",
    "log.retention.check.interval.ms",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.incremental.fetch.session.cache.slots",
    "max.request.partition.size.limit",
    "metadata.log.dir",
    "metadata.log.max.record.bytes.between.snapshots",
    "metadata.log.max.snapshot.interval.ms",
    "metadata.log.segment.bytes",
    "metadata.log.segment.ms",
    "metadata.max.idle.interval.ms",
    "metadata.max.retention.bytes",
    "metadata.max.retention.ms",
    "node.id",
    "num.partitions",
    "num.replica.fetchers",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
    "process.roles",
    "replica.fetch.backoff.ms",
    "replica.fetch.max.bytes",
    "replica.fetch.min.bytes",
    "replica.fetch.response.max.bytes",
    "replica.fetch.wait.max.ms",
    "replica.high.watermark.checkpoint.interval.ms",
    "replica.lag.time.max.ms",
    "replica.socket.receive.buffer.bytes",
    "replica.socket.timeout.ms",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.server.callback.handler.class",
    "sasl.server.max.receive.size",
    "producer.id.expiration.ms",
    "controller.quota.window.num",
    "controller.quota.window.size.seconds",
    "quota.window.num",
    "quota.window.size.seconds",
    "replica.selector.class",
    "replication.quota.window.num",
    "replication.quota.window.size.seconds",
    "principal.builder.class",
    "security.inter.broker.protocol",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.segment.bytes",
    "socket.connection.setup.timeout.ms",
    "socket.listen.backlog.size",
    "socket.request.max.bytes",
    "super.users",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.segment.bytes",
    "unclean.leader.election.interval.ms",
    "barnabas.audit.denials.per.caller",
    "barnabas.audit.denials.per.window",
    "barnabas.audit.kinds.max",
    "barnabas.audit.log.level",
    "barnabas.audit.queue.max",
    "barnabas.audit.topic.enable",
    "barnabas.audit.topic.partitions",
    "barnabas.audit.topic.replication.factor",
    "barnabas.audit.topic.retention.ms",
    "barnabas.audit.window.ms",
    "barnabas.authentication.timeout.ms",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "barnabas.auto.format",
    "barnabas.config.encryption.keys",
    "barnabas.config.encryption.keys.file",
    "barnabas.legacy.alter.mode",
    "barnabas.delegation.token.max.renewers",
    "barnabas.delegation.tokens.max.per.owner",
    "barnabas.fetch.sessions.max.partitions",
    "barnabas.group.max.pending.members",
    "barnabas.groups.max.pending.members",
    "barnabas.describe.configs.of.others",
    "barnabas.metadata.autocreate.fail.fast",
    "barnabas.log.format",
    "barnabas.log.level",
    "barnabas.max.open.files",
    "barnabas.metrics.listener",
    "barnabas.policy.timeout.ms",
    "barnabas.batch.max.decompressed.bytes",
    "barnabas.batch.max.headers",
    "barnabas.record.max.headers",
    "barnabas.request.max.bytes",
    "barnabas.request.max.bytes.before.login",
    "barnabas.request.max.bytes.overrides",
    "barnabas.request.max.elements",
    "barnabas.request.max.elements.in.parts",
    "barnabas.request.max.elements.of.brokers",
    "barnabas.request.max.tagged.fields",
)

# Settings of topics that are stored and described, and change nothing. The broker's defaults for them are the same.
TOPIC_SETTINGS_WITHOUT_EFFECT = {
    "preallocate": "Files grow as they are written.",
    "local.retention.bytes": "It matters with remote.storage.enable only, which is refused.",
    "local.retention.ms": "It matters with remote.storage.enable only, which is refused.",
    "remote.log.copy.disable": "It matters with remote.storage.enable only, which is refused.",
    "remote.log.delete.on.disable": "It matters with remote.storage.enable only, which is refused.",
}

# A reason and the names that it holds for, "*" standing for any beginning or end. The first row that fits decides.
_WITHOUT_EFFECT: tuple[tuple[str, str], ...] = (
    (
        "One event loop does this work: there is no pool or queue to size.",
        "num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads"
        " background.threads group.coordinator.threads group.coordinator.background.threads queued.max.requests"
        " log.cleaner.threads",
    ),
    (
        "Requests that wait are forgotten as soon as they complete: there is nothing to purge.",
        "*.purgatory.purge.interval.requests",
    ),
    (
        "Connections to controllers have controller.socket.timeout.ms and controller.quorum.request.timeout.ms.",
        "socket.connection.setup.timeout.max.ms request.timeout.ms",
    ),
    (
        "The operating system sizes the buffers of each connection, which serves it better than one fixed size.",
        "socket.send.buffer.bytes socket.receive.buffer.bytes",
    ),
    (
        "It is done together with what log.flush.offset.checkpoint.interval.ms is for.",
        "log.flush.start.offset.checkpoint.interval.ms",
    ),
    (
        "It is done together with what log.retention.check.interval.ms is for.",
        "producer.id.expiration.check.interval.ms",
    ),
    (
        "Buffers grow with what they hold, up to the limits of other settings.",
        "log.cleaner.io.buffer.size offsets.load.buffer.size group.coordinator.cached.buffer.max.bytes",
    ),
    ("Records are appended when they are decided: nothing lingers.", "group.coordinator.append.linger.ms"),
    (
        "Metrics are read from the Prometheus endpoint, as counters without sampling windows.",
        "metrics.num.samples metrics.sample.window.ms metrics.recording.level kafka.metrics.polling.interval.secs"
        " controller.performance.*",
    ),
    (
        "Brokers log in at each other and at controllers with PLAIN, SCRAM, or a token from a file.",
        "sasl.login.* sasl.client.callback.handler.class"
        " sasl.oauthbearer.assertion.* sasl.oauthbearer.client.credentials.*"
        " sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url",
    ),
    ("OpenSSL's generator of random numbers is used.", "ssl.secure.random.implementation"),
    ("Kerberos (GSSAPI) is not supported: sasl.enabled.mechanisms refuses it.", "sasl.kerberos.*"),
    (
        "Tiered storage is not supported: remote.log.storage.system.enable and remote.storage.enable can't be true.",
        "remote.fetch.* remote.list.offsets.* remote.log.index.* remote.log.manager.* remote.log.metadata.*"
        " remote.log.reader.* remote.log.storage.manager.* follower.fetch.last.tiered.offset.enable",
    ),
    (
        "Kafka takes it while it runs, so it is stored; groups of this kind, and transactions, are not supported yet.",
        "group.consumer.assignment.interval.ms group.share.assignment.interval.ms group.streams.assignment.interval.ms"
        " share.coordinator.cached.buffer.max.bytes transaction.partition.verification.enable",
    ),
    ("A node starts in well under a second.", "server.max.startup.time.ms log.initial.task.delay.ms"),
)

_NOT_ALLOWED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "It may be TLSv1.3, TLSv1.2 or TLS and says nothing: ssl.enabled.protocols are the versions that are served.",
        "ssl.protocol",
        ("TLSv1.2", "TLS"),
    ),
    (
        "OpenSSL does TLS here, not a JVM: there are no providers, engines or algorithms to choose.",
        "ssl.provider ssl.engine.factory.class security.providers",
        (),
    ),
    (
        "OpenSSL does TLS here, not a JVM: there are no providers, engines or algorithms to choose.",
        "ssl.keymanager.algorithm ssl.trustmanager.algorithm",
        ("NewSunX509", "PKIX"),
    ),
    (
        "It names Java code. Signed tokens are checked with sasl.oauthbearer.jwks.endpoint.url.",
        "sasl.oauthbearer.jwt.validator.class",
        ("org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",),
    ),
    ("Quotas are worked out as Kafka's own callback does; another one can't be loaded.", "client.quota.*", ()),
    ("There is no queue of requests whose size it could limit.", "queued.max.request.bytes", ()),
    (
        "Metrics are read from the Prometheus endpoint (barnabas.metrics.listener): there are no reporter plug-ins.",
        "kafka.metrics.reporters metric.reporters",
        ("",),
    ),
    ("Client telemetry is not collected.", "telemetry.*", ()),
    (
        "Tiered storage is not supported yet.",
        "remote.*",
        (),
    ),
    (
        "Transactions are not there yet: a transactional id is refused.",
        "transaction.* transactional.* add.partitions.to.txn.*",
        (),
    ),
    ("Only classic groups are there yet.", "group.coordinator.rebalance.protocols", ("classic",)),
    ("Groups of the consumer protocol are not there yet.", "group.consumer.*", ()),
    ("Share groups are not there.", "group.share.* share.*", ()),
    ("Streams groups are not there.", "group.streams.*", ()),
    ("Offsets are written uncompressed.", "offsets.topic.compression.codec", ()),
    ("It is for the development of Kafka itself.", "unstable.* internal.*", ()),
)

_DOTS_OF_MECHANISM = 4
"""In front of a setting that is given for a listener and a mechanism."""
_JAAS = Support(
    SupportState.NO_EFFECT,
    "It belongs to a listener and a mechanism: listener.name.<listener>.<mechanism>.sasl.jaas.config works.",
)

# What may be set for one listener, as listener.name.<listener>.<setting>.
_PER_LISTENER = (
    "sasl.* ssl.* connections.max.reauth.ms principal.builder.class max.connections max.connection.creation.rate"
)

# What Kafka 4 no longer has, with what to do about it.
REMOVED_SETTINGS: tuple[tuple[str, str], ...] = (
    ("zookeeper.*", "ZooKeeper is gone since Kafka 4.0; remove it, and set process.roles and node.id"),
    ("inter.broker.protocol.version", "metadata.version took its place; remove it, and see 'barnabas storage format'"),
    (
        "log.message.timestamp.difference.max.ms",
        "it was split in two; use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
    ),
    ("broker.id.generation.enable reserved.broker.max.id", "ids are not generated any more; set node.id"),
    ("control.plane.listener.name", "it went with ZooKeeper; use controller.listener.names"),
    (
        "log.message.format.version log.message.downconversion.enable auto.include.jmx.reporter"
        " offsets.commit.required.acks producer.quota.default consumer.quota.default delegation.token.master.key"
        " port host.name advertised.port advertised.host.name",
        "it is gone since Kafka 4.0; remove it",
    ),
)


@cache
def _exact() -> dict[str, Support]:
    table = dict.fromkeys(_WORKING, WORKS)
    table["sasl.jaas.config"] = _JAAS
    for topic_name, synonyms in TOPIC_SYNONYMS.items():
        reason = TOPIC_SETTINGS_WITHOUT_EFFECT.get(topic_name)
        support = WORKS if reason is None else Support(SupportState.NO_EFFECT, reason)
        table.update(dict.fromkeys((name for name, _ in synonyms), support))
    return table


def support_of(name: str) -> Support:
    """The state of a known setting, or of its listener form. Raises KeyError for an unknown name."""
    base = listener_base_name(name)
    if base == "sasl.jaas.config":
        return WORKS if name.count(".", 0, -len(base)) == _DOTS_OF_MECHANISM else _JAAS
    if base is not None:
        of_base = support_of(base)
        if of_base.state is not SupportState.WORKS:
            return of_base
        if _fits(base, _PER_LISTENER):
            return of_base
        return Support(SupportState.REFUSED, f"It can't be set for one listener: set {base} for all of them.")
    if name not in BROKER_CONFIG_DEF:
        raise KeyError(name)
    if name in _exact():
        return _exact()[name]
    for reason, names in _WITHOUT_EFFECT:
        if _fits(name, names):
            return Support(SupportState.NO_EFFECT, reason)
    for reason, names, also_allowed in _NOT_ALLOWED:
        if _fits(name, names):
            return Support(SupportState.REFUSED, reason, also_allowed)
    # A setting that nobody has thought about is not one that works.
    return Support(SupportState.REFUSED, "It is not there yet.")


class DynamicSupport(NamedTuple):
    """What a changed value of a setting does in a running node."""

    state: SupportState
    reason: str = ""
    also_allowed: tuple[str, ...] = ()
    is_for_listeners_only: bool = False
    """Nothing follows it unless it is given for a listener."""


# Settings of a broker, beside the defaults of topics, that are followed while the node runs.
_FOLLOWED = frozenset(
    (
        "cordoned.log.dirs",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "num.replica.fetchers",
        "producer.id.expiration.ms",
    )
)
_FOLLOWED_PER_LISTENER = frozenset(
    (*TLS_SETTINGS, "max.connection.creation.rate", "max.connections", "sasl.jaas.config")
)


def dynamic_support_of(name: str) -> DynamicSupport | None:
    """The state of a known setting as one of a running node; None for one that needs a restart."""
    key = broker_config_key(name)
    if key is None or key.update_mode == READ_ONLY:
        return None
    if name == "replica.alter.log.dirs.io.max.bytes.per.second":
        return DynamicSupport(SupportState.WORKS)
    if name in DYNAMIC_QUOTA_CONFIG_DEF:
        return DynamicSupport(SupportState.WORKS)
    support, base = support_of(name), listener_base_name(name)
    if support.state is not SupportState.WORKS:
        return DynamicSupport(support.state, support.reason, support.also_allowed)
    if name in TLS_STORE_SETTINGS:
        return DynamicSupport(SupportState.WORKS, is_for_listeners_only=True)
    defaults = {broker_name for group in TOPIC_SYNONYMS.values() for broker_name, _ in group}
    if name in _FOLLOWED or name in TLS_SETTINGS or name in defaults or base in _FOLLOWED_PER_LISTENER:
        return DynamicSupport(SupportState.WORKS)
    return None


def removed_setting(name: str) -> str | None:
    """What became of a setting of older Kafkas, and what to do; none if ``name`` isn't one."""
    return next((advice for names, advice in REMOVED_SETTINGS if _fits(name, names)), None)


def _fits(name: str, names: str) -> bool:
    return any(
        name.startswith(each[:-1]) if each[-1] == "*" else name.endswith(each[1:]) if each[0] == "*" else name == each
        for each in names.split()
    )
