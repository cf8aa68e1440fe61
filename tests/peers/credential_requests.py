"""Requests about SCRAM credentials, delegation tokens and client quotas, good and bad, in sending order. They are for a
node with users that log in with PLAIN (each user's password is its name), a PLAINTEXT listener, and an authorizer with
the super users ``admin`` and ``ANONYMOUS``; the others have the rights in ``RIGHTS``. Later requests depend on the
results of earlier ones. A request about a token names it by the case that created it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

__all__ = ["PASSWORDS", "PLAINTEXT", "QUOTAS", "RIGHTS", "Step", "comparable", "steps", "steps_without_tokens"]

PLAINTEXT = "nobody"
"""The caller without a login."""
PASSWORDS = {name: name for name in ("admin", "alice", "bob", "carol")}
RIGHTS = {
    ("bob", "CREATE_TOKENS", "USER", "User:alice"),
    ("bob", "DESCRIBE_TOKENS", "USER", "User:alice"),
}
QUOTAS: tuple[tuple[Mapping[str, str | None], Mapping[str, float]], ...] = (
    ({"user": "alice"}, {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0}),
    ({"user": None}, {"request_percentage": 12.5}),
    ({"client-id": "app"}, {"consumer_byte_rate": 5.0}),
    ({"client-id": None}, {"consumer_byte_rate": 6.0}),
    ({"user": "alice", "client-id": "app"}, {"producer_byte_rate": 7.0}),
    ({"user": "alice", "client-id": None}, {"producer_byte_rate": 8.0}),
    ({"user": None, "client-id": None}, {"controller_mutation_rate": 9.0}),
    ({"ip": "10.0.0.1"}, {"connection_creation_rate": 10.0}),
    ({"ip": None}, {"connection_creation_rate": 11.0}),
)

SHA_256, SHA_512 = 1, 2
CLUSTER_AUTHORIZATION_FAILED = 31
HOUR_MS, LONG_MAX = 3_600_000, 2**63 - 1


class Step(NamedTuple):
    caller: str
    name: str
    make: Callable[[Mapping[str, bytes]], Any]
    """Builds the request from the HMACs of the created tokens, by the name of their step."""
    version: int


def comparable(answer: Any, now_ms: int) -> Any:
    """Return an answer's JSON without values that differ from run to run: ids, secrets, throttling, the order of
    entries.

    Times are relative to the request's, to a minute. The text of a denial is omitted: Kafka's contains internals.
    """
    if isinstance(answer, list):
        return sorted((comparable(entry, now_ms) for entry in answer), key=repr)
    if not isinstance(answer, dict):
        return answer
    result = {key: comparable(value, now_ms) for key, value in answer.items() if key != "throttleTimeMs"}
    for key, value in answer.items():
        if key in ("tokenId", "hmac") and value:
            result[key] = f"{len(value)} characters"
        elif "Timestamp" in key and value > 0:
            result[key] = "max" if value > now_ms + 10**15 else round((value - now_ms) / 60_000) * 60_000
        elif key == "errorMessage" and answer["errorCode"] == CLUSTER_AUTHORIZATION_FAILED:
            result[key] = "a denial"
    return result


# SCRAM


def upsert(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt", salted: bytes = b"s" * 32
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def delete(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def _scram_changes() -> dict[str, list[Any]]:
    return {
        "add": [upsert("u1")],
        "add the other mechanism": [upsert("u1", SHA_512, 8192, salted=b"s" * 64)],
        "replace": [upsert("u1", iterations=5000)],
        "both mechanisms at once": [upsert("both"), upsert("both", SHA_512)],
        "the same twice": [upsert("twice"), upsert("twice")],
        "three times": [upsert("thrice"), upsert("thrice"), upsert("thrice", SHA_512)],
        "delete and add": [delete("u1"), upsert("u1")],
        "delete both": [delete("u1"), delete("u1", SHA_512)],
        "delete an unknown credential and add": [delete("new"), upsert("new")],
        "add without a name": [upsert("")],
        "delete without a name": [delete("")],
        "mechanism 0": [upsert("m", 0)],
        "mechanism 3": [upsert("m", 3)],
        "mechanism -1": [upsert("m", -1)],
        "delete mechanism 0": [delete("u1", 0)],
        "no name and no mechanism": [upsert("", 9)],
        "4095 iterations": [upsert("i", iterations=4095)],
        "16385 iterations": [upsert("i", iterations=16385)],
        "-1 iterations": [upsert("i", iterations=-1)],
        "no mechanism and few iterations": [upsert("i", 5, iterations=1)],
        "16384 iterations": [upsert("i", iterations=16384)],
        "empty salt": [upsert("salt", salt=b"")],
        "empty salted password": [upsert("pass", salted=b"")],
        "empty salted password beside a good one": [upsert("pass", salted=b""), upsert("good")],
        "short salted password": [upsert("short", salted=b"x")],
        "delete an unknown user": [delete("stranger")],
        "delete a mechanism that the user has not": [delete("short", SHA_512)],
        "one good, one bad": [upsert("fine"), upsert("bad", iterations=1)],
        "bad, then good, of one user": [upsert("again", iterations=1), upsert("again")],
        "good, then bad, of one user": [upsert("again2"), upsert("again2", iterations=1)],
        "odd names": [upsert("a=b,c"), upsert("ünï"), upsert(" "), upsert("n" * 300), upsert("line\nbreak")],
        "nothing": [],
        "delete": [delete("short")],
        "delete again": [delete("short")],
        "many": [upsert("p1"), delete("fine"), upsert("p2", SHA_512), delete("nobody")],
    }


def _scram_steps() -> list[Step]:
    def alter(name: str, changes: list[Any], caller: str = PLAINTEXT) -> Step:
        request = AlterUserScramCredentialsRequest(
            deletions=[change for change in changes if isinstance(change, ScramCredentialDeletion)],
            upsertions=[change for change in changes if isinstance(change, ScramCredentialUpsertion)],
        )
        return Step(caller, f"scram: {name}", lambda known: request, 0)

    def describe(name: str, users: list[str] | None, caller: str = PLAINTEXT) -> Step:
        named = None if users is None else [UserName(name=user) for user in users]
        return Step(caller, f"describe: {name}", lambda known: DescribeUserScramCredentialsRequest(users=named), 0)

    return [
        describe("without credentials", None),
        *(alter(name, changes) for name, changes in _scram_changes().items()),
        alter("denied", [upsert("x"), upsert("y"), delete("x"), delete("z")], "carol"),
        describe("all", None),
        describe("an empty list", []),
        describe("one", ["u1"]),
        describe("two", ["u1", "i"]),
        describe("twice", ["u1", "u1"]),
        describe("unknown", ["stranger"]),
        describe("unknown twice", ["stranger", "stranger"]),
        describe("no name", [""]),
        describe("a mixture", ["u1", "stranger", "i", "i", "i"]),
        describe("denied", ["u1", "stranger"], "carol"),
        describe("denied, no user", [], "carol"),
    ]


# Tokens


def create(
    owner: tuple[str, str] | None = None, renewers: list[tuple[str, str]] | None = None, max_lifetime_ms: int = -1
) -> Callable[[Mapping[str, bytes]], Any]:
    named: dict[str, Any] = (
        {} if owner is None else {"owner_principal_type": owner[0], "owner_principal_name": owner[1]}
    )
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers or []],
        max_lifetime_ms=max_lifetime_ms,
        **named,
    )
    return lambda known: request


def renew(token: str, period_ms: int = -1) -> Callable[[Mapping[str, bytes]], Any]:
    return lambda known: RenewDelegationTokenRequest(hmac=known.get(token, token.encode()), renew_period_ms=period_ms)


def expire(token: str, period_ms: int = -1) -> Callable[[Mapping[str, bytes]], Any]:
    return lambda known: ExpireDelegationTokenRequest(
        hmac=known.get(token, token.encode()), expiry_time_period_ms=period_ms
    )


def describe_tokens(*owners: tuple[str, str], everybody: bool = False) -> Callable[[Mapping[str, bytes]], Any]:
    named = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in owners]
    return lambda known: DescribeDelegationTokenRequest(owners=None if everybody else named)


ALICE, BOB, CAROL = ("User", "alice"), ("User", "bob"), ("User", "carol")


def _refused_steps() -> list[Step]:
    everybody = describe_tokens(everybody=True)
    return [
        *(Step(PLAINTEXT, f"create on PLAINTEXT v{v}", create(), v) for v in (1, 2, 3)),
        *(Step(PLAINTEXT, f"renew on PLAINTEXT v{v}", renew("none"), v) for v in (1, 2)),
        *(Step(PLAINTEXT, f"expire on PLAINTEXT v{v}", expire("none"), v) for v in (1, 2)),
        *(Step(PLAINTEXT, f"describe on PLAINTEXT v{v}", everybody, v) for v in (1, 2, 3)),
        Step(PLAINTEXT, "create for another on PLAINTEXT", create(ALICE), 3),
        Step("carol", "create for another", create(ALICE), 3),
        Step("carol", "create for another, with a bad renewer", create(ALICE, [("Group", "g")]), 3),
        Step("alice", "create with a bad renewer", create(renewers=[CAROL, ("Group", "g")]), 3),
        Step("alice", "create with a bad renewer, old version", create(renewers=[("Group", "g")]), 1),
        Step("alice", "create with a renewer without type", create(renewers=[("", "g")]), 3),
        Step("alice", "create for an owner without type", create(("", "alice")), 3),
    ]


def _create_steps() -> list[Step]:
    return [
        *(Step("alice", f"t{v}", create(), v) for v in (1, 2, 3)),
        Step("alice", "named herself", create(ALICE), 3),
        Step("alice", "with an empty owner", create(("User", "")), 3),
        Step("alice", "with renewers", create(renewers=[CAROL, CAROL, ("User", "")]), 3),
        Step("bob", "for alice", create(ALICE, [CAROL]), 3),
        Step("admin", "for an unknown user", create(("User", "zoe")), 3),
        Step("admin", "for a group", create(("Group", "staff")), 3),
        *(
            Step("alice", f"max lifetime {lifetime_ms}", create(max_lifetime_ms=lifetime_ms), 3)
            for lifetime_ms in (0, -5, HOUR_MS, 100 * 24 * HOUR_MS, LONG_MAX)
        ),
    ]


def _change_steps() -> list[Step]:
    renewals = (-1, 0, 1, HOUR_MS, 1000 * HOUR_MS, LONG_MAX)
    return [
        Step("alice", "renew an unknown token", renew("no such token"), 2),
        Step("alice", "renew without hmac", renew(""), 2),
        Step("carol", "renew as an unrelated user", renew("t1"), 2),
        Step("bob", "renew as the requester", renew("for alice"), 2),
        Step("carol", "renew as a renewer", renew("for alice"), 2),
        Step("admin", "renew as a super user", renew("for alice"), 2),
        *(Step("alice", f"renew for {period_ms}", renew("t2", period_ms), 2) for period_ms in renewals[3:]),
        Step("alice", "renew for less, old version", renew("t2", 2 * HOUR_MS), 1),
        *(Step("alice", f"renew for {period_ms}", renew("t2", period_ms), 2) for period_ms in renewals[:2]),
        Step("alice", "renew beyond the end", renew("max lifetime 3600000", 5 * HOUR_MS), 2),
        Step("alice", "expire an unknown token", expire("no such token"), 2),
        Step("alice", "expire an unknown token later", expire("no such token", 5), 2),
        Step("carol", "expire as an unrelated user", expire("t1"), 2),
        Step("bob", "expire as the requester", expire("for alice"), 2),
        Step("alice", "expire in an hour", expire("t3", HOUR_MS), 2),
        Step("alice", "expire in a thousand", expire("t3", 1000 * HOUR_MS), 2),
        Step("alice", "expire at the end of time", expire("t3", LONG_MAX), 2),
        Step("alice", "expire, old version", expire("t3", 3 * HOUR_MS), 1),
        Step("alice", "expire now", expire("t1", 0), 2),
        Step("alice", "see it", describe_tokens(ALICE), 3),
        Step("alice", "see it again", describe_tokens(ALICE), 3),
        Step("alice", "renew an expired token", renew("t1"), 2),
        Step("carol", "renew an expired token, as an unrelated user", renew("t1"), 2),
        Step("alice", "expire later what is expired", expire("t1", HOUR_MS), 2),
        Step("carol", "expire an expired token, as an unrelated user", expire("t1", HOUR_MS), 2),
        Step("alice", "remove what is expired", expire("t1"), 2),
        Step("alice", "remove it again", expire("t1"), 2),
        Step("alice", "renew what is removed", renew("t1"), 2),
        Step("carol", "remove as a renewer", expire("with renewers", -7), 2),
    ]


def _describe_steps() -> list[Step]:
    everybody = describe_tokens(everybody=True)
    return [
        *(Step("alice", f"describe v{v}", everybody, v) for v in (1, 2, 3)),
        Step("alice", "describe no owner's", describe_tokens(), 3),
        Step("alice", "describe hers", describe_tokens(ALICE), 3),
        Step("alice", "describe carol's", describe_tokens(CAROL), 3),
        Step("alice", "describe two owners'", describe_tokens(BOB, ALICE), 3),
        Step("alice", "describe another type's", describe_tokens(("Group", "alice")), 3),
        Step("bob", "describe with a right", everybody, 3),
        Step("bob", "describe his", describe_tokens(BOB), 3),
        Step("carol", "describe as a renewer", everybody, 3),
        Step("carol", "describe alice's as a renewer", describe_tokens(ALICE), 3),
        Step("admin", "describe as a super user", everybody, 3),
    ]


# Quotas


def _quota_steps() -> list[Step]:
    exact, default, any_of = 0, 1, 2

    def describe(name: str, *components: tuple[str, int, str | None], strict: bool = False, v: int = 1) -> Step:
        request = DescribeClientQuotasRequest(
            components=[
                ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components
            ],
            strict=strict,
        )
        return Step("carol" if name.startswith("denied") else PLAINTEXT, f"quotas: {name}", lambda known: request, v)

    alice = ("user", exact, "alice")
    return [
        describe("all"),
        describe("all, old version", v=0),
        describe("all, strict", strict=True),
        describe("alice", alice),
        describe("alice, strict", alice, strict=True),
        describe("default user", ("user", default, None)),
        describe("default user, strict", ("user", default, None), strict=True),
        describe("any user", ("user", any_of, None)),
        describe("any user, strict", ("user", any_of, None), strict=True),
        describe("any user with any client", ("user", any_of, None), ("client-id", any_of, None)),
        describe("alice with the default client", alice, ("client-id", default, None), strict=True),
        describe("a client", ("client-id", exact, "app")),
        describe("any ip", ("ip", any_of, None)),
        describe("an ip", ("ip", exact, "10.0.0.1")),
        describe("default ip", ("ip", default, None), strict=True),
        describe("unknown names", ("user", exact, "zoe")),
        describe("an empty name", ("user", exact, "")),
        describe("a type twice", alice, ("user", any_of, None)),
        describe("no type", ("", exact, "x")),
        describe("unknown type", ("team", exact, "x")),
        describe("unknown type twice", ("team", exact, "x"), ("team", exact, "x")),
        describe("exact without a name", ("user", exact, None)),
        describe("default with a name", ("user", default, "alice")),
        describe("any with a name", ("user", any_of, "alice")),
        describe("unknown match", ("user", 3, None)),
        describe("match -1", ("user", -1, "x")),
        describe("ip with user", ("ip", any_of, None), ("user", any_of, None)),
        describe("ip with client", ("client-id", exact, "app"), ("ip", exact, "10.0.0.1")),
        describe("denied", alice),
        describe("denied, old version", v=0),
    ]


def steps() -> list[Step]:
    """Return the steps for a node that has delegation tokens."""
    return [
        *_scram_steps(),
        *_quota_steps(),
        *_refused_steps(),
        *_create_steps(),
        *_change_steps(),
        *_describe_steps(),
    ]


def steps_without_tokens() -> list[Step]:
    """Return the steps for a node without a secret key."""
    everybody = describe_tokens(everybody=True)
    made = [
        Step("alice", "create", create(), 3),
        Step("alice", "create, old version", create(), 1),
        Step("carol", "create for another", create(ALICE), 3),
        Step("alice", "create with a bad renewer", create(renewers=[("Group", "g")]), 3),
        Step("alice", "renew", renew("none"), 2),
        Step("alice", "expire", expire("none"), 2),
        Step("alice", "describe", everybody, 3),
        Step("alice", "describe no owner's", describe_tokens(), 3),
        Step(PLAINTEXT, "create on PLAINTEXT", create(), 3),
        Step(PLAINTEXT, "describe on PLAINTEXT", everybody, 3),
    ]
    return [step._replace(name=f"disabled: {step.name}") for step in made]
