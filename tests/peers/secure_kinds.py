"""Nodes of each kind with listeners with and without logins, and their users, for tests of our clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.peers import LAST_3_X
from tests.peers.kinds import BARNABAS, KAFKA, OLD_KAFKA
from tests.peers.secure import USERS, SecureNode, jaas_client, running_secure_barnabas, running_secure_kafka

__all__ = ["running_kind", "sasl_properties", "write_properties"]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "the key of all tokens",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
}
RUNNING: dict[str, Callable[..., AbstractContextManager[SecureNode]]] = {
    BARNABAS: running_secure_barnabas,
    KAFKA: running_secure_kafka,
    OLD_KAFKA: partial(running_secure_kafka, version=LAST_3_X),
}


@contextmanager
def running_kind(kind: str, folder: Path) -> Iterator[SecureNode]:
    """A node with ACLs, whose super user needs no login on the PLAINTEXT listener."""
    with RUNNING[kind](folder, settings=SETTINGS) as node:
        yield node


def sasl_properties(
    peer: SecureNode, user: str, mechanism: str = "PLAIN", password: str | None = None, **more: Any
) -> dict[str, str]:
    """Return the properties with which a client logs in over SASL_SSL."""
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(peer.authority),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas_client(mechanism, user, USERS.get(user, "") if password is None else password, **more),
    }


def write_properties(path: Path, properties: Mapping[str, str]) -> str:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)
