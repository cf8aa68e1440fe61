"""OAUTHBEARER: the messages, the tokens, and the keys that verify them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.sasl.jwks import (
    JsonWebKeys,
    RefreshPolicy,
    UnusableJwks,
    UnusableJwksUrl,
    check_jwks_url,
)
from barnabas.security.sasl.jwt_validator import JwtRules, JwtValidator
from barnabas.security.sasl.oauthbearer import BearerToken, InitialResponse, InvalidToken, OAuthBearerServer
from barnabas.security.sasl.sasl_client import OAuthBearerClient
from barnabas.security.sasl.sasl_server import SaslFailure
from tests.peers.secure import TokenIssuer

NOW_S = 1_700_000_000
URL = "https://issuer.test/keys"


class Clock:
    def now_ms(self) -> int:
        return NOW_S * 1000

    def monotonic_ms(self) -> int:
        return 0


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> TokenIssuer:
    return TokenIssuer(tmp_path_factory.mktemp("issuer"))


def keys_of(*descriptions: dict[str, Any]) -> JsonWebKeys:
    keys = JsonWebKeys(URL, RefreshPolicy(), fetch_document=lambda url: json.dumps({"keys": descriptions}).encode())
    assert keys.refresh()
    return keys


def validator(keys_from: TokenIssuer, **rules: Any) -> JwtValidator:
    return JwtValidator(keys_of(keys_from.description()), JwtRules(**rules), Clock())


def token(
    issuer: TokenIssuer, *, algorithm: str = "RS256", key: Any = None, key_id: str | None = "", **claims: Any
) -> str:
    payload = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 600, **claims}
    payload = {name: value for name, value in payload.items() if value is not None}
    headers = {} if key_id is None else {"kid": key_id or issuer.key_id}
    return jwt.encode(payload, key or issuer.key, algorithm=algorithm, headers=headers)


class Accepting:
    def validate(self, token: str) -> BearerToken:
        if token != "good":
            raise InvalidToken("it is not good")
        return BearerToken("alice", 5000)


# --- messages


def test_a_good_token_logs_in_until_it_expires() -> None:
    server = OAuthBearerServer(Accepting())
    client = OAuthBearerClient(lambda: "good", {"tenant": "blue"})
    assert client.evaluate_challenge(server.evaluate_response(client.evaluate_challenge(b""))) == b""
    assert client.is_complete
    assert server.is_complete
    assert (server.authorization_id, server.session_expires_at_ms, server.extensions) == (
        "alice",
        5000,
        {"tenant": "blue"},
    )


def test_a_bad_token_is_answered_with_json_and_fails_with_it() -> None:
    server = OAuthBearerServer(Accepting())
    client = OAuthBearerClient(lambda: "bad")
    refusal = server.evaluate_response(client.evaluate_challenge(b""))
    assert json.loads(refusal) == {"status": "invalid_token"}
    with pytest.raises(SaslFailure) as caught:
        server.evaluate_response(client.evaluate_challenge(refusal))
    assert caught.value.public_message == refusal.decode()
    assert caught.value.reason == "it is not good"
    assert not server.is_complete


def test_after_a_refusal_no_second_token_is_accepted() -> None:
    server = OAuthBearerServer(Accepting())
    server.evaluate_response(b"n,,\x01auth=Bearer bad\x01\x01")
    with pytest.raises(SaslFailure):
        server.evaluate_response(b"n,,\x01auth=Bearer good\x01\x01")
    assert not server.is_complete


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer g d\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,a=x=y,\x01auth=Bearer good\x01\x01",
        b"n,,\x01bad name=1\x01auth=Bearer good\x01\x01",
        "n,,\x01auth=Bearer gööd\x01\x01".encode(),
    ],
)
def test_a_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(SaslFailure) as caught:
        OAuthBearerServer(Accepting()).evaluate_response(message)
    assert caught.value.public_message is None


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER  "])
def test_the_scheme_may_be_written_in_any_case(scheme: str) -> None:
    assert InitialResponse.read(f"n,,\x01auth={scheme} good\x01\x01".encode()).token == "good"


def test_an_authorization_id_must_equal_the_tokens_subject() -> None:
    server = OAuthBearerServer(Accepting())
    with pytest.raises(SaslFailure, match="authorization id"):
        server.evaluate_response(b"n,a=bob,\x01auth=Bearer good\x01\x01")
    OAuthBearerServer(Accepting()).evaluate_response(b"n,a=alice,\x01auth=Bearer good\x01\x01")


@given(st.lists(st.binary(max_size=60) | st.just(b"\x01") | st.just(b"n,,\x01auth=Bearer bad\x01\x01"), max_size=4))
def test_any_messages_without_a_valid_token_only_fail(messages: list[bytes]) -> None:
    server = OAuthBearerServer(Accepting())
    for message in messages:
        try:
            server.evaluate_response(message)
        except SaslFailure:
            break
    assert not server.is_complete


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a b": "x"}, {"a": ""}, {"a": "x\x01y"}])
def test_a_client_refuses_invalid_extensions(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        OAuthBearerClient(lambda: "good", extensions)


# --- tokens


def test_a_signed_token_names_its_subject(issuer: TokenIssuer) -> None:
    assert validator(issuer).validate(token(issuer, scope=["a", "b"])) == BearerToken(
        "alice", (NOW_S + 600) * 1000, frozenset(("a", "b"))
    )


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "PS256", "PS512"])
def test_rsa_signatures_are_accepted(issuer: TokenIssuer, algorithm: str) -> None:
    description = {name: value for name, value in issuer.description().items() if name != "alg"}
    judge = JwtValidator(keys_of(description), JwtRules(), Clock())
    assert judge.validate(token(issuer, algorithm=algorithm)).subject == "alice"


@pytest.mark.parametrize(
    ("algorithm", "curve", "name"), [("ES256", ec.SECP256R1(), "P-256"), ("ES384", ec.SECP384R1(), "P-384")]
)
def test_elliptic_curve_signatures_are_accepted(
    issuer: TokenIssuer, algorithm: str, curve: ec.EllipticCurve, name: str
) -> None:
    key = ec.generate_private_key(curve)
    described = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": "ec"}
    assert described["crv"] == name
    judge = JwtValidator(keys_of(issuer.description(), described), JwtRules(), Clock())
    assert judge.validate(token(issuer, algorithm=algorithm, key=key, key_id="ec")).subject == "alice"
    with pytest.raises(InvalidToken, match="no key"):
        judge.validate(token(issuer, key_id="ec"))


def test_a_token_without_a_key_id_may_match_any_key(issuer: TokenIssuer) -> None:
    other = TokenIssuer(issuer.key_set.parent, key_id="other")
    judge = JwtValidator(keys_of(other.description(), issuer.description()), JwtRules(), Clock())
    assert judge.validate(token(issuer, key_id=None)).subject == "alice"
    issuer.write_key_set(issuer.key_set)


def unsigned(issuer: TokenIssuer) -> str:
    payload = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 600}
    return jwt.encode(payload, None, algorithm="none", headers={"kid": issuer.key_id})


def signed_with_the_public_key(issuer: TokenIssuer) -> str:
    """Use the public key as the secret of an HMAC, a well-known attack."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    def encoded(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    import hashlib
    import hmac

    public = issuer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = encoded(json.dumps({"alg": "HS256", "kid": issuer.key_id}).encode())
    payload = encoded(json.dumps({"sub": "alice", "iat": NOW_S, "exp": NOW_S + 600}).encode())
    text = header + b"." + payload
    return (text + b"." + encoded(hmac.digest(public, text, hashlib.sha256))).decode()


