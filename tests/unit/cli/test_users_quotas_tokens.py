"""``barnabas users|quotas|tokens``: credentials and limits of users."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from pathlib import Path

import pytest

from barnabas.cli.quotas import main as quotas
from barnabas.cli.tokens import main as tokens
from barnabas.cli.users import main as users
from barnabas.clients.admin import (
    ClientQuotaEntity,
    ClientQuotaFilter,
    DelegationToken,
    QuotaMatch,
    Results,
    ScramCredentialInfo,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from tests.unit.cli.conftest import FakeAdmin

SHA512 = ScramMechanism.SCRAM_SHA_512
TOKEN = DelegationToken("id-1", b"secret-hmac", "User:alice", "User:alice", 1000, 2000, 3000, ("User:bob",))


@pytest.fixture
def alice(admin: FakeAdmin) -> FakeAdmin:
    credentials = (ScramCredentialInfo(SHA512, 8192),)
    admin.describe_user_scram_credentials.return_value = Results({"alice": credentials}, {})
    admin.alter_user_scram_credentials.return_value = Results({"alice": None}, {})
    return admin


def test_users_are_listed(alice: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert users(["list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["alice", "SCRAM-SHA-512", "8192"]


def test_a_password_is_read_and_never_shown(
    alice: FakeAdmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hidden-word\n"))
    assert users(["set-password", "alice", "--iterations", "4096", "--output", "json"]) == 0
    wanted = [ScramUpsertion("alice", SHA512, "hidden-word", 4096)]
    alice.alter_user_scram_credentials.assert_awaited_once_with(wanted, wait=False)
    file = tmp_path / "password"
    file.write_text("from-file\n")
    assert users(["set-password", "alice", "--password-file", str(file), "--mechanism", "SCRAM-SHA-256"]) == 0
    assert alice.alter_user_scram_credentials.call_args.args[0][0].password == "from-file"
    captured = capsys.readouterr()
    assert "hidden-word" not in captured.out + captured.err
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert users(["set-password", "alice"]) == 2
    assert users(["set-password", "alice", "--password", "x"]) == 2
    assert users(["set-password", "alice", "--password-file", str(tmp_path / "none")]) == 2


def test_a_password_is_deleted_unless_it_is_a_dry_run(alice: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert users(["delete-password", "alice", "--dry-run"]) == 0
    alice.alter_user_scram_credentials.assert_not_called()
    assert users(["delete-password", "alice"]) == 0
    alice.alter_user_scram_credentials.assert_awaited_once_with([ScramDeletion("alice", SHA512)], wait=False)
    assert users(["delete-password", "alic"]) == 1
    assert "did you mean alice?" in capsys.readouterr().err
    assert users(["delete-password", "alice", "--mechanism", "SCRAM-SHA-256"]) == 1


def test_quotas_are_listed(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    entity = ClientQuotaEntity.of({"user": "alice", "client-id": None})
    admin.describe_client_quotas.return_value = {entity: {"producer_byte_rate": 1048576.0}}
    assert quotas(["list", "--user", "alice", "--strict"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("producer_byte_rate  1048576")
    wanted = ClientQuotaFilter((QuotaMatch("user", "alice"),), True)
    assert admin.describe_client_quotas.call_args.args == (wanted,)


def test_quotas_are_altered(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    entity = ClientQuotaEntity.of({"user": "alice", "client-id": None})
    admin.alter_client_quotas.return_value = Results({entity: None}, {})
    arguments = ["--user", "alice", "--client-defaults", "--config", "producer_byte_rate=1e6"]
    assert quotas(["alter", *arguments, "--delete-config", "request_percentage", "--dry-run", "-o", "json"]) == 0
    changes = {entity: {"producer_byte_rate": 1e6, "request_percentage": None}}
    assert admin.alter_client_quotas.call_args.args == (changes,)
    assert admin.alter_client_quotas.call_args.kwargs == {"validate_only": True, "wait": False}
    assert json.loads(capsys.readouterr().out)["dry_run"] is True


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["alter", "--config", "producer_byte_rate=1"], "no entity given"),
        (["alter", "--user", "a"], "no change given"),
        (["alter", "--user", "a", "--config", "producer_byte_rte=1"], "did you mean producer_byte_rate"),
        (["alter", "--user", "a", "--config", "producer_byte_rate=x"], "a quota must be a number"),
        (["alter", "--user", "a", "--ip", "10.0.0.1", "--config", "request_percentage=1"], "an IP address"),
        (["alter", "--user", "a", "--user-defaults", "--config", "request_percentage=1"], "can't be used together"),
        (["list", "--user", ""], "--user-defaults"),
    ],
)
def test_invalid_quotas_are_refused(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert quotas(arguments) == 2
    assert expected in capsys.readouterr().err


def test_the_hmac_of_a_token_is_shown_only_on_creation(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    hmac = b64encode(TOKEN.hmac).decode()
    admin.create_delegation_token.return_value = TOKEN
    assert tokens(["create", "--renewer-principal", "User:bob", "--max-life-time-period", "9"]) == 0
    assert hmac in capsys.readouterr().out
    assert admin.create_delegation_token.call_args.kwargs == {
        "owner": None, "renewers": ["User:bob"], "max_lifetime_ms": 9, "wait": False,
    }  # fmt: skip
    admin.describe_delegation_tokens.return_value = [TOKEN]
    assert tokens(["list"]) == 0
    assert tokens(["list", "-o", "json"]) == 0
    out = capsys.readouterr().out
    assert "id-1" in out
    assert hmac not in out


def test_a_token_is_renewed_and_expired(admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hmac"
    file.write_text(b64encode(TOKEN.hmac).decode() + "\n")
    admin.renew_delegation_token.return_value = 5000
    assert tokens(["renew", "--hmac-file", str(file), "--renew-time-period", "7"]) == 0
    admin.renew_delegation_token.assert_awaited_once_with(TOKEN.hmac, renew_period_ms=7)
    assert capsys.readouterr().out == "token  renewed (until 1970-01-01 00:00:05Z)\n"
    admin.describe_delegation_tokens.return_value = [TOKEN]
    assert tokens(["expire", "--hmac-file", str(file), "--dry-run"]) == 0
    admin.expire_delegation_token.assert_not_called()
    admin.describe_delegation_tokens.return_value = []
    assert tokens(["expire", "--hmac-file", str(file), "--dry-run"]) == 1
    file.write_text("!")
    assert tokens(["expire", "--hmac-file", str(file)]) == 2
