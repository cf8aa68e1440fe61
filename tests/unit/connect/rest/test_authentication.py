"""Authentication by passwords, tokens and certificates, and the limit on failures."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm

from barnabas.connect.rest.authentication import (
    Authenticator,
    Credentials,
    NotAuthenticated,
    PasswordCheck,
    TooManyFailures,
)
from barnabas.connect.rest.authentication_setup import set_up_authentication
from barnabas.connect.rest.bearer_tokens import BearerTokens, open_keys
from barnabas.connect.rest.client_certificates import ClientCertificates
from barnabas.connect.rest.login_rate_limit import FailureBudget
from barnabas.connect.rest.password_hash import PasswordHash, UnusableHash, hash_password
from barnabas.connect.rest.rest_settings import RestSettings, UnusableRestSetting
from barnabas.connect.rest.roles import Role, RoleTable, User
from barnabas.connect.rest.users_file import UnusableUsersFile, parse_users, read_users
from barnabas.connect.rest.users_file import main as make_line
from barnabas.security.sasl.jwt_validator import JwtRules
from barnabas.security.ssl_principal_mapper import SslPrincipalMapper
from tests.peers.certificates import Authority
from tests.peers.rest_workers import TestClock

# A cheap hash: these tests do not depend on its cost.
SALT = bytes(range(16))
HASH = PasswordHash.parse(
    "scrypt$1024$8$1$" + base64.b64encode(SALT).decode() + "$" + base64.b64encode(bytes(32)).decode()
)
ALICE = PasswordHash(1024, 8, 1, SALT, HASH._derive("wonderland"))
NOBODY = RoleTable({})


def basic(name: str, password: str) -> Credentials:
    return Credentials("Basic " + base64.b64encode(f"{name}:{password}".encode()).decode(), None, "10.0.0.1")


class Seconds:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def passwords(clock: Seconds | None = None) -> Authenticator:
    users = parse_users(f"# users\n\nalice:operate:{ALICE}\n")
    return Authenticator(passwords=PasswordCheck(users, NOBODY, process_key=b"key", now_s=clock or Seconds()))


@pytest.mark.anyio
async def test_a_user_with_the_right_password_has_the_role_of_the_file() -> None:
    assert await passwords().user(basic("alice", "wonderland")) == User("alice", Role.OPERATE)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b"alice:wrong").decode(),
        "Basic " + base64.b64encode(b"bob:wonderland").decode(),
        "Basic " + base64.b64encode(b"alice:\xff").decode(),
        "Bearer abc",
        "Digest abc",
    ],
)
async def test_other_credentials_are_refused_with_the_accepted_schemes(authorization: str | None) -> None:
    with pytest.raises(NotAuthenticated) as caught:
        await passwords().user(Credentials(authorization, None, "10.0.0.1"))
    assert caught.value.http_status == 401
    assert caught.value.challenges == ('Basic realm="connect", charset="UTF-8"',)


@pytest.mark.anyio
async def test_unknown_users_and_wrong_passwords_have_the_same_answer() -> None:
    messages = set()
    for name in ("alice", "bob"):
        with pytest.raises(NotAuthenticated) as caught:
            await passwords().user(basic(name, "wrong"))
        messages.add(str(caught.value))
    assert len(messages) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["alice", "bob"])
async def test_a_client_that_guesses_passwords_has_to_wait(name: str) -> None:
    clock = Seconds()
    authenticator = passwords(clock)
    for _ in range(10):
        with pytest.raises(NotAuthenticated):
            await authenticator.user(basic(name, "wrong"))
    with pytest.raises(TooManyFailures) as caught:
        await authenticator.user(basic(name, "wonderland"))
    assert caught.value.http_status == 429
    clock.now += caught.value.wait_s
    with pytest.raises(NotAuthenticated):
        await authenticator.user(basic(name, "wrong"))


@pytest.mark.anyio
async def test_a_known_user_is_not_locked_out_by_guessing_clients() -> None:
    authenticator = passwords()
    await authenticator.user(basic("alice", "wonderland"))
    for _ in range(10):
        with pytest.raises(NotAuthenticated):
            await authenticator.user(basic("alice", "wrong"))
    assert (await authenticator.user(basic("alice", "wonderland"))).name == "alice"


def test_failures_expire_and_the_memory_for_them_is_bounded() -> None:
    budget = FailureBudget(at_once=2, every_s=10)
    budget.failed("a", 0)
    assert budget.wait_s("a", 0) == 0
    budget.failed("a", 0)
    assert budget.wait_s("a", 0) == 10
    assert budget.wait_s("a", 5) == 5
    assert budget.wait_s("a", 10) == 0
    for number in range(20_000):
        budget.failed(f"k{number}", 0)
    assert len(budget._levels) <= 10_000


def test_a_hash_survives_formatting_and_parsing() -> None:
    assert PasswordHash.parse(str(ALICE)) == ALICE
    assert ALICE.matches("wonderland")
    assert not ALICE.matches("wonderlanD")


def test_a_new_hash_has_the_current_cost_and_a_hash_of_a_smaller_cost_stays_valid() -> None:
    new = hash_password("wonderland", SALT)
    assert (new.cost, new.block, new.parallel) == (131072, 8, 1)
    assert PasswordHash.parse(str(new)).matches("wonderland")
    old = PasswordHash(16384, 8, 1, SALT, bytes(32))
    stored = PasswordHash(16384, 8, 1, SALT, old._derive("wonderland"))
    assert PasswordHash.parse(str(stored)).matches("wonderland")


@pytest.mark.parametrize(
    "text", ["", "plain", "scrypt$1$8$1$AAAA$AAAA", "scrypt$16384$8$1$AAAA$AAAA", "scrypt$16384$99999$1$AAAA$AAAA"]
)
def test_invalid_hashes_are_refused(text: str) -> None:
    with pytest.raises(UnusableHash):
        PasswordHash.parse(text)


@pytest.mark.parametrize(
    "text",
    ["", "alice", "alice:admin", f"alice:owner:{ALICE}", "alice:admin:secret", f"a:read:{ALICE}\na:read:{ALICE}"],
)
def test_a_users_file_with_a_mistake_is_refused_and_shows_no_hash(text: str) -> None:
    with pytest.raises(UnusableUsersFile) as caught:
        parse_users(text)
    assert "secret" not in str(caught.value)


def test_a_line_of_the_users_file_is_created_from_a_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("barnabas.connect.rest.users_file.getpass", lambda prompt: "wonderland")
    assert make_line(["alice", "operate"]) == 0
    (alice,) = parse_users(capsys.readouterr().out).values()
    assert (alice.name, alice.role) == ("alice", Role.OPERATE)
    assert alice.password.matches("wonderland")
    for wrong in ([], ["alice"], ["a:b", "read"], ["alice", "owner"]):
        assert make_line(wrong) == 2


def test_a_missing_users_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableUsersFile, match="users.txt"):
        read_users(tmp_path / "users.txt")


# --- tokens ---

KEY = ec.generate_private_key(ec.SECP256R1())


def tokens(tmp_path: Path, document: bytes, roles: RoleTable = NOBODY) -> Authenticator:
    file = tmp_path / "keys"
    file.write_bytes(document)
    keys = open_keys(str(file), "barnabas.connect.jwt.keys.file")
    keys.refresh()
    rules = JwtRules(audiences=("connect",), issuer="issuer", scope_claim="roles")
    return Authenticator(tokens=BearerTokens(keys, rules, frozenset(("ES256",)), roles, TestClock()))


def web_keys() -> bytes:
    return json.dumps({"keys": [ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)]}).encode()


def pem_key() -> bytes:
    return KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def bearer(**changes: object) -> Credentials:
    now_s = TestClock().now_ms() // 1000
    claims = {"sub": "bob", "iss": "issuer", "aud": "connect", "iat": now_s, "exp": now_s + 60, "roles": ["operate"]}
    token = jwt.encode({**claims, **changes}, KEY, algorithm="ES256")
    return Credentials(f"Bearer {token}", None, "10.0.0.1")


@pytest.mark.anyio
@pytest.mark.parametrize("document", [web_keys(), pem_key(), b"\n" + pem_key() + pem_key()])
async def test_a_signed_token_names_its_user_and_roles(tmp_path: Path, document: bytes) -> None:
    authenticator = tokens(tmp_path, document)
    assert await authenticator.user(bearer()) == User("bob", Role.OPERATE)
    assert await authenticator.user(bearer(roles="openid Read ADMIN")) == User("bob", Role.ADMIN)
    assert await authenticator.user(bearer(roles=["something"])) == User("bob", None)


@pytest.mark.anyio
async def test_the_table_of_roles_applies_to_tokens_too(tmp_path: Path) -> None:
    roles = RoleTable({Role.READ: frozenset("*"), Role.ADMIN: frozenset(("bob",))})
    assert await tokens(tmp_path, web_keys(), roles).user(bearer(roles=[])) == User("bob", Role.ADMIN)
    assert await tokens(tmp_path, web_keys(), roles).user(bearer(sub="eve", roles=[])) == User("eve", Role.READ)


@pytest.mark.anyio
@pytest.mark.parametrize("changes", [{"exp": 1}, {"iss": "other"}, {"aud": "other"}, {"sub": ""}, {"roles": 5}])
async def test_a_token_without_the_required_claims_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(NotAuthenticated, match="bearer token"):
        await tokens(tmp_path, web_keys()).user(bearer(**changes))


@pytest.mark.anyio
async def test_an_unsigned_token_is_refused(tmp_path: Path) -> None:
    unsigned = jwt.encode({"sub": "bob"}, None, algorithm="none")
    shared = jwt.encode({"sub": "bob"}, "x" * 64, algorithm="HS256")
    for token in (unsigned, shared, "abc", "a.b.c", "x" * 20_000):
        with pytest.raises(NotAuthenticated):
            await tokens(tmp_path, web_keys()).user(Credentials(f"Bearer {token}", None, ""))


# --- certificates ---


@pytest.mark.anyio
async def test_a_certificate_names_its_user() -> None:
    identity = Authority().issue("carol")
    roles = RoleTable({Role.ADMIN: frozenset(("carol",))})
    mapper = SslPrincipalMapper("RULE:^CN=([^,]*).*$/$1/,DEFAULT")
    authenticator = Authenticator(certificates=ClientCertificates(mapper, roles))
    assert await authenticator.user(Credentials(None, identity.der, "")) == User("carol", Role.ADMIN)
    with pytest.raises(NotAuthenticated):
        await authenticator.user(Credentials(None, None, ""))
    with pytest.raises(NotAuthenticated):
        await authenticator.user(Credentials(None, b"no certificate", ""))


@pytest.mark.anyio
async def test_a_wrong_password_does_not_fall_back_to_the_certificate() -> None:
    users = parse_users(f"alice:operate:{ALICE}")
    authenticator = Authenticator(
        passwords=PasswordCheck(users, NOBODY, process_key=b"key", now_s=Seconds()),
        certificates=ClientCertificates(SslPrincipalMapper(), RoleTable({Role.ADMIN: frozenset("*")})),
    )
    shown = basic("alice", "wrong")
    with pytest.raises(NotAuthenticated):
        await authenticator.user(Credentials(shown.authorization, Authority().issue("carol").der, ""))


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"barnabas.connect.users.file": "/nowhere"}, "barnabas.connect.users.file"),
        ({"barnabas.connect.authentication": "jwt", "barnabas.connect.jwt.keys.file": "/nowhere"}, "jwt.keys.file"),
        ({"barnabas.connect.authentication": "jwt", "barnabas.connect.jwt.keys.file": "ftp://host/x"}, "protocol"),
        (
            {
                "barnabas.connect.authentication": "mtls",
                "barnabas.connect.mtls.principal.mapping.rules": "RULE:(/x/",
            },
            "mapping.rules",
        ),
    ],
)
def test_settings_that_prevent_authentication_are_named(properties: dict[str, str], named: str) -> None:
    settings = RestSettings.read({"barnabas.connect.authentication": "basic", **properties}).authentication
    with pytest.raises(UnusableRestSetting, match=named):
        set_up_authentication(settings, clock=TestClock(), random_bytes=bytes)
