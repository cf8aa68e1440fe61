"""Principals of connections: builders, their serde, mapping rules, names of certificates."""

from __future__ import annotations

import signal
from time import process_time
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from barnabas.security.distinguished_name import MalformedCertificate, format_name, subject_name
from barnabas.security.java_regex import UnsupportedExpression, compile_java, replace_all
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.principal_builder import (
    AuthenticationContext,
    DefaultPrincipalBuilder,
    PrincipalBuilder,
    PrincipalRefused,
    missing_methods,
    session_principal,
)
from barnabas.security.principal_serde import InvalidPrincipalBytes, deserialize_principal
from barnabas.security.ssl_principal_mapper import (
    InvalidMappingRule,
    NoMatchingRule,
    SslPrincipalMapper,
    TooLongToMatch,
)
from tests.peers.certificates import Authority

AUTHORITY = Authority()


def context(**more: Any) -> AuthenticationContext:
    return AuthenticationContext(
        **{"listener_name": "SSL", "security_protocol": "SSL", "client_host": "192.0.2.7", **more}
    )


def test_without_certificate_and_sasl_every_client_is_anonymous() -> None:
    assert session_principal(DefaultPrincipalBuilder(), context()) == ANONYMOUS


def test_the_principal_of_a_certificate_is_its_mapped_subject() -> None:
    alice = AUTHORITY.issue("alice").der
    assert session_principal(DefaultPrincipalBuilder(), context(peer_certificate_der=alice)).name == "CN=alice"
    mapped = DefaultPrincipalBuilder(SslPrincipalMapper("RULE:^CN=(.*)$/$1/U"))
    assert session_principal(mapped, context(peer_certificate_der=alice)) == Principal("User", "ALICE")


def test_sasl_takes_precedence_over_the_certificate() -> None:
    given = context(peer_certificate_der=AUTHORITY.issue("alice").der, authorization_id="bob", token_authenticated=True)
    assert session_principal(DefaultPrincipalBuilder(), given) == Principal("User", "bob", True)


def test_the_wildcard_principal_is_refused() -> None:
    with pytest.raises(PrincipalRefused, match="all principals"):
        session_principal(DefaultPrincipalBuilder(), context(authorization_id="*"))
    star = AUTHORITY.issue("*").der
    mapped = DefaultPrincipalBuilder(SslPrincipalMapper("RULE:^CN=(.*)$/$1/"))
    with pytest.raises(PrincipalRefused, match="all principals"):
        session_principal(mapped, context(peer_certificate_der=star))


@pytest.mark.parametrize(
    ("name", "reason"), [(" *", None), ("*\0", None), ("\uff0a", None), ("a" * 32_762, None), ("", None), ("a:*", None),
                       ("*", "all principals"), ("\ud800", "not valid text"), ("a" * 32_763, "32768 bytes")]
)  # fmt: skip
def test_principal_confusion_the_wildcard_and_malformed_names_are_refused(name: str, reason: str | None) -> None:
    """A name that only looks like the wildcard is an ordinary name: no ACL about another principal applies to it."""
    if reason is None:
        assert session_principal(DefaultPrincipalBuilder(), context(authorization_id=name)).name == name
    else:
        with pytest.raises(PrincipalRefused, match=reason):
            session_principal(DefaultPrincipalBuilder(), context(authorization_id=name))