def changed(issuer: TokenIssuer) -> str:
    header, _, signature = token(issuer).split(".")
    payload = base64.urlsafe_b64encode(json.dumps({"sub": "admin", "iat": NOW_S, "exp": NOW_S + 600}).encode())
    return f"{header}.{payload.rstrip(b'=').decode()}.{signature}"


def of_another_issuer(issuer: TokenIssuer) -> str:
    return token(issuer, key=rsa.generate_private_key(public_exponent=65537, key_size=2048))


@pytest.mark.parametrize("forge", [unsigned, signed_with_the_public_key, changed, of_another_issuer])
def test_a_forged_token_is_refused(issuer: TokenIssuer, forge: Callable[[TokenIssuer], str]) -> None:
    with pytest.raises(InvalidToken) as caught:
        validator(issuer).validate(forge(issuer))
    assert "alice" not in str(caught.value)


def _with_header(header: bytes, payload: bytes = b"{}", signature: bytes = b"x" * 256) -> str:
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (header, payload, signature))


def _signed(issuer: TokenIssuer, payload: bytes, **header: object) -> str:
    return jwt.api_jws.encode(payload, issuer.key, algorithm="RS256", headers={"kid": issuer.key_id, **header})


JWT_ATTACKS: dict[str, Callable[[TokenIssuer], str]] = {
    "no algorithm": lambda issuer: _with_header(b"{}"),
    "an algorithm that is not text": lambda issuer: _with_header(b'{"alg": ["RS256"]}'),
    "none in other letters": lambda issuer: _with_header(b'{"alg": "nOnE"}', signature=b""),
    "a key of its own": lambda issuer: _with_header(
        json.dumps({"alg": "RS256", "jwk": issuer.description(), "jku": "http://127.0.0.1:1/keys"}).encode()
    ),
    "a path as key id": lambda issuer: _with_header(b'{"alg": "RS256", "kid": "../../../../dev/null"}'),
    "a query as key id": lambda issuer: _with_header(b'{"alg": "RS256", "kid": "\' OR 1=1 --"}'),
    "a key id that is not text": lambda issuer: _with_header(b'{"alg": "RS256", "kid": {"a": 1}}'),
    "a critical header that is unknown": lambda issuer: _signed(
        issuer, json.dumps({"sub": "alice", "iat": NOW_S, "exp": NOW_S + 600}).encode(), crit=["mine"], mine=1
    ),
    "a payload that is detached": lambda issuer: _with_header(b'{"alg": "RS256", "b64": false, "crit": ["b64"]}'),
    "a header without end": lambda issuer: _with_header(b"[" * 40_000),
    "a deep header": lambda issuer: _with_header(b'{"alg":"RS256","x":' + b"[" * 20_000 + b"]" * 20_000 + b"}"),
    "a long number": lambda issuer: _with_header(b'{"alg": "RS256", "x": ' + b"9" * 40_000 + b"}"),
    "half a character": lambda issuer: _with_header(b'{"alg": "RS256", "kid": "\\ud800"}'),
    "dots": lambda issuer: "." * 60_000,
    "a list of claims": lambda issuer: _signed(issuer, b"[]"),
    "deep claims": lambda issuer: _signed(issuer, b'{"sub":"alice","x":' + b"[" * 20_000 + b"]" * 20_000 + b"}"),
    "a subject that is not text": lambda issuer: _signed(issuer, b'{"sub":"\xff"}'),
    "an infinite end": lambda issuer: _signed(issuer, b'{"sub":"alice","iat":1,"exp":Infinity}'),
    "an end that is not a number": lambda issuer: _signed(issuer, b'{"sub":"alice","iat":1,"exp":NaN}'),
    "an end that is true": lambda issuer: _signed(issuer, b'{"sub":"alice","iat":1,"exp":true}'),
}


