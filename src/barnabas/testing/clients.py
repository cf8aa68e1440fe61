"""What a test does with a cluster: settings for each kind of client, topics, rules and records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from barnabas.testing.background_loop import run_in_background
from barnabas.testing.records import ReceivedRecord, RecordData, keys_and_values
from barnabas.testing.security import Mechanism, Security

if TYPE_CHECKING:
    from barnabas.clients.admin import AclBinding, AdminClient, SyncAdminClient

__all__ = ["Clients", "cluster_calls"]

_DEFAULT: Mechanism = "SCRAM-SHA-256"
_REQUEST_TIMEOUT_MS = "5000"
"""How long a call waits for a node that the test has paused, before it looks for another."""


def cluster_calls() -> ModuleType:
    """The clients are imported when they are first used: importing them takes as long as the start of a node."""
    return import_module("barnabas.testing.cluster_calls")


class Clients(ABC):
    """``user`` is one of the users with which the node was started; without it the super user ``admin``. On a node
    without users it is ignored."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """``host:port``, or several separated by commas."""

    @property
    @abstractmethod
    def _security(self) -> Security: ...

    @abstractmethod
    def _certificate_of(self, user: str | None) -> None:
        """Create the user's certificate, if clients need one."""

    @property
    @abstractmethod
    def _responsive_servers(self) -> str:
        """The servers that are neither stopped nor paused, if any; those that are cut off come last."""

    def _own_properties(self, user: str | None = None) -> dict[str, str]:
        """Return the properties of the calls below. They reach a cluster of which a test has paused a part."""
        properties = self.client_properties(user)
        return {**properties, "bootstrap.servers": self._responsive_servers, "request.timeout.ms": _REQUEST_TIMEOUT_MS}

    # --- settings of clients

    def client_properties(self, user: str | None = None, *, mechanism: Mechanism = _DEFAULT) -> dict[str, str]:
        """Return Kafka's client properties: for Java clients, for ``--command-config``, and for those of barnabas."""
        self._certificate_of(user)
        return {"bootstrap.servers": self.bootstrap_servers, **self._security.java(user, mechanism)}

    def confluent_config(self, user: str | None = None, *, mechanism: Mechanism = _DEFAULT) -> dict[str, str]:
        """Return the configuration of confluent-kafka, and of every client that uses librdkafka."""
        self._certificate_of(user)
        return {"bootstrap.servers": self.bootstrap_servers, **self._security.librdkafka(user, mechanism)}

    def kafka_python_config(self, user: str | None = None, *, mechanism: Mechanism = _DEFAULT) -> dict[str, object]:
        """Return the keyword arguments of kafka-python's clients."""
        self._certificate_of(user)
        return {"bootstrap_servers": self.bootstrap_servers, **self._security.kafka_python(user, mechanism)}

    def aiokafka_config(self, user: str | None = None, *, mechanism: Mechanism = _DEFAULT) -> dict[str, object]:
        """Return the keyword arguments of aiokafka's clients, with an SSL context."""
        self._certificate_of(user)
        return {"bootstrap_servers": self.bootstrap_servers, **self._security.aiokafka(user, mechanism)}

    def write_client_properties(self, path: Path, user: str | None = None) -> Path:
        """Write the client properties into a file, as for ``barnabas ... --command-config``, and return its path."""
        properties = self.client_properties(user)
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return path

    def admin(self, user: str | None = None) -> SyncAdminClient:
        """Return an admin client; use it in a ``with`` block. It prefers nodes that are not paused or cut off."""
        admin: SyncAdminClient = import_module("barnabas.clients.admin").SyncAdminClient(
            properties={**self.client_properties(user), "bootstrap.servers": self._responsive_servers}
        )
        return admin

    def async_admin(self, user: str | None = None) -> AdminClient:
        """Return an admin client for asyncio, like ``admin``; use it in an ``async with`` block."""
        admin: AdminClient = import_module("barnabas.clients.admin").AdminClient(
            properties={**self.client_properties(user), "bootstrap.servers": self._responsive_servers}
        )
        return admin

    # --- topics, rules and records

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic, and return its name when all brokers know it. Raise AdminError."""
        run_in_background(
            cluster_calls().create_topics(self._own_properties(), {name: partitions}, replication, dict(configs or {}))
        )
        return name

    def create_topics(self, topics: Mapping[str, int] | Iterable[str]) -> None:
        """Create topics with these numbers of partitions, or with one. Raise AdminError, or a group of them."""
        topics = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        if not topics:
            return
        run_in_background(cluster_calls().create_topics(self._own_properties(), topics, None, {}))

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and return when no broker knows it. Raise AdminError."""
        run_in_background(cluster_calls().delete_topics(self._own_properties(), [name]))

    def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Add rules, and return when all brokers apply them. Raise AdminError."""
        run_in_background(cluster_calls().create_acls(self._own_properties(), list(acls)))

    def produce(
        self, topic: str, records: Iterable[RecordData], *, user: str | None = None, timeout_s: float = 30
    ) -> list[int]:
        """Write values, or (key, value) pairs, and return their offsets. All replicas in sync have acknowledged them.

        A key selects the partition as in Kafka's producer; a record without a key goes to partition 0. Raise
        NotDelivered or TimeoutError when the records were not acknowledged in time, AdminError for an unknown topic.
        """
        pairs = keys_and_values(records)
        properties = self._own_properties(user)
        offsets: list[int] = run_in_background(cluster_calls().produce(properties, topic, pairs, timeout_s=timeout_s))
        return offsets

    def consume(
        self,
        topic: str,
        count: int | None = None,
        *,
        user: str | None = None,
        read_committed: bool = False,
        timeout_s: float = 30,
    ) -> list[ReceivedRecord]:
        """Read a topic from its beginning, in the order of each partition: the records that it has now, or ``count``.

        No group is involved. Raise TimeoutError if too few records arrive in time, AdminError for an unknown topic.
        """
        call = cluster_calls().consume(
            self._own_properties(user), topic, count=count, timeout_s=timeout_s, read_committed=read_committed
        )
        records: list[ReceivedRecord] = run_in_background(call)
        return records