_RULE_OF_KAFKAS_DOCUMENTATION = "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("RULE:^CN=((a+)+)$/$1/,DEFAULT", "CN=" + "a" * 60 + "!"),
        ("RULE:^CN=(a|a)*$/x/,DEFAULT", "CN=" + "a" * 60 + "!"),
        ("RULE:^CN=(?:.*,)*x$/y/,DEFAULT", "CN=" + "," * 60),
        (_RULE_OF_KAFKAS_DOCUMENTATION, "CN=a" + ",OU=a,O=a,L=a,ST=a" * 60),
    ],
)
def test_regex_backtracking_a_name_that_needs_too_much_time_is_refused_soon(rules: str, name: str) -> None:
    mapper = SslPrincipalMapper(rules)
    began = process_time()
    with pytest.raises(TooLongToMatch, match="mapping.rules took more than"):
        mapper.name_of(name)
    took = process_time() - began
    for _ in range(1000):
        with pytest.raises(TooLongToMatch):
            mapper.name_of(name)
    assert took < 1
    assert process_time() - began < took + 1
    assert mapper.name_of("CN=a,OU=b,O=c,L=d,ST=e,C=f") in ("a@b", "CN=a,OU=b,O=c,L=d,ST=e,C=f")


def test_regex_backtracking_the_cache_is_bounded_and_no_timer_remains() -> None:
    mapper = SslPrincipalMapper("RULE:^CN=((a+)+)$/$1/")
    mapper._too_long = {bytes([index, 0]): None for index in range(256)}
    with pytest.raises(TooLongToMatch):
        mapper.name_of("CN=" + "a" * 60 + "!")
    assert len(mapper._too_long) == 256
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL


def test_a_name_without_a_rule_is_refused() -> None:
    mapped = DefaultPrincipalBuilder(SslPrincipalMapper("RULE:^OU=(.*)$/$1/"))
    with pytest.raises(PrincipalRefused, match="No rules apply to CN=alice"):
        session_principal(mapped, context(peer_certificate_der=AUTHORITY.issue("alice").der))


class Failing(DefaultPrincipalBuilder):
    def build(self, context: AuthenticationContext) -> Principal:
        raise KeyError("team")


class Wrong(DefaultPrincipalBuilder):
    def build(self, context: AuthenticationContext) -> Any:
        return "User:alice"


class Teams(DefaultPrincipalBuilder):
    def build(self, context: AuthenticationContext) -> Principal:
        certificate = context.peer_certificate
        assert certificate is not None
        return Principal("Team", certificate.subject.rfc4514_string())


@pytest.mark.parametrize(("builder", "reason"), [(Failing(), "KeyError: 'team'"), (Wrong(), "returned str")])
def test_a_builder_that_fails_refuses_the_connection(builder: PrincipalBuilder, reason: str) -> None:
    with pytest.raises(PrincipalRefused, match=reason):
        session_principal(builder, context())


def test_a_custom_builder_receives_the_certificate() -> None:
    der = AUTHORITY.issue("alice").der
    assert session_principal(Teams(), context(peer_certificate_der=der)) == Principal("Team", "CN=alice")


def test_a_builder_without_serde_is_recognized() -> None:
    class Own:
        def build(self, context: AuthenticationContext) -> Principal:
            return ANONYMOUS

    class Derived(PrincipalBuilder):
        def build(self, context: AuthenticationContext) -> Principal:
            return ANONYMOUS

    assert missing_methods(Own) == ["serialize", "deserialize"]
    assert missing_methods(Derived) == ["serialize", "deserialize"]
    assert missing_methods(Teams) == []


@pytest.mark.parametrize(
    "data", [None, b"", b"\0", b"\0\0\5User", b"\0\0\xff\xff\xff\xff\x0f", b"\xff\xff\5User\2a\0\0"]
)
def test_malformed_bytes_are_refused_as_principal(data: bytes | None) -> None:
    with pytest.raises(InvalidPrincipalBytes):
        deserialize_principal(data)


def test_every_truncated_principal_is_refused() -> None:
    whole = DefaultPrincipalBuilder().serialize(Principal("User", "alice", True))
    assert deserialize_principal(whole) == Principal("User", "alice", True)
    for length in range(len(whole)):
        with pytest.raises(InvalidPrincipalBytes):
            deserialize_principal(whole[:length])


