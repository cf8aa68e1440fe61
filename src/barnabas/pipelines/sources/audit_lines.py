"""Parse what an audit of access decisions wrote: our JSON and log lines, and Kafka's authorizer lines of 3.x and 4.x.

Kafka writes names as clients sent them. A name that contains the words between two fields makes a line ambiguous; such
a line is not parsed, because a guess could blame another principal. A name with a line break divides its line, and what
follows may imitate a line: Kafka's log can't be told from that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

from barnabas.common.resource import ResourceType

__all__ = ["AuditRow", "Unreadable", "parse_line"]


class Unreadable(Exception):
    """The line is not a decision. The text is the reason."""


class AuditRow(NamedTuple):
    """A decision, or several alike; with ``kind`` ``dropped`` a gap in the audit."""

    kind: str
    """``decision`` or ``dropped``."""
    format: str
    """``barnabas-json``, ``barnabas-log``, ``kafka-4`` or ``kafka-3`` (without the rule that decided)."""
    first_ms: int | None = None
    last_ms: int | None = None
    """Milliseconds since 1970. Null if the line has no time."""
    decisions: int = 1
    references: int | None = None
    allowed: bool | None = None
    principal: str | None = None
    host: str | None = None
    operation: str | None = None
    """Kafka's name: ``WRITE``."""
    resource_type: str | None = None
    pattern_type: str | None = None
    """``LITERAL``; ``ANY``, with the name ``*``, for a decision about any resource of the type."""
    resource_name: str | None = None
    api: str | None = None
    api_version: int | None = None
    client_id: str | None = None
    listener: str | None = None
    connection_id: str | None = None
    correlation_id: int | None = None
    forwarded_by: str | None = None
    rule: str | None = None
    """``MatchingAcl``, ``SuperUser``, ``DefaultAllow``, ``DefaultDeny`` and others of the node."""
    rule_id: str | None = None
    rule_text: str | None = None
    """The ACL, in the form that barnabas writes."""
    node_id: int | None = None
    dropped: int | None = None


_TYPES: Mapping[str, str] = {member.name.replace("_", "").casefold(): member.name for member in ResourceType}
_INT64 = range(-(2**63), 2**63)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LOGGER = re.compile(r"\s*\(kafka\.authorizer\.logger[^()]*\)\s*\Z")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_START = re.compile(r"Principal = ")
_DECISION = re.compile(
    r"(?P<principal>.+) is (?P<outcome>Allowed|Denied) [oO]peration = (?P<operation>\w+) from host = (?P<host>\S+) "
    r"on resource = (?P<type>\w+):(?P<pattern>\w+):(?P<name>.*) for request = (?P<api>\w+) "
    r"with resourceRefCount = (?P<references>\d+)\Z",
    re.DOTALL,
)
_BETWEEN = (" is Allowed ", " is Denied ", "peration = ", " from host = ", " on resource = ", " for request = ")
_ANY_IN_KAFKA = "hardcode"
"""The name, with no reference to it, about which Kafka decides whether any resource of a type is allowed."""
_REFERENCES = " with resourceRefCount = "
_RULE = " based on rule "
_KAFKA_ACL = re.compile(
    r"MatchingAcl\(acl=StandardAcl\(resourceType=(?P<type>\w+), resourceName=(?P<name>.*), "
    r"patternType=(?P<pattern>\w+), principal=(?P<principal>.*), host=(?P<host>.*), operation=(?P<operation>\w+), "
    r"permissionType=(?P<permission>\w+)\)\)",
    re.DOTALL,
)
_WORD = r'(?:"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.:@/+,*=$%#~|-]+)'
_OURS = re.compile(
    rf"(?P<principal>{_WORD}) is (?P<outcome>Allowed|Denied) operation = (?P<operation>\w+) "
    rf"from host = (?P<host>{_WORD}) on resource = (?P<type>\w+):(?P<pattern>\w+):(?P<name>{_WORD}) "
    rf"for request = (?P<api>\w+) with resourceRefCount = (?P<references>\d+) based on rule (?P<rule>\w+)"
    rf"(?:\(id=(?P<rule_id>[\w-]+), acl=(?P<rule_text>{_WORD})\))?; listener = (?P<listener>{_WORD}), "
    rf"client = (?P<client>{_WORD}|), request id = (?P<connection>{_WORD})/(?P<correlation>-?\d+)"
    rf"(?:, forwarded by = (?P<forwarded>{_WORD}))?(?:, (?P<times>\d+) times in (?P<duration>\d+) ms)?\Z"
)


