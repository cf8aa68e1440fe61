"""Messages for errors, with advice: the missing right, the nearest name, or the option to use."""

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
    "set authorizer.class.name on every node, or use another cluster; without it every client may do everything"
)
_RIGHTS = "'barnabas access mine' shows your rights; a user with ALTER on Cluster can grant it with 'barnabas acls add'"
_ADVICE = {
    ErrorCode.SECURITY_DISABLED: _NO_AUTHORIZER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'barnabas topics list' shows the topics that you may see",
    ErrorCode.TOPIC_ALREADY_EXISTS: "choose another name, or use --if-not-exists",
    ErrorCode.GROUP_ID_NOT_FOUND: "'barnabas groups list' shows the groups that you may see",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first; 'barnabas groups describe --members' shows them",
    ErrorCode.UNKNOWN_MEMBER_ID: "stop its members first; 'barnabas groups describe --members' shows them",
    ErrorCode.INVALID_REPLICATION_FACTOR: "'barnabas cluster describe' shows the brokers",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "'barnabas cluster describe' shows the brokers",
    ErrorCode.BROKER_NOT_AVAILABLE: "'barnabas cluster describe' shows the brokers",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "'barnabas cluster describe' shows the brokers",
    ErrorCode.POLICY_VIOLATION: "a policy of the cluster refused the request: change it, or ask the operators",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "the cluster's quota for changes is used up: try again later",
    ErrorCode.RESOURCE_NOT_FOUND: "'barnabas users list' shows the users that have a password",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key on every node",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "'barnabas tokens list' shows the tokens that you may see",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "authenticate by SASL (without a token) or by a certificate",
    ErrorCode.FEATURE_UPDATE_FAILED: "'barnabas features describe' shows the levels",
    ErrorCode.INVALID_UPDATE_VERSION: "'barnabas features describe' shows the levels",
}


_AS_NEAR = 0.15


class UnknownName(Exception):
    """A name does not exist. ``meant`` are the nearest names."""

    def __init__(self, name: str, text: str, meant: str = "") -> None:
        super().__init__(f"{name}: {text}")
        self.problem = Problem(text, name, advice=f"did you mean {meant}?" if meant else "")


def problem_of(
    error: Exception, *, right: str = "", names: Iterable[str] = (), advice: Mapping[ErrorCode, str] | None = None
) -> Problem:
    """Return the problem for an error. ``right`` is the required right.

    ``{item}`` in ``right`` and in ``advice`` is the subject of the error. ``names`` are candidates for a misspelled
    name.
    """
    from barnabas.clients.admin.errors import AdminError

    if isinstance(error, AdminError):
        item = "" if error.item is None else str(error.item)
        text = error.message or error.code.name.replace("_", " ").capitalize()
        return Problem(text, item, error.code.name, _refused(error, item, right, names, advice or {}))
    if isinstance(error, UnknownName):
        return error.problem
    text, setting = _split(str(error))
    return Problem(text, advice=setting or _unanswered(error))


def _split(text: str) -> tuple[str, str]:
    """Split the text of an error that knows which setting to change: it names the setting after an arrow."""
    about, _, setting = text.partition(" -> ")
    if not setting or "\n" in setting:  # Several servers failed, maybe for several reasons.
        return text, ""
    return about, f"{setting}; --command-config names the file of these settings"


def problems_of(
    errors: Mapping[Any, AdminError],
    *,
    right: str = "",
    names: Iterable[str] = (),
    advice: Mapping[ErrorCode, str] | None = None,
) -> list[Problem]:
    """Return problems for the errors of several items."""
    known = list(names)
    return [problem_of(error, right=right, names=known, advice=advice) for error in errors.values()]


def nearest(name: str, names: Iterable[str]) -> str:
    """Return up to three nearest names, joined by "or", or an empty text.

    If one name is much nearer, the others are omitted.
    """
    from difflib import SequenceMatcher, get_close_matches

    matches = get_close_matches(name, list(names), n=3, cutoff=0.6)
    ratios = [SequenceMatcher(None, match, name).ratio() for match in matches]
    return " or ".join(match for match, ratio in zip(matches, ratios, strict=True) if ratio > ratios[0] - _AS_NEAR)


def _refused(error: AdminError, item: str, right: str, names: Iterable[str], advice: Mapping[ErrorCode, str]) -> str:
    code = error.code
    if code in _NOT_AUTHORIZED:
        needed = f"this needs {right.replace('{item}', item)}" if right else "a right is missing"
        return f"{needed}; {_RIGHTS}"
    if "did you mean" in (error.message or ""):
        return ""  # Barnabas nodes suggest the name in their own message.
    meant = nearest(item, names)
    if meant:
        return f"did you mean {meant}?"
    return advice.get(code, _ADVICE.get(code, "")).replace("{item}", item)


def _unanswered(error: Exception) -> str:
    from barnabas.clients.admin.errors import NotVisible, OperationTimedOut
    from barnabas.clients.errors import AuthenticationFailed, ConnectFailed, Disconnected, RequestTimedOut

    match error:
        case NotVisible():
            return "the change was made; check again later, or check those brokers"
        case ConnectFailed():
            return "check that a node runs at this address; --bootstrap-server or bootstrap.servers sets it"
        case OperationTimedOut():
            return "check that a node runs there and its listener uses this protocol; --timeout sets the limit"
        case RequestTimedOut():
            return "check the node with 'barnabas cluster describe'; a larger request.timeout.ms waits longer"
        case Disconnected():
            return "if the listener uses TLS or SASL, use --command-config with security.protocol and its settings"
        case AuthenticationFailed():
            return "use --command-config with Kafka client properties for a user that the cluster knows"
        case _:
            return ""