@pytest.mark.parametrize("attack", JWT_ATTACKS.values(), ids=list(JWT_ATTACKS))
def test_jwt_attack_is_refused(issuer: TokenIssuer, attack: Callable[[TokenIssuer], str]) -> None:
    with pytest.raises(InvalidToken):
        validator(issuer).validate(attack(issuer))


def test_jwt_attack_only_keys_with_the_same_id_are_tried(issuer: TokenIssuer, tmp_path: Path) -> None:
    """A foreign key added to the set under the same id neither hides the right one nor signs for another id."""
    same, other = (TokenIssuer(tmp_path, key_id=key_id) for key_id in (issuer.key_id, "other"))
    judge = JwtValidator(keys_of(same.description(), issuer.description(), other.description()), JwtRules(), Clock())
    assert judge.validate(token(issuer)).subject == "alice"
    with pytest.raises(InvalidToken, match="signature"):
        judge.validate(token(issuer, key=other.key))


def test_oversized_messages_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(SaslFailure, match="longer than"):
        OAuthBearerServer(Accepting()).evaluate_response(b"n,,\x01" + b"a=b\x01" * 30_000 + b"auth=Bearer good\x01\x01")
    OAuthBearerServer(Accepting()).evaluate_response(b"n,,\x01" + b"a=b\x01" * 15_000 + b"auth=Bearer good\x01\x01")


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW_S - 30}, "expired"),
        ({"exp": None}, "'exp'"),
        ({"exp": "soon"}, "'exp'"),
        ({"exp": 1e300}, "'exp'"),
        ({"iat": None}, "'iat'"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"sub": None}, "'sub'"),
        ({"sub": ""}, "'sub'"),
        ({"sub": "  "}, "'sub'"),
        ({"sub": 7}, "'sub'"),
        ({"scope": 7}, "'scope'"),
        ({"scope": ["a", " a"]}, "duplicate"),
        ({"aud": "other"}, r"audience"),
    ],
)
def test_a_missing_or_wrong_claim_is_named(issuer: TokenIssuer, claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason):
        validator(issuer).validate(token(issuer, **claims))


