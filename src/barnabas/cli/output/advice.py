"""Errors in words, and what to do next: the right that is missing, the name that was meant, the option that helps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.cli.output.answer import Problem
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.admin.errors import AdminError

__all__ = ["UnknownName", "nearest", "problem_of", "problems_of"]

_NOT_AUTHORIZED = frozenset(code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED"))
_NO_AUTHORIZER = (
    "set authorizer.class.name on every node, or ask another cluster; without it everybody may do everything"
)
_ADVICE = {
    ErrorCode.SECURITY_DISABLED: _NO_AUTHORIZER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'barnabas topics list' shows the topics that you may see",
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name; --if-not-exists takes it as done",
    ErrorCode.GROUP_ID_NOT_FOUND: "'barnabas groups list' shows the groups that you may see",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first; 'barnabas groups describe --members' shows them",
    ErrorCode.UNKNOWN_MEMBER_ID: "stop its members first; 'barnabas groups describe --members' shows them",
    ErrorCode.INVALID_REPLICATION_FACTOR: "'barnabas cluster describe' shows the brokers",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "'barnabas cluster describe' shows the brokers",
    ErrorCode.BROKER_NOT_AVAILABLE: "'barnabas cluster describe' shows the brokers",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "'barnabas cluster describe' shows the brokers",
    ErrorCode.POLICY_VIOLATION: "this is a rule of the cluster's operators: ask them, or change what you ask for",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "the cluster takes no more changes for now: try again later",
    ErrorCode.RESOURCE_NOT_FOUND: "'barnabas users list' shows the users that have a password",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key on every node",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "'barnabas tokens list' shows the tokens that you may see",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "log in by SASL (not with a token) or by a certificate",
    ErrorCode.FEATURE_UPDATE_FAILED: "'barnabas features describe' shows the levels that there are",
    ErrorCode.INVALID_UPDATE_VERSION: "'barnabas features describe' shows the levels that there are",
}


_AS_NEAR = 0.15


class UnknownName(Exception):
    """A name that is not there; ``meant`` are those that are near."""

    def __init__(self, name: str, text: str, meant: str = "") -> None:
        super().__init__(f"{name}: {text}")
        self.problem = Problem(text, name, advice=f"did you mean {meant}?" if meant else "")


def problem_of(
    error: Exception, *, right: str = "", names: Iterable[str] = (), advice: Mapping[ErrorCode, str] | None = None
) -> Problem:
    """``right`` is what is needed; ``{item}`` in it and in ``advice`` is what the error is about.

    ``names`` are those that could have been meant.
    """
    from barnabas.clients.admin.errors import AdminError

    if isinstance(error, AdminError):
        item = "" if error.item is None else str(error.item)
        text = error.message or error.code.name.replace("_", " ").capitalize()
        return Problem(text, item, error.code.name, _refused(error, item, right, names, advice or {}))
    if isinstance(error, UnknownName):
        return error.problem
    return Problem(str(error), advice=_unanswered(error))


def problems_of(
    errors: Mapping[Any, AdminError],
    *,
    right: str = "",
    names: Iterable[str] = (),
    advice: Mapping[ErrorCode, str] | None = None,
) -> list[Problem]:
    """The same for the errors of several items."""
    known = list(names)
    return [problem_of(error, right=right, names=known, advice=advice) for error in errors.values()]


def nearest(name: str, names: Iterable[str]) -> str:
    """Up to three names that may have been meant, with or between; empty without one.

    Next to one that is much nearer the others say nothing.
    """
    from difflib import SequenceMatcher, get_close_matches

    matches = get_close_matches(name, list(names), n=3, cutoff=0.6)
    ratios = [SequenceMatcher(None, each, name).ratio() for each in matches]
    return " or ".join(each for each, ratio in zip(matches, ratios, strict=True) if ratio > ratios[0] - _AS_NEAR)


def _refused(error: AdminError, item: str, right: str, names: Iterable[str], advice: Mapping[ErrorCode, str]) -> str:
    code = error.code
    if code in _NOT_AUTHORIZED:
        needed = f"this needs {right.replace('{item}', item)}" if right else "you lack a right"
        return f"{needed}; 'barnabas access mine' shows what you may do, 'barnabas acls add' grants it"
    if "did you mean" in (error.message or ""):
        return ""  # Our nodes say it themselves.
    meant = nearest(item, names)
    if meant:
        return f"did you mean {meant}?"
    return advice.get(code, _ADVICE.get(code, "")).replace("{item}", item)


def _unanswered(error: Exception) -> str:
    from barnabas.clients.admin.errors import NotVisible, OperationTimedOut
    from barnabas.clients.errors import AuthenticationFailed, ConnectFailed, Disconnected, RequestTimedOut

    match error:
        case NotVisible():
            return "the change is made; ask again later, or look at those brokers"
        case ConnectFailed():
            return (
                "is a node there, and is it the right port? --bootstrap-server or bootstrap.servers says where to ask"
            )
        case OperationTimedOut():
            return "is a node there, and the listener one for this protocol? --timeout gives it longer"
        case RequestTimedOut():
            return "does it answer others? 'barnabas cluster describe' asks it; request.timeout.ms gives it longer"
        case Disconnected():
            return "is the listener one for TLS or SASL? Give --command-config with security.protocol and what it needs"
        case AuthenticationFailed():
            return "give --command-config with Kafka's client properties for a user that the cluster knows"
        case _:
            return ""
