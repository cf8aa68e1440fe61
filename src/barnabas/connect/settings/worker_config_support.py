"""Which settings of a worker this release supports: one table, the source of ``docs/reference/worker-configs.md``.

WORKS: the value is used. NO_EFFECT: any allowed value is taken and nothing depends on it, because what it would tune
does not exist here. REFUSED: only the default (or a value listed) is taken, because anything else asks for something
that would silently not happen.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barnabas.connect.settings.worker_config_table import WORKER_CONFIG_DEF

__all__ = ["REMOVED_WORKER_SETTINGS", "WorkerSupport", "WorkerSupportState", "worker_support_of"]


class WorkerSupportState(Enum):
    WORKS = "works"
    NO_EFFECT = "accepted, no effect"
    REFUSED = "refused unless default"


class WorkerSupport(NamedTuple):
    state: WorkerSupportState
    reason: str = ""
    also_allowed: tuple[str, ...] = ()
    """Texts that a refused setting may have beside its default."""


WORKS = WorkerSupport(WorkerSupportState.WORKS)

_IDENTITY_PROVIDER = "A token is read from a file, and never fetched from an identity provider"
_KERBEROS = "Kerberos (GSSAPI) is not supported"
_JAVA_CLASS = "Java classes can't be used"
_NO_JAVA_PROVIDERS = "There are no Java security providers here"
_PYTHON_TLS = "TLS is Python's own, which has no such choice"
_LOGIN = "A login is done with what sasl.jaas.config says, and has nothing to refresh or to fetch"
_BROKER_CHECKS = "Tokens are checked by brokers"

_NO_EFFECT: dict[str, str] = {
    "plugin.path": "Plugins for Java can't be used; those for barnabas are installed as Python packages",
    "plugin.discovery": "Plugins are found by the entry points of installed packages",
    "offset.flush.interval.ms": "Positions are written after each batch of records",
    "offset.flush.timeout.ms": "Positions are written after each batch of records, as part of it",
    "metrics.sample.window.ms": "Metrics are totals; rates are the reader's",
    "metrics.num.samples": "Metrics are totals; rates are the reader's",
    "metrics.recording.level": "All metrics are recorded",
    "connections.max.idle.ms": "The worker's few connections stay open",
    "metadata.max.age.ms": "Metadata is asked for when an answer says that it is old",
    "metadata.recovery.strategy": "A client that reaches no broker begins with bootstrap.servers again",
    "metadata.recovery.rebootstrap.trigger.ms": "A client that reaches no broker begins with bootstrap.servers again",
    "reconnect.backoff.ms": "Pauses follow retry.backoff.ms",
    "reconnect.backoff.max.ms": "Pauses follow retry.backoff.max.ms",
    "socket.connection.setup.timeout.max.ms": "The time to connect is the same each time",
    "ssl.keymanager.algorithm": _PYTHON_TLS,
    "ssl.trustmanager.algorithm": _PYTHON_TLS,
    "ssl.secure.random.implementation": _PYTHON_TLS,
    **{
        f"sasl.login.{name}": _LOGIN
        for name in (
            "connect.timeout.ms", "read.timeout.ms", "refresh.buffer.seconds", "refresh.min.period.seconds",
            "refresh.window.factor", "refresh.window.jitter", "retry.backoff.max.ms", "retry.backoff.ms",
        )
    },
    **{
        f"sasl.oauthbearer.{name}": _BROKER_CHECKS
        for name in (
            "clock.skew.seconds", "expected.audience", "expected.issuer", "jwks.endpoint.refresh.ms",
            "jwks.endpoint.retry.backoff.max.ms", "jwks.endpoint.retry.backoff.ms", "jwks.endpoint.url",
            "jwt.validator.class", "scope.claim.name", "sub.claim.name",
        )
    },
}  # fmt: skip

_REFUSED: dict[str, WorkerSupport] = {
    name: WorkerSupport(WorkerSupportState.REFUSED, reason, also_allowed)
    for name, reason, also_allowed in (
        (
            "exactly.once.source.support",
            "Records and offsets of sources can't be written in one transaction, because Spark's writer has none",
            (),
        ),
        ("metric.reporters", "Java classes can't be used; GET /metrics of the REST API serves metrics", ("",)),
        ("rest.extension.classes", "Java classes can't be used; see barnabas.connect.authentication", ()),
        ("client.dns.lookup", "Names are looked up as with use_all_dns_ips", ()),
        ("ssl.provider", _NO_JAVA_PROVIDERS, ()),
        ("ssl.engine.factory.class", _JAVA_CLASS, ()),
        ("sasl.client.callback.handler.class", _JAVA_CLASS, ()),
        (
            "sasl.login.callback.handler.class",
            _JAVA_CLASS,
            ("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",),
        ),
        ("sasl.login.class", _JAVA_CLASS, ()),
        (
            "sasl.oauthbearer.jwt.retriever.class",
            _IDENTITY_PROVIDER,
            ("org.apache.kafka.common.security.oauthbearer.FileJwtRetriever",),
        ),
        *((name, _KERBEROS, ()) for name in WORKER_CONFIG_DEF if name.startswith("sasl.kerberos.")),
        *(
            (name, _IDENTITY_PROVIDER, ())
            for name in WORKER_CONFIG_DEF
            if name.startswith(("sasl.oauthbearer.assertion.", "sasl.oauthbearer.client.credentials."))
            or name in ("sasl.oauthbearer.scope", "sasl.oauthbearer.header.urlencode")
        ),
    )
}

# Names of older Kafkas, and what to write instead.
REMOVED_WORKER_SETTINGS: dict[str, str] = {
    "internal.key.converter": "remove it: the internal topics have one format",
    "internal.value.converter": "remove it: the internal topics have one format",
    "rest.host.name": "write listeners=http://host:port",
    "rest.port": "write listeners=http://host:port",
    "offset.storage.file.filename": "remove it: only Kafka's standalone mode keeps positions in a file",
    "config.storage.partitions": "remove it: the config topic always has one partition",
}


def worker_support_of(name: str) -> WorkerSupport:
    """Of a setting that is in the table."""
    if name in _NO_EFFECT:
        return WorkerSupport(WorkerSupportState.NO_EFFECT, _NO_EFFECT[name])
    return _REFUSED.get(name, WORKS)