@pytest.mark.parametrize("claims", [{"exp": NOW_S - 29}, {"nbf": NOW_S + 30}, {"sub": " alice "}, {"iat": NOW_S + 900}])
def test_clocks_may_differ_slightly(issuer: TokenIssuer, claims: dict[str, Any]) -> None:
    assert validator(issuer).validate(token(issuer, **claims)).subject == "alice"


def test_issuer_and_audience_are_compared_if_configured(issuer: TokenIssuer) -> None:
    judge = validator(issuer, issuer="https://a", audiences=("kafka", "other"))
    assert judge.validate(token(issuer, iss="https://a", aud=["x", "kafka"])).subject == "alice"
    for claims, reason in [
        ({"iss": "https://b", "aud": "kafka"}, "issuer"),
        ({"iss": "https://a", "aud": "x"}, "audience"),
    ]:
        with pytest.raises(InvalidToken, match=reason):
            judge.validate(token(issuer, **claims))
    for claims in ({"iss": "https://a"}, {"aud": "kafka"}):
        with pytest.raises(InvalidToken):
            judge.validate(token(issuer, **claims))


def test_subject_and_scope_claims_are_configurable(issuer: TokenIssuer) -> None:
    judge = validator(issuer, subject_claim="azp", scope_claim="scp")
    assert judge.validate(token(issuer, azp="service", scp="x")) == BearerToken(
        "service", (NOW_S + 600) * 1000, frozenset("x")
    )


@given(text=st.text(max_size=80) | st.from_regex(r"[A-Za-z0-9_-]{0,30}(\.[A-Za-z0-9_-]{0,30}){0,4}", fullmatch=True))
def test_any_text_is_accepted_or_refused(issuer: TokenIssuer, text: str) -> None:
    with pytest.raises(InvalidToken):
        validator(issuer).validate(text)


# --- keys


class Provider:
    """Returns a key set, or fails."""

    def __init__(self, *descriptions: dict[str, Any]) -> None:
        self.descriptions = list(descriptions)
        self.failure: str | None = None
        self.fetched = 0

    def __call__(self, url: str) -> bytes:
        self.fetched += 1
        if self.failure is not None:
            raise UnusableJwks(self.failure)
        return json.dumps({"keys": self.descriptions}).encode()