def parse_line(line: str, zone: tzinfo = UTC) -> AuditRow:
    """Return the decision of a line. Times without a zone are in ``zone``. Raises Unreadable."""
    text = line.strip()
    row = _parse(text, zone)
    if "\\u" in text and any(isinstance(value, str) and _SURROGATE.search(value) for value in row):
        raise Unreadable("a text is not valid Unicode: it has half of a surrogate pair")
    return row


def _parse(text: str, zone: tzinfo) -> AuditRow:
    if text.startswith("{"):
        return _from_json(text, zone)
    start = _START.search(text)
    if start is None:
        raise Unreadable("not a line of an authorizer: it has no principal")
    rest = _LOGGER.sub("", text[start.end() :])
    time_ms = _time_ms(text[: start.start()], zone)
    return _from_text(rest, time_ms)


def _from_json(text: str, zone: tzinfo) -> AuditRow:
    try:
        entry = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"invalid JSON: {error}") from error
    except RecursionError as error:
        raise Unreadable("invalid JSON: nested too deeply") from error
    if not isinstance(entry, dict):
        raise Unreadable("not a JSON object")
    if isinstance(entry.get("access"), dict):  # A line of the node's log with barnabas.log.format=json.
        entry = entry["access"]
    if entry.get("type") in ("decision", "dropped"):
        return _of_fields(entry)
    if isinstance(entry.get("message"), str) and _START.search(entry["message"]):
        message = _LOGGER.sub("", _START.split(entry["message"], maxsplit=1)[1])
        return _from_text(message, _time_ms(str(entry.get("time") or entry.get("timestamp") or ""), zone))
    raise Unreadable("a JSON object without the fields of a decision")


def _of_fields(entry: dict[str, Any]) -> AuditRow:
    version = entry.get("version")
    if not isinstance(version, int) or version < 1:
        raise Unreadable("the object has no version")
    if entry["type"] == "dropped":
        time_ms = _typed(entry, "time_ms", int)
        return AuditRow(
            "dropped",
            "barnabas-json",
            time_ms,
            time_ms,
            0,
            node_id=_typed(entry, "node_id", int),
            dropped=_typed(entry, "dropped", int),
        )
    if version > 1:
        raise Unreadable(f"version {version} of the audit's format is unknown; version 1 is known")
    values = {field: _typed(entry, field, kind) for field, kind in _FIELDS.items()}
    missing = [field for field in _NEEDED if values[field] is None]
    if missing:
        raise Unreadable(f"the decision has no {missing[0]}")
    return AuditRow("decision", "barnabas-json", **values)


_FIELDS: Mapping[str, type] = {
    "first_ms": int,
    "last_ms": int,
    "decisions": int,
    "references": int,
    "allowed": bool,
    "principal": str,
    "host": str,
    "operation": str,
    "resource_type": str,
    "pattern_type": str,
    "resource_name": str,
    "api": str,
    "api_version": int,
    "client_id": str,
    "listener": str,
    "connection_id": str,
    "correlation_id": int,
    "forwarded_by": str,
    "rule": str,
    "rule_id": str,
    "rule_text": str,
    "node_id": int,
}
_NEEDED = ("last_ms", "decisions", "allowed", "principal", "operation", "resource_type", "resource_name")


def _typed(entry: dict[str, Any], field: str, kind: type) -> Any:
    value = entry.get(field)
    if value is None:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise Unreadable(f"{field} is {value!r:.80}, which is not of type {kind.__name__}")
    if isinstance(value, int) and value not in _INT64:
        raise Unreadable(f"{field} is {value!r:.80}, which does not fit 64 bits")
    return value


