"""Send a real Kafka all requests of ``credential_requests``, and record its answers.

::

    python -m tests.peers.record_credential_answers > answers.jsonl

It starts the nodes itself, one after the other.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.protocol.messages import alter_client_quotas, create_acls
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, free_ports
from tests.peers.credential_requests import (
    PASSWORDS,
    PLAINTEXT,
    QUOTAS,
    RIGHTS,
    Step,
    comparable,
    steps,
    steps_without_tokens,
)

__all__ = ["answers", "kafka_settings", "prepare_rights"]

_PAUSE_S = 0.4
"""The wait after a new token: a real Kafka does not know it immediately, because it follows its own log with a
delay."""


def kafka_settings(plain_port: int, sasl_port: int, controller_port: int, *, has_tokens: bool) -> dict[str, str]:
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain_port},SASL_PLAINTEXT://127.0.0.1:{sasl_port},"
        f"CONTROLLER://127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule"
        f" required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        **({"delegation.token.secret.key": "a secret"} if has_tokens else {}),
    }


def prepare_rights(client: RawClient) -> None:
    """Create the ACLs that the requests need."""
    creations = [
        create_acls.AclCreation(
            resource_type=ResourceType[kind],
            resource_name=resource,
            resource_pattern_type=3,
            principal=f"User:{user}",
            host="*",
            operation=AclOperation[operation],
            permission_type=3,
        )
        for user, operation, kind, resource in RIGHTS
    ]
    created = client.call(create_acls.CreateAclsRequest(creations=creations))
    assert not any(result.error_code for result in created.results), created


def _prepare_quotas(client: RawClient) -> None:
    entries = [
        alter_client_quotas.AlterClientQuotasRequestEntryData(
            entity=[
                alter_client_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
            ],
            ops=[alter_client_quotas.OpData(key=key, value=value, remove=False) for key, value in values.items()],
        )
        for entity, values in QUOTAS
    ]
    altered = client.call(alter_client_quotas.AlterClientQuotasRequest(entries=entries))
    assert not any(entry.error_code for entry in altered.entries), altered


def answers(clients: dict[str, RawClient], chosen: list[Step], *, pause_s: float) -> dict[str, Any]:
    """Return the answers by the name of the step, as JSON in the versions of their requests."""
    known: dict[str, bytes] = {}
    found: dict[str, Any] = {}
    for step in chosen:
        now_ms = time.time_ns() // 1_000_000
        answer = clients[step.caller].call(step.make(known), step.version)
        if getattr(answer, "token_id", ""):
            known[step.name] = answer.hmac
        found[step.name] = comparable(answer.to_json(step.version), now_ms)
        time.sleep(pause_s)
    return found


def _record(folder: Path, chosen: list[Step], *, has_tokens: bool) -> None:
    node = KafkaNode(folder)
    (sasl_port,) = free_ports(1)
    node.change_settings(kafka_settings(node.port, sasl_port, node.controller_port, has_tokens=has_tokens))
    node.start()
    try:
        clients = {PLAINTEXT: RawClient(node.port)}
        for user, password in PASSWORDS.items():
            clients[user] = RawClient(sasl_port)
            clients[user].log_in(user, password)
        prepare_rights(clients[PLAINTEXT])
        _prepare_quotas(clients[PLAINTEXT])
        time.sleep(0.5)
        for name, answer in answers(clients, chosen, pause_s=_PAUSE_S).items():
            print(json.dumps({"case": name, "answer": answer}, sort_keys=True))
    finally:
        node.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        _record(Path(folder) / "with", steps(), has_tokens=True)
        _record(Path(folder) / "without", steps_without_tokens(), has_tokens=False)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
