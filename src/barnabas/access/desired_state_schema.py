"""The only definition of the desired-state file: the reader and the published JSON schema both use it."""

from __future__ import annotations

from typing import Any

from barnabas.access.acl_text import resource_type_name
from barnabas.access.desired_state_notation import (
    QUOTA_LIMITS,
    Secret,
    operation_of,
    operation_text,
    parse_config_scope,
    parse_config_target,
    parse_mechanism,
    parse_name_pattern,
    parse_principal_text,
    parse_quota_limit,
    parse_resource_pattern,
    parse_secret,
    parse_topic_name,
    parse_topic_pattern,
)
from barnabas.access.schema_types import AnyText, Either, Field, Items, Number, Record, Table, Text
from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN

__all__ = ["FILE", "json_schema"]


def _word(what: str, known: dict[str, Any]) -> Text:
    """Return the type for one of several words, in any letter case."""

    def parse(text: str) -> Any:
        if text.casefold() not in known:
            raise ValueError(f"{text!r} is not {what}; valid are {', '.join(known)}")
        return known[text.casefold()]

    return Text(parse, what, words=tuple(known))


_VERSION = Number("the version of the format", 1, 1)
_TYPES = {resource_type_name(kind).casefold(): int(kind) for kind in ResourceType if kind > ResourceType.ANY}
_OPERATION_WORDS = ", ".join(operation_text(code) for code in AclOperation if code >= AclOperation.ALL)
_RESOURCE = Either(
    Text(parse_resource_pattern, "a resource: Topic:orders, Topic:payments-* (a prefix), Topic:*, Cluster"),
    Record(
        {
            "type": Field(_word("a resource type", _TYPES), "the resource type", True),
            "name": Field(Text(str, "a literal name"), "the literal name; an asterisk has no special meaning", True),
            "pattern": Field(
                _word("a pattern type", {"literal": int(PatternType.LITERAL), "prefixed": int(PatternType.PREFIXED)}),
                "prefixed for all names with this prefix; the default is literal",
            ),
        },
        "a resource",
    ),
)
_ACL = Record(
    {
        "principal": Field(
            Items(Text(parse_principal_text, "a principal, as in User:alice"), "principals", True, 1),
            "one or more principals; User:* means all users",
            True,
        ),
        "permission": Field(
            _word("a permission", {"allow": int(AclPermissionType.ALLOW), "deny": int(AclPermissionType.DENY)}),
            "the default is allow; deny takes precedence over allow",
        ),
        "host": Field(
            Items(Text(str, "an IP address, or *"), "hosts", True, 1),
            "one or more client addresses; the default is *",
        ),
        "operations": Field(
            Items(Text(operation_of, f"an operation: {_OPERATION_WORDS}"), "operations", True, 1),
            "the operations to allow or deny",
            True,
        ),
        "resources": Field(Items(_RESOURCE, "resources", True, 1), "the resources", True),
    },
    "an entry of acls",
)
_CONFIGS = Table(Text(str, "the name of a setting"), AnyText("the value of a setting"), "settings")
_TOPIC = Record(
    {
        "partitions": Field(
            Number("a number of partitions", 1, 2**31 - 1), "the number of partitions; by default, it does not change"
        ),
        "replication-factor": Field(
            Number("a replication factor", 1, 2**15 - 1), "the replication factor; by default, it does not change"
        ),
        "configs": Field(_CONFIGS, "the topic's own settings; unlisted settings have their defaults"),
    },
    "a topic",
)
_CREDENTIAL = Record(
    {
        "iterations": Field(
            Number("iterations", SCRAM_ITERATIONS_MIN, SCRAM_ITERATIONS_MAX), "the number of hash iterations"
        ),
        "password": Field(
            Either(
                Text(parse_secret, "a reference to the password", r"^\$\{(env|file):[^{}]+\}$"),
                Record(
                    {"clear": Field(Text(lambda text: Secret("clear", text), "the password"), "the password", True)},
                    "a plain-text password",
                ),
            ),
            "${env:NAME} or ${file:PATH}; read only when the credential is created or changed",
        ),
    },
    "a credential",
)
_ENTITY = Record(
    {
        kind: Field(Text(str, f"a name of {kind}", is_null_allowed=True), "a name; null for the default entity")
        for kind in ("user", "client-id", "ip")
    },
    "an entity",
)
_QUOTA = Record(
    {
        "entity": Field(_ENTITY, "the entity of the quota: user, client-id or both, or ip", True),
        "limits": Field(
            Table(
                Text(parse_quota_limit, "a limit", words=QUOTA_LIMITS),
                Number("a limit", 0, is_whole=False),
                "limits",
            ),
            "the limits by name",
            True,
        ),
    },
    "an entry of quotas",
)
_NAMES = Items(Text(parse_name_pattern, "a name, or a prefix followed by *"), "names")
_SCOPE = Record(
    {
        "topics": Field(
            Items(Text(parse_topic_pattern, "a topic, or a prefix followed by *"), "topics"),
            "the topics that the file owns; a pattern matches names that begin with __ only if it does too",
        ),
        "configs": Field(
            Items(Text(parse_config_scope, "broker-defaults, broker:<id>, broker:*, group:<name>"), "config resources"),
            "the brokers and groups whose settings the file owns",
        ),
        "acls": Field(
            Items(
                Record(
                    {
                        "resource": Field(
                            Text(parse_resource_pattern, "a resource, as in Topic:payments-*"),
                            "ACLs on these resources; the default is any",
                        ),
                        "principal": Field(
                            Text(parse_name_pattern, "a principal, as in User:app-*"),
                            "ACLs for these principals; the default is any",
                        ),
                    },
                    "an entry of scope.acls",
                ),
                "parts of the ACLs",
            ),
            "the ACLs that the file owns: those that match at least one entry",
        ),
        "users": Field(_NAMES, "the users whose credentials the file owns"),
        "quotas": Field(
            Items(_ENTITY, "entities"), "the quotas that the file owns: * means every name, null the default entity"
        ),
    },
    "the scope",
)
FILE = Record(
    {
        "version": Field(_VERSION, "the version of this format: 1", True),
        "scope": Field(
            _SCOPE, "the part of the cluster that this file owns; the rest is neither read nor changed", True
        ),
        "topics": Field(Table(Text(parse_topic_name, "a topic"), _TOPIC, "topics by name"), "topics by name"),
        "configs": Field(
            Table(Text(parse_config_target, "broker-defaults, broker:<id> or group:<name>"), _CONFIGS, "settings"),
            "dynamic settings of brokers and groups",
        ),
        "acls": Field(Items(_ACL, "ACLs"), "the ACLs of the scope"),
        "users": Field(
            Table(
                Text(str, "a user"),
                Table(
                    Text(parse_mechanism, "a mechanism", words=("SCRAM-SHA-256", "SCRAM-SHA-512")),
                    _CREDENTIAL,
                    "mechanisms",
                ),
                "users by name",
            ),
            "SCRAM credentials by user and mechanism",
        ),
        "quotas": Field(Items(_QUOTA, "quotas"), "the quotas of the scope"),
    },
    "the file",
)


def json_schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Desired state of a Kafka cluster, for barnabas plan and apply",
        **FILE.schema(),
    }
