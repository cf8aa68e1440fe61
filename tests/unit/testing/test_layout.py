"""The settings of test nodes follow from roles, ports and security."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas.server.settings.node_config import load_node_config
from barnabas.testing.layout import CLIENTS, CONTROLLER, INTERNAL, Member, initial_controllers, node_settings
from barnabas.testing.security import Security, TlsFiles
from tests.peers.certificates import Authority

COMBINED = Member(1, True, True, "dir-1", {CLIENTS: (1001, 1001), INTERNAL: (1002, 2002), CONTROLLER: (1003, 2003)})
BROKER = Member(2, True, False, "dir-2", {CLIENTS: (1011, 1011), INTERNAL: (1012, 2012)})
CONTROLLER_ONLY = Member(3001, False, True, "dir-3", {CONTROLLER: (1023, 2023)})
USERS = {"alice": "secret", "admin": "other"}


def settings_of(
    member: Member, *members: Member, security: Security | None = None, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    return node_settings(
        member, members or (member,), security or Security(), log_dir="/data", replication=1, settings=given or {}
    )


def test_nodes_bind_one_port_and_advertise_that_of_the_proxy() -> None:
    settings = settings_of(COMBINED, COMBINED, BROKER)
    assert settings["listeners"] == "CLIENTS://127.0.0.1:1001,INTERNAL://127.0.0.1:1002,CONTROLLER://127.0.0.1:1003"
    assert (
        settings["advertised.listeners"]
        == "CLIENTS://127.0.0.1:1001,INTERNAL://127.0.0.1:2002,CONTROLLER://127.0.0.1:2003"
    )
    assert settings["inter.broker.listener.name"] == INTERNAL
    assert settings_of(BROKER, COMBINED, BROKER)["controller.quorum.bootstrap.servers"] == "127.0.0.1:2003"


def test_the_voters_are_the_controllers_at_their_advertised_ports() -> None:
    assert initial_controllers([COMBINED, BROKER, CONTROLLER_ONLY]) == (
        "1@127.0.0.1:2003:dir-1,3001@127.0.0.1:2023:dir-3"
    )


def test_settings_of_the_user_take_precedence() -> None:
    assert settings_of(COMBINED, given={"num.partitions": "7"})["num.partitions"] == "7"


@pytest.mark.parametrize("member", [COMBINED, BROKER, CONTROLLER_ONLY])
@pytest.mark.parametrize("users", [{}, USERS])
@pytest.mark.parametrize("has_tls", [False, True])
def test_a_node_accepts_the_settings_of_each_role_and_security(
    member: Member, users: dict[str, str], has_tls: bool, tmp_path: Path
) -> None:
    tls = None
    if has_tls:
        authority = Authority()
        tls = TlsFiles(
            authority.write_pem(tmp_path / "ca.pem"),
            authority.issue("node").write_pem(tmp_path / "node.pem"),
            tmp_path,
        )
    security = Security(users=users, node_password="own", tls=tls, client_certificates=has_tls, has_acls=bool(users))
    settings = settings_of(member, COMBINED, BROKER, CONTROLLER_ONLY, security=security)
    config = load_node_config(None, [f"{name}={text}" for name, text in settings.items()])
    assert config.node_id == member.node_id
    assert config.warnings == []
