"""One table of requests and rights that runs against any node; the answers are made comparable.

A row is a request and many sets of rights. Each (row, version, set of rights) is a case with a user of its own, so that
no case disturbs another: all rights are granted before the first case runs.

A set of rights is written as text, ``;`` between rights::

    READ TOPIC orders; deny ALL TOPIC ord... @127.0.0.2 %User:*

An operation, a type, a name (a prefix if ``...`` follows), optionally a host and a principal other than the
case's own user. ``{me}`` in rights and in requests is the case's user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.errors import ErrorCode
from barnabas.common.resource import CLUSTER_NAME, PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import API_TABLE, ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.protocol.schema import Message, Request

__all__ = [
    "ADMIN",
    "PASSWORD",
    "Case",
    "Fields",
    "Row",
    "Rows",
    "World",
    "build",
    "cases_of",
    "parse_rights",
    "variants",
]

ADMIN = "admin"
"""The super user, which is also the broker."""

PASSWORD = "of-all-users"
Fields = dict[str, Any]
FROM_ELSEWHERE = "127.0.0.2"
HERE = "127.0.0.1"
NOTHING = ""
MISSING_ID = Uuid.from_int(777)

_OPERATIONS = {
    "TOPIC": "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "GROUP": "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "CLUSTER": "CREATE ALTER DELETE DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
    "TRANSACTIONAL_ID": "WRITE DESCRIBE TWO_PHASE_COMMIT",
    "DELEGATION_TOKEN": "DESCRIBE",
    "USER": "CREATE_TOKENS DESCRIBE_TOKENS",
}
_IMPLIED_BY = {"DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"), "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",)}


class World(NamedTuple):
    """Values that a node generated during the setup: the ids by name, and the tokens of users."""

    topic_ids: dict[str, Uuid]
    tokens: dict[str, tuple[str, bytes]]
    """Token id and HMAC by owner."""
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Row:
    """One request. ``fields`` cover all versions: fields that a version lacks are omitted."""

    name: str
    api: ApiKey
    fields: Fields
    rights: tuple[str, ...]
    versions: tuple[int, ...] = ()
    """Default: the lowest and the highest. Only the last runs with more than the first five sets of rights."""
    host: str | None = None
    """The client address, by default 127.0.0.1."""
    user: str | None = None
    """Log in as this user instead of the case's own user."""
    on_controller: bool = False
    is_answered: bool = True
    topics: tuple[str, ...] = ()
    """Topics created before, for this case alone; ``{me}`` in the name."""


Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Case:
    row: Row
    version: int
    rights: str
    me: str
    bindings: tuple[AclBinding, ...] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.row.name} v{self.version} with [{self.rights or 'nothing'}]"

    def request(self, world: World) -> Request[Message]:
        name = API_TABLE[self.row.api].name
        messages = import_module(f"barnabas.protocol.messages.{self.row.api.name.lower()}")
        request: Request[Message] = build(
            getattr(messages, f"{name}Request"), self.row.fields, self.version, self.me, world
        )
        return request


def cases_of(rows: Iterable[Row], world: World | None = None) -> list[Case]:
    """Return every case with its bindings. ``world`` is needed for rights on generated values (``{token:OWNER}``)."""
    cases: list[Case] = []
    for row in rows:
        info = API_TABLE[row.api]
        versions = row.versions or tuple({info.lowest, info.highest})
        for version in sorted(versions):
            for rights in row.rights if version == max(versions) else row.rights[:5]:
                me = f"c{len(cases):04}"
                cases.append(Case(row, version, rights, me, tuple(parse_rights(rights, me, world))))
    return cases


