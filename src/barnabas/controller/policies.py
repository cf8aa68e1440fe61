"""Policies: an operator's veto on new topics and changes of configs, which the controller requests without blocking.

For operators: derive from ``CreateTopicPolicy`` or ``AlterConfigPolicy``. A policy refuses by raising
``PolicyViolation``; the caller receives its text. The policy also runs for validate-only requests.

Internally: a policy may be slow, and a decision must not be. So a decision is made twice. In the first pass, a
rehearsal, ``PolicyGate`` records the questions and nothing is written. Then the policy runs on another thread, and the
decision is made again with its answers. A change in between leads to a new question without an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.image.configs import ConfigResourceType

__all__ = [
    "AlterConfigPolicy",
    "AlterConfigQuestion",
    "CreateTopicPolicy",
    "CreateTopicQuestion",
    "NewTopic",
    "PolicyGate",
    "PolicyResource",
    "PolicySession",
    "PolicyViolation",
    "Question",
]

_CHANGED = "The subject of the policy's decision has changed meanwhile; try again."


class PolicyViolation(ApiException):
    """Raised by a policy to refuse; the caller receives POLICY_VIOLATION with this text."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, message)


# For operators


class PolicyResource(NamedTuple):
    """``type`` is TOPIC, BROKER, GROUP or CLIENT_METRICS. The broker with the empty name is the default of all."""

    type: str
    name: str


class NewTopic(NamedTuple):
    """Either both counts are set, or the replicas of each partition, as in the request."""

    name: str
    num_partitions: int | None
    replication_factor: int | None
    replica_assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str | None]


class _Policy:
    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, before the first validation, with the node's settings as text, without secrets."""

    def close(self) -> None:
        """Called when the node stops."""


class CreateTopicPolicy(_Policy):
    """Derive from it and name the class in ``create.topic.policy.class.name``, as ``module:Class``."""

    def validate(self, topic: NewTopic) -> None:
        """Return to allow, raise PolicyViolation to refuse. May also take ``principal``, the caller as User:name."""
        raise NotImplementedError


class AlterConfigPolicy(_Policy):
    """Derive from it and name the class in ``alter.config.policy.class.name``, as ``module:Class``."""

    def validate(self, resource: PolicyResource, configs: Mapping[str, str | None]) -> None:
        """Return to allow, raise PolicyViolation to refuse.

        ``configs`` has the keys that change with their new values, None for those that are removed, whether named or
        not. May also take ``existing_configs``, the current values, and ``principal``, the caller as ``User:name``.
        """
        raise NotImplementedError


# Internal


class AlterConfigQuestion(NamedTuple):
    resource_type: int
    resource_name: str
    configs: Mapping[str, str | None]
    existing: Mapping[str, str]

    @property
    def resource(self) -> PolicyResource:
        return PolicyResource(ConfigResourceType(self.resource_type).name, self.resource_name)

    @property
    def key(self) -> object:
        return (
            *self[:2],
            frozenset(self.configs.items()),
            frozenset(self.existing.items()),
        )


class CreateTopicQuestion(NamedTuple):
    topic: NewTopic

    @property
    def key(self) -> object:
        assignments = self.topic.replica_assignments or {}
        return (
            *self.topic[:3],
            frozenset((partition, tuple(replicas)) for partition, replicas in assignments.items()),
            frozenset(self.topic.configs.items()),
        )


Question = AlterConfigQuestion | CreateTopicQuestion


class PolicySession:
    """The questions of one request, with the known answers: None, or the error for the caller."""

    def __init__(self) -> None:
        self._verdicts: dict[object, ApiException | None] = {}
        self._open: dict[object, Question] = {}
        self._is_rehearsal = False

    def check(self, question: Question) -> None:
        key = question.key
        if self._is_rehearsal:
            if key not in self._verdicts:
                self._open[key] = question
            return
        verdict = self._verdicts.get(key, PolicyViolation(_CHANGED))
        if verdict is not None:
            raise verdict

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Record questions, refuse nothing. May be entered for each step of the decision."""
        self._is_rehearsal = True
        try:
            yield
        finally:
            self._is_rehearsal = False

    @property
    def open_questions(self) -> list[Question]:
        return list(self._open.values())

    def answer(self, verdicts: Sequence[ApiException | None]) -> None:
        """Set the answers, in the order of ``open_questions``; afterwards no question is open."""
        self._verdicts.update(zip(self._open, verdicts, strict=True))
        self._open = {}


class PolicyGate:
    """The port through which the controller consults a policy. It answers only while a session is open."""

    def __init__(self) -> None:
        self.session: PolicySession | None = None

    @contextmanager
    def opened(self, session: PolicySession) -> Iterator[None]:
        before, self.session = self.session, session
        try:
            yield
        finally:
            self.session = before

    def check(self, question: Question) -> None:
        """Raise the policy's error, if any."""
        if self.session is None:
            raise PolicyViolation("The policy did not run.")
        self.session.check(question)
