"""Who may do what, by the ACLs of the cluster.

A subject belongs to a topic: ``orders-key`` and ``orders-value`` to ``orders``. In general it is the part before the
last hyphen, because names of records have none: ``orders-com.example.Order`` (TopicRecordNameStrategy) belongs to
``orders``, too. A subject without a hyphen (RecordNameStrategy, such as ``com.example.Order``) belongs to a topic of
its own name; the topic need not exist, since ACLs may name any. The context of a subject has no influence.

| To | a principal needs on the topic |
|---|---|
| read schemas, look schemas up, check compatibility, read settings | DESCRIBE, which READ and WRITE include |
| register | WRITE |
| delete versions and subjects, also permanently | DELETE |
| change the level or the mode of a subject | ALTER_CONFIGS |

The level and the mode of a context and of the whole registry need ALTER_CONFIGS on the cluster. A schema by its id is
readable for those who may read a subject that has it. Schemas that others use are readable for those who may read these
others. A listing has what its reader may read.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.registry.decide.errors import forbidden
from barnabas.registry.decide.registry_state import RegistryState
from barnabas.registry.decide.subjects import QualifiedSubject
from barnabas.registry.decide.topic_records import StoredVersion

__all__ = ["Rights", "SubjectAccess", "topic_of"]

_CLUSTER = "kafka-cluster"


class Rights(Protocol):
    """The rights of one caller."""

    name: str
    """The caller, as messages show it."""

    def allows(self, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> bool: ...


def topic_of(subject: str) -> str:
    name = QualifiedSubject.parse(subject).name
    return name.rpartition("-")[0] or name


class SubjectAccess:
    """The access of one caller."""

    def __init__(self, rights: Rights, state: RegistryState) -> None:
        self._rights = rights
        self._state = state

    def may_read(self, subject: str) -> bool:
        return self._may(AclOperation.DESCRIBE, subject) or self._may_read_a_user(subject, set())

    def check_read(self, subject: str) -> None:
        """Raise RegistryError."""
        if not self.may_read(subject):
            raise self._denied(AclOperation.DESCRIBE, subject)

    def check_register(self, subject: str) -> None:
        self._check(AclOperation.WRITE, subject)

    def check_delete(self, subject: str) -> None:
        self._check(AclOperation.DELETE, subject)

    def check_settings(self, subject: str | None) -> None:
        """Check the right to change the settings of a subject, of a context, or, for None, of the registry."""
        if subject is not None and QualifiedSubject.parse(subject).name:
            self._check(AclOperation.ALTER_CONFIGS, subject)
        elif not self._rights.allows(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, _CLUSTER):
            raise forbidden(f"{self._rights.name} lacks ALTER_CONFIGS on Cluster:{_CLUSTER}")

    def readable(self, versions: list[StoredVersion]) -> list[StoredVersion]:
        return [stored for stored in versions if self.may_read(stored.subject)]

    def _check(self, operation: AclOperation, subject: str) -> None:
        if not self._may(operation, subject):
            raise self._denied(operation, subject)

    def _may(self, operation: AclOperation, subject: str) -> bool:
        return self._rights.allows(operation, ResourceType.TOPIC, topic_of(subject))

    def _may_read_a_user(self, subject: str, seen: set[str]) -> bool:
        """Whether a schema that uses this subject, also indirectly, is readable."""
        seen.add(subject)
        users = {
            user.subject
            for stored in self._state.versions(subject, deleted=True)
            for user in self._state.users_of(subject, stored.version)
        }
        return any(self._may(AclOperation.DESCRIBE, user) or self._may_read_a_user(user, seen) for user in users - seen)

    def _denied(self, operation: AclOperation, subject: str) -> Exception:
        return forbidden(f"{self._rights.name} lacks {operation.name} on Topic:{topic_of(subject)}")