def parse_rights(text: str, me: str, world: World | None = None) -> Iterable[AclBinding]:
    for part in filter(None, (part.strip() for part in text.split(";"))):
        words = part.split()
        permission = AclPermissionType.ALLOW
        if words[0] == "deny":
            permission, words = AclPermissionType.DENY, words[1:]
        operation, kind, name, *rest = words
        name = name.replace("{me}", me)
        if name.startswith("{token:"):
            name = world.tokens[name[7:-1]][0] if world is not None else "?"
        pattern = PatternType.LITERAL
        if name.endswith("..."):
            name, pattern = name[:-3], PatternType.PREFIXED
        host = next((word[1:] for word in rest if word[0] == "@"), "*")
        principal = next((word[1:].replace("{me}", me) for word in rest if word[0] == "%"), f"User:{me}")
        yield AclBinding(ResourceType[kind], name, pattern, principal, host, AclOperation[operation], permission)


def variants(operation: str, kind: str, name: str = CLUSTER_NAME, *, beside: str = "") -> tuple[str, ...]:
    """Return sets of rights that grant and that do not grant the operation; each also contains ``beside``."""
    right = f"{operation} {kind} {name}"
    implying = _IMPLIED_BY.get(operation, ())
    others = [o for o in _OPERATIONS[kind].split() if o != operation and o not in implying]
    sets = [
        NOTHING,
        right,
        f"{right}; deny {right}",
        f"ALL {kind} {name}",
        "; ".join(f"{other} {kind} {name}" for other in others),
        *(f"{other} {kind} {name}" for other in implying),
        *(f"{other} {kind} {name}; deny {right}" for other in implying[:1]),
        *(f"{right}; deny {other} {kind} {name}" for other in implying[:1]),
        f"{right}; deny ALL {kind} {name}",
        f"{right} @{HERE}",
        f"{right} @{FROM_ELSEWHERE}",
        f"{right}; deny {right} @{HERE}",
        f"{right}; deny {right} @{FROM_ELSEWHERE}",
        f"{right} %User:somebody",
    ]
    if kind != "CLUSTER":
        stem = name[:-1]
        sets += [
            f"{operation} {kind} {stem}...",
            f"{operation} {kind} *",
            f"{operation} {kind} {stem}",
            f"{operation} {kind} {stem}...; deny {right}",
            f"{right}; deny {operation} {kind} {stem}...",
            f"{right}; deny {operation} {kind} *",
            f"{operation} {kind} *...",
        ]
    return tuple(f"{rights}; {beside}".strip("; ") if beside else rights for rights in sets)


def build(kind: type[Any], fields: Fields, version: int, me: str, world: World) -> Any:
    """Build a message from plain values: ``id:NAME`` for a topic's id, ``hmac:OWNER`` for a token, dicts for
    structs."""
    struct = kind()
    unknown = fields.keys() - {declared.name for declared in kind.FIELDS}
    assert not unknown, f"{kind.__name__} has no {unknown}"
    for declared in kind.FIELDS:
        if declared.name in fields and declared.in_version(version):
            value = _value(declared, declared.kind, fields[declared.name], version, me, world)
            setattr(struct, declared.name, value)
    return struct


def _value(declared: Any, kind: str, value: Any, version: int, me: str, world: World) -> Any:
    if value is None:
        return None
    if kind == "array":
        return [_value(declared, declared.element, item, version, me, world) for item in value]
    if kind == "struct":
        return build(declared.type, value, version, me, world)
    if not isinstance(value, str):
        return value
    if kind == "uuid":
        return world.topic_ids.get(value[3:].replace("{me}", me), MISSING_ID)
    if kind == "bytes":
        return world.tokens[value[5:]][1]
    return value.replace("{me}", me).replace("{cluster}", world.cluster_id)


# ---- answers -------------------------------------------------------------------------------------------------------