def test_while_fetching_fails_the_old_keys_stay_and_the_pause_grows(issuer: TokenIssuer) -> None:
    provider = Provider(issuer.description())
    keys = JsonWebKeys(URL, RefreshPolicy(60_000, 100, 1000), fetch_document=provider)
    assert keys.refresh()
    assert keys.pause_s == 60
    provider.failure = "no answer"
    pauses = []
    for _ in range(6):
        assert not keys.refresh()
        pauses.append(keys.pause_s)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert keys.candidates(issuer.key_id, "RS256")
    provider.failure = None
    assert keys.refresh()
    assert keys.pause_s == 60


def test_an_internal_error_does_not_end_the_fetching(issuer: TokenIssuer, caplog: pytest.LogCaptureFixture) -> None:
    def fail(url: str) -> bytes:
        raise ZeroDivisionError

    keys = JsonWebKeys(URL, RefreshPolicy(0, 100, 1000), fetch_document=fail)
    assert not keys.refresh()
    assert "can't be fetched" in caplog.text
    assert keys.pause_s == 0.1


def test_keys_are_fetched_once_a_second_at_most(issuer: TokenIssuer) -> None:
    keys = JsonWebKeys(URL, RefreshPolicy(0, 100, 1000), fetch_document=Provider(issuer.description()))
    assert keys.refresh()
    assert keys.pause_s == 1


def test_an_unknown_key_id_causes_a_fetch_but_not_repeatedly(issuer: TokenIssuer) -> None:
    now = [0.0]
    keys = JsonWebKeys(URL, RefreshPolicy(), fetch_document=Provider(issuer.description()), now=lambda: now[0])
    wake_ups = []
    for moment in (0, 1, 9, 10, 11, 25):
        now[0] = float(moment)
        keys._wake.clear()
        assert keys.candidates(f"key-{moment}", "RS256") == []
        wake_ups.append(keys._wake.is_set())
    assert wake_ups == [True, False, False, True, False, True]


def test_keys_of_other_uses_and_short_keys_are_skipped(issuer: TokenIssuer) -> None:
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    described = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(short.public_key()))
    good = issuer.description()
    keys = keys_of(
        {**described, "kid": "short"}, {**good, "kid": "enc", "use": "enc"}, {**good, "kid": "alg", "alg": "RSA-OAEP"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"}, {"kty": "RSA", "kid": "broken"}, {"kty": "EC", "kid": "ec"}, {},
        {**good, "kid": "good"},
    )  # fmt: skip
    assert [kid for kid in ("short", "enc", "alg", "oct", "broken", "ec", "good") if keys.candidates(kid, "RS256")] == [
        "good"
    ]
    assert keys.candidates("good", "RS512") == []


@pytest.mark.parametrize("document", [b"", b"[]", b'{"keys": 7}', b'{"keys": [7]}', b"[" * 100_000])
def test_a_document_that_is_not_a_key_set_is_refused(document: bytes, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(document)
    with pytest.raises(UnusableJwksUrl):
        check_jwks_url((tmp_path / "keys.json").as_uri())


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("keys.json", "protocol ''"),
        ("ftp://host/keys", "protocol 'ftp'"),
        ("https:///x", "no host"),
        ("file:///no/such", "cannot be read"),
    ],
)
def test_an_invalid_location_is_refused(url: str, reason: str) -> None:
    with pytest.raises(UnusableJwksUrl, match=reason):
        check_jwks_url(url)


def test_keys_may_be_read_from_a_file(issuer: TokenIssuer) -> None:
    check_jwks_url(issuer.key_set.as_uri())
    keys = JsonWebKeys(issuer.key_set.as_uri(), RefreshPolicy())
    keys.start()
    try:
        assert keys.candidates(issuer.key_id, "RS256")
    finally:
        keys.close()