def _number(digits: str) -> int:
    """Return a number of a log line, where clients may have written anything."""
    if len(digits) > len(str(_INT64.start)) or int(digits) not in _INT64:
        raise Unreadable(f"{digits:.80} does not fit 64 bits")
    return int(digits)


def _from_text(text: str, time_ms: int | None) -> AuditRow:
    ours = _OURS.match(text)
    if ours is not None:
        return _of_our_line(ours, time_ms)
    head, _, rule = text.partition(_RULE)
    if head.count(_REFERENCES) != 1 or _RULE in rule or sum(map(head.count, _BETWEEN)) != len(_BETWEEN) - 1:
        raise Unreadable("not a whole decision, or ambiguous: a name contains the words between two fields")
    match = _DECISION.match(head)
    if match is None:
        raise Unreadable("not a decision of an authorizer")
    kind, rule_text = _kafka_rule(rule)
    references = _number(match["references"])
    pattern_type, name = match["pattern"].upper(), match["name"]
    if (references, name) == (0, _ANY_IN_KAFKA):
        pattern_type, name = "ANY", "*"
    return AuditRow(
        "decision",
        "kafka-4" if rule else "kafka-3",
        time_ms,
        time_ms,
        1,
        references,
        match["outcome"] == "Allowed",
        match["principal"],
        match["host"],
        _upper_snake(match["operation"]),
        _type_name(match["type"]),
        pattern_type,
        name,
        match["api"],
        rule=kind,
        rule_text=rule_text,
    )


def _of_our_line(match: re.Match[str], time_ms: int | None) -> AuditRow:
    def unquoted(group: str) -> str | None:
        text = match[group]
        try:
            return str(json.loads(text)) if text and text.startswith('"') else text
        except ValueError as error:
            raise Unreadable(f"{group} is not quoted as barnabas does: {error}") from error

    duration = _number(match["duration"] or "0")
    return AuditRow(
        "decision",
        "barnabas-log",
        None if time_ms is None else time_ms - duration,
        time_ms,
        _number(match["times"] or "1"),
        _number(match["references"]),
        match["outcome"] == "Allowed",
        unquoted("principal"),
        unquoted("host"),
        match["operation"],
        _type_name(match["type"]),
        match["pattern"],
        unquoted("name"),
        match["api"],
        client_id=unquoted("client"),
        listener=unquoted("listener"),
        connection_id=unquoted("connection"),
        correlation_id=_number(match["correlation"]),
        forwarded_by=unquoted("forwarded"),
        rule=match["rule"],
        rule_id=match["rule_id"],
        rule_text=unquoted("rule_text"),
    )


def _kafka_rule(text: str) -> tuple[str | None, str | None]:
    """Return the kind of rule and the ACL's text."""
    if not text:
        return None, None
    match = _KAFKA_ACL.match(text)
    if match is None:
        return text.partition("(")[0].strip() or None, None
    acl = (
        f"{match['permission']} {match['principal']} from {match['host']} to {match['operation']} on "
        f"{match['type']}:{match['pattern']}:{match['name']}"
    )
    return "MatchingAcl", acl


def _type_name(text: str) -> str:
    return _TYPES.get(text.replace("_", "").casefold(), text.upper())


@lru_cache(maxsize=1_024)
def _upper_snake(text: str) -> str:
    """``DescribeConfigs``, as 3.x writes it with its first authorizer, becomes ``DESCRIBE_CONFIGS``."""
    return text if text.isupper() else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).upper()


def _time_ms(prefix: str, zone: tzinfo) -> int | None:
    match = _TIME.search(prefix)
    if match is None:
        return None
    try:
        moment = _whole_second(match[1], match[2], match[4] or "", zone)
    except ValueError:
        return None
    return moment + int((match[3] or "0").ljust(3, "0")[:3])


@lru_cache(maxsize=1_024)
def _whole_second(day: str, clock: str, offset: str, zone: tzinfo) -> int:
    moment = datetime.fromisoformat(f"{day}T{clock}{offset}")
    return int((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()) * 1000