DENIALS = {29, 30, 31, 53, 65}
_LEFT_OUT = {"throttleTimeMs", "port", "clientHost", "finalizedFeaturesEpoch"}
_OFFSETS = {
    "producerId",
    "baseOffset",
    "highWatermark",
    "lastStableOffset",
    "endOffset",
    "logEndOffset",
    "lowWatermark",
    "lag",
}
_OF_THE_MOMENT = {
    *("clusterId", "memberId", "leader", "logAppendTimeMs", "totalBytes", "usableBytes"),
    *("partitionSize", "issueTimestampMs", "expiryTimestampMs", "maxTimestampMs", "issueTimestamp"),
    *("expiryTimestamp", "maxTimestamp", "tokenId", "hmac", "salt", "lastFetchTimestamp", "lastCaughtUpTimestamp"),
    *("replicaDirectoryId", "logDir"),
}
_ONLY_WHETHER_ANY = {"records", "configs", "apiKeys", "supportedFeatures", "finalizedFeatures"}
_NAMES = (
    *("name", "topicName", "topic", "topicId", "groupId", "key", "resourceName", "user", "transactionalId"),
    *("partitionIndex", "partition", "principalName", "entityName", "feature", "principal"),
)
_TEXT_HAS_IDS = {ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.SHARE_SESSION_NOT_FOUND}
_NOT_ON_STAGE = {"__transaction_state", "__share_group_state"}


def comparable(answer: Any, case: Case, world: World) -> Any:
    """Return an answer's JSON without time-dependent values; lists that Kafka shuffles are sorted."""
    names_of_ids = {str(topic_id): f"id:{name}" for name, topic_id in world.topic_ids.items()}

    def simplify(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {
                name: simplify(part, name)
                for name, part in value.items()
                if name not in _LEFT_OUT
                and not (name == "host" and "port" in value)
                and not (name == "errorMessage" and (is_denial(value) or value.get("errorCode") in _TEXT_HAS_IDS))
            }
        if key in _ONLY_WHETHER_ANY:
            return "some" if value else "none"
        if isinstance(value, list):
            return ordered([part for part in (simplify(part, key) for part in value) if is_of_the_stage(part)])
        if key in _OFFSETS:
            return "<set>" if value >= 0 else value
        if key in _OF_THE_MOMENT:
            return "<set>" if value not in (-1, "", 0, None) else value
        if key == "topicId" and value != str(Uuid.ZERO):
            value = names_of_ids.get(value, "id:missing" if value == str(MISSING_ID) else "<set>")
        if isinstance(value, str):
            return re.sub(r"\bc\d{4}(?!\d)", lambda m: "<me>" if m[0] == case.me else "<another>", value)
        return value

    return simplify(_without_idle(answer) if case.row.api is ApiKey.SHARE_FETCH else answer, "")


def _without_idle(answer: Any) -> Any:
    """Leave share-partitions without records out: Kafka does while it loads them, and while another fetch ends."""
    if not isinstance(answer, dict):
        return answer
    responses = [
        {**topic, "partitions": failed}
        for topic in answer["responses"]
        if (failed := [part for part in topic["partitions"] if part["errorCode"] or part["acquiredRecords"]])
    ]
    return {**answer, "responses": responses}


def is_denial(answer: dict[str, Any]) -> bool:
    return answer.get("errorCode") in DENIALS


def is_of_the_stage(part: Any) -> bool:
    """Return whether a list's item concerns this case or shared resources, and not those of another case."""
    if not isinstance(part, dict):
        return True
    names = [str(part.get(name, "")) for name in _NAMES]
    return not any("<another>" in name or name in _NOT_ON_STAGE for name in names)


def ordered(items: list[Any]) -> list[Any]:
    if items and all(isinstance(item, dict) and any(name in item for name in _NAMES) for item in items):
        return sorted(items, key=lambda item: ([str(item.get(name)) for name in _NAMES], repr(item)))
    return items


def malformed_denials(answer: Any, case: Case) -> list[str]:
    """Return the texts of denials that do not follow our form: which user lacks which right on which resource."""
    form = re.compile(rf"User:{re.escape(case.row.user or case.me)} lacks [A-Z_]+ on [A-Z][A-Za-z]+:.+")
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if is_denial(value) and "errorMessage" in value and not form.fullmatch(value["errorMessage"] or ""):
                found.append(str(value["errorMessage"]))
            for part in value.values():
                look(part)
        elif isinstance(value, list):
            for part in value:
                look(part)

    look(answer)
    return found
