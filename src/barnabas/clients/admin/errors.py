"""Errors of admin operations, in two families with different meanings:

* ``AdminError``: the cluster answered, and refused. ``code`` is Kafka's, ``item`` is the topic, resource, rule ... that
  was refused, ``message`` is the cluster's own text. Codes that callers often distinguish have a class of their own.
* ``ClientError`` (barnabas.clients.errors): no answer arrived: no node is reachable or answers in time, the login was
  refused, or the node has no such API (``UnsupportedVersion``).

Invalid arguments raise a ValueError before anything is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from barnabas.clients.errors import ClientError
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import ApiException, Transient

__all__ = [
    "AdminError",
    "ClusterAuthorizationFailed",
    "DelegationTokenNotFound",
    "GroupAuthorizationFailed",
    "GroupIdNotFound",
    "GroupNotEmpty",
    "GroupSubscribedToTopic",
    "InvalidConfig",
    "InvalidPartitions",
    "InvalidReplicationFactor",
    "InvalidRequest",
    "InvalidTopic",
    "InvalidUpdateVersion",
    "NotVisible",
    "OperationTimedOut",
    "PolicyViolation",
    "ResourceNotFound",
    "SecurityDisabled",
    "TopicAlreadyExists",
    "TopicAuthorizationFailed",
    "UnknownTopicOrPartition",
    "admin_error",
]


class AdminError(ApiException):
    """The cluster refused one item, or the whole request when ``item`` is None."""

    CODE: ClassVar[ErrorCode | None] = None
    _BY_CODE: ClassVar[dict[ErrorCode, type[AdminError]]] = {}

    def __init_subclass__(cls, *, code: ErrorCode) -> None:
        cls.CODE = code
        AdminError._BY_CODE[code] = cls

    def __init__(self, code: ErrorCode, message: str | None = None, item: object = None) -> None:
        super().__init__(code, message)
        self.item = item

    def __str__(self) -> str:
        about = "" if self.item is None else f"{self.item}: "
        return f"{about}{self.code.name}" + (f": {self.message}" if self.message else "")


class ClusterAuthorizationFailed(AdminError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """This client lacks a right on the cluster."""


class TopicAuthorizationFailed(AdminError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """This client lacks a right on the topic."""


class GroupAuthorizationFailed(AdminError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """This client lacks a right on the group."""


class UnknownTopicOrPartition(AdminError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """The topic or partition does not exist, or this client may not see it."""


class TopicAlreadyExists(AdminError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """A topic of this name exists."""


class InvalidTopic(AdminError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """The topic name is invalid, or the topic does not allow the operation."""


class InvalidPartitions(AdminError, code=ErrorCode.INVALID_PARTITIONS):
    """The number of partitions is not possible."""


class InvalidReplicationFactor(AdminError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    """The cluster has fewer brokers than replicas."""


class InvalidConfig(AdminError, code=ErrorCode.INVALID_CONFIG):
    """A setting does not exist or can't have this value."""


class InvalidRequest(AdminError, code=ErrorCode.INVALID_REQUEST):
    """The cluster rejected the request as invalid."""


class InvalidUpdateVersion(AdminError, code=ErrorCode.INVALID_UPDATE_VERSION):
    """A feature can't change to this level."""


class PolicyViolation(AdminError, code=ErrorCode.POLICY_VIOLATION):
    """A policy of the cluster forbids it."""


class SecurityDisabled(AdminError, code=ErrorCode.SECURITY_DISABLED):
    """The cluster has no authorizer."""


class ResourceNotFound(AdminError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """The user, voter or resource does not exist."""


class GroupIdNotFound(AdminError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    """The group does not exist."""


class GroupNotEmpty(AdminError, code=ErrorCode.NON_EMPTY_GROUP):
    """The group has members."""


class GroupSubscribedToTopic(AdminError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
    """A member of the group reads the topic."""


class DelegationTokenNotFound(AdminError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
    """No token has this HMAC."""


class OperationTimedOut(ClientError, Transient):
    """No success before the deadline; the message has the last error. The change may have been made."""


class NotVisible(OperationTimedOut):
    """A change was made, but ``brokers`` did not show it before the deadline."""

    def __init__(self, what: str, brokers: Sequence[int], why: str = "") -> None:
        named = ", ".join(map(str, brokers))
        super().__init__(f"{what} is done, but brokers {named} did not show it in time" + (f" ({why})" if why else ""))
        self.brokers = tuple(brokers)


def admin_error(code: int, message: str | None = None, item: object = None) -> AdminError:
    """Return the error of a code in an answer. The text keeps an unknown code of a newer Kafka."""
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.UNKNOWN_SERVER_ERROR
        message = f"error code {code}" + (f": {message}" if message else "")
    return AdminError._BY_CODE.get(known, AdminError)(known, message, item)
