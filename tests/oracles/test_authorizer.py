"""Decisions of Kafka 4.3.1's own StandardAuthorizer: each of ours must be the same.

We don't copy two behaviours, and each differing line must be one of them:

- A session that calls itself ``User:*`` makes Kafka fail; we deny.
- For a longer name that begins with an asterisk, Kafka skips the ACLs on the wildcard, denials too. Ours apply to every
  name, and Kafka's answer must be the one we give without those ACLs.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.authorizer import AuthorizerNotReady
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext
from tests.oracles.corpus import Line, read_lines

pytestmark = pytest.mark.oracle

LINES = read_lines("authorizer")


def binding(fields: list[Any]) -> AclBinding:
    type_, name, pattern, principal, host, operation, permission = fields
    return AclBinding(
        ResourceType[type_],
        name,
        PatternType[pattern],
        principal,
        host,
        AclOperation[operation],
        AclPermissionType[permission],
    )


def acl_filter(fields: list[Any]) -> AclBindingFilter:
    type_, name, pattern, principal, host, operation, permission = fields
    return AclBindingFilter(
        ResourceType[type_ or "ANY"],
        name,
        PatternType[pattern or "ANY"],
        principal,
        host,
        AclOperation[operation or "ANY"],
        AclPermissionType[permission or "ANY"],
    )


class Subject:
    """Our authorizer with the ACLs of one set, loaded as Kafka's was: even sets together, odd ones ACL by ACL."""

    def __init__(self, data: dict[str, Any], removed: set[int] | None = None) -> None:
        """``removed`` are the indexes of ACLs that are not loaded."""
        self.authorizer = StandardAuthorizer()
        self.authorizer.configure({key: value for key, value in data["config"].items() if value is not None})
        acls = {
            Uuid.from_int(1000 + index): binding(fields)
            for index, fields in enumerate(data["acls"])
            if index not in (removed or ())
        }
        if data["set"] % 2 == 0:
            self.authorizer.load_snapshot(acls)
        else:
            for acl_id, rule in acls.items():
                self.authorizer.add_acl(acl_id, rule)
        if data["initialLoadComplete"]:
            self.authorizer.complete_initial_load()

    def decide(self, query: list[Any]) -> str:
        principal, host, operation, type_, name, pattern, _ = query
        if pattern != "LITERAL":
            return ILLEGAL  # Our port has no such query.
        context = context_of(principal, host)
        try:
            allowed = self.authorizer.authorize(context, AclOperation[operation], ResourceType[type_], name)
        except AuthorizerNotReady:
            return "EXCEPTION org.apache.kafka.common.errors.AuthorizerNotReadyException"
        mask = self.authorizer.authorized_operations_many(context, ResourceType[type_], (name,))[0]
        assert mask == self.authorizer.authorized_operations(context, ResourceType[type_], name)
        explained = self.authorizer.explain(context.principal, host, AclOperation[operation], ResourceType[type_], name)
        assert explained.allowed is allowed, explained
        return "ALLOWED" if allowed else "DENIED"

    def decide_by_type(self, query: list[Any]) -> str:
        principal, host, operation, type_, _ = query
        try:
            allowed = self.authorizer.authorize_by_resource_type(
                context_of(principal, host), AclOperation[operation], ResourceType[type_]
            )
        except AuthorizerNotReady:
            return "EXCEPTION org.apache.kafka.common.errors.AuthorizerNotReadyException"
        except ValueError:
            return ILLEGAL
        return "ALLOWED" if allowed else "DENIED"


def context_of(principal: str, host: str) -> RequestContext:
    kind, _, name = principal.partition(":")
    return RequestContext(api_key=ApiKey.METADATA, api_version=12, principal=Principal(kind, name), client_host=host)


ILLEGAL = "EXCEPTION java.lang.IllegalArgumentException"


def check_queries(subject: Subject, without_wildcards: Subject, queries: list[list[Any]]) -> list[Any]:
    """Return the queries that we answer differently from Kafka, with our answer."""
    differing = []
    for query in queries:
        answer, name, pattern = query[6], query[4], query[5]
        if query[0] == "User:*" and answer == ILLEGAL and pattern == "LITERAL":
            answer = "DENIED"
        ours = subject.decide(query)
        if ours != answer and len(name) > 1 and name.startswith("*"):
            ours = without_wildcards.decide(query)
        if ours != answer:
            differing.append((query, ours))
    return differing


def check_types(subject: Subject, queries: list[list[Any]]) -> list[Any]:
    differing = []
    for query in queries:
        ours = subject.decide_by_type(query)
        if ours != query[4] and not (query[0] == "User:*" and query[4] == ILLEGAL and ours == "DENIED"):
            differing.append((query, ours))
    return differing


def check_filters(subject: Subject, acls: list[Any], filters: list[list[Any]]) -> list[Any]:
    differing = []
    for fields in filters:
        ours = {rule for _, rule in subject.authorizer.acls(acl_filter(fields[:7]))}
        if ours != {binding(acls[index]) for index in fields[7]}:
            differing.append((fields, ours))
    return differing


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"set {line.data['set']}")
def test_every_decision_equals_kafkas(line: Line) -> None:
    data = line.data
    subject = Subject(data)
    wildcards = {index for index, fields in enumerate(data["acls"]) if fields[1:3] == ["*", "LITERAL"]}
    without_wildcards = Subject(data, wildcards)
    differing = check_queries(subject, without_wildcards, data["queries"])
    differing += check_types(subject, data["byResourceType"])
    differing += check_filters(subject, data["acls"], data["filters"])
    if "afterRemoval" in data:
        for index in data["afterRemoval"]["removed"]:
            subject.authorizer.remove_acl(Uuid.from_int(1000 + index))
            if index not in wildcards:
                without_wildcards.authorizer.remove_acl(Uuid.from_int(1000 + index))
        differing += check_queries(subject, without_wildcards, data["afterRemoval"]["queries"])
    assert not differing, f"{len(differing)} differ: {differing[:3]}"


def test_every_kind_of_answer_is_in_the_corpus() -> None:
    answers = {query[6] for line in LINES for query in line.data["queries"]}
    assert {"ALLOWED", "DENIED"} <= answers
    assert any("AuthorizerNotReady" in answer for answer in answers)