def test_names_are_written_as_java_writes_them() -> None:
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "AT"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, 'Acme, "Inc" <x>'),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b"),
            x509.NameAttribute(NameOID.COMMON_NAME, " dév #1 "),
        ]
    )
    assert format_name(name.public_bytes()) == (
        'CN=\\ dév \\#1\\ ,1.2.840.113549.1.9.1=#1603614062,O=Acme\\, \\"Inc\\" \\<x\\>,C=AT'
    )
    assert subject_name(AUTHORITY.issue(name).der) == format_name(name.public_bytes())


def test_every_truncated_certificate_is_refused() -> None:
    der = AUTHORITY.issue("alice").der
    for length in range(40):
        with pytest.raises(MalformedCertificate):
            subject_name(der[:length])


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("RULE:^CN=(.*/$1/", "missing \\)"),
        ("RULE:[a-z&&[^b]]*/x/", "classes inside of classes"),
        ("RULE:\\p{IsLatin}*/x/", "is not supported; the supported names are ASCII"),
        ("RULE:a(?i)b/x/", "is not supported here"),
        ("RULE:(?x)a b/x/", "the flag x is not supported"),
        ("RULE:a{,3}/x/", "has to be written"),
        ("RULE:(a)\\10/x/", "name the group"),
        ("RULE:\\N/x/", "\\\\N is not supported"),
        ("RULE:[a/x/", "is not closed"),
        ("RULE:(?!(a)).*/x/", "a group with a number inside of"),
        ("RULE:(?:(a)|b)*+c/x/", "a group with a number inside of"),
    ],
)
def test_invalid_rules_are_named(rules: str, reason: str) -> None:
    with pytest.raises(InvalidMappingRule, match=reason):
        SslPrincipalMapper(rules)


def test_a_replacement_without_its_group_refuses_the_name() -> None:
    with pytest.raises(ValueError, match="names group 1, but the expression has 0"):
        SslPrincipalMapper("RULE:.*/$1/").name_of("CN=a")
    with pytest.raises(ValueError, match=r"a \$ without a group"):
        SslPrincipalMapper("RULE:.*/$x/").name_of("CN=a")
    with pytest.raises(NoMatchingRule):
        SslPrincipalMapper("RULE:b/x/").name_of("CN=a")


@pytest.mark.parametrize(
    ("expression", "text", "matches"),
    [
        (".", "\r", False),
        ("(?s).", "\r", True),
        ("\\d", "٣", False),
        ("(?i)É", "é", False),
        ("\\Qa.b\\E.", "a.bc", True),
        ("\\Qa.b", "a.b", True),
        ("a$", "a\u2028", False),
        ("[\\h]+", "\u00a0\t", True),
        ("\\P{Alpha}", "1", True),
        ("(?<first>a)\\k<first>", "aa", True),
        ("a++b", "aab", True),
        ("\\x{1F600}", "😀", True),
        ("[^]]", "a", None),
    ],
)
def test_expressions_have_the_meaning_of_java(expression: str, text: str, matches: bool | None) -> None:
    if matches is None:
        with pytest.raises(UnsupportedExpression):
            compile_java(expression)
    else:
        assert (compile_java(expression).fullmatch(text) is not None) is matches


def test_a_word_boundary_is_refused_for_names_beyond_ascii() -> None:
    mapper = SslPrincipalMapper("RULE:^CN=\\b(.*)$/$1/")
    assert mapper.name_of("CN=alice") == "alice"
    with pytest.raises(ValueError, match="in different versions of Java"):
        mapper.name_of("CN=émile")


def test_every_match_is_replaced_including_an_empty_one_at_the_end() -> None:
    assert replace_all(compile_java(".*"), "x", "abc") == "xx"
    assert replace_all(compile_java("(b)|(c)"), "<$1$2>", "abc") == "a<b><c>"
    assert replace_all(compile_java("a*?"), "x", "aa") == "xaxax"
    assert replace_all(compile_java("(?<=a)b"), "x", "abab") == "axax"
