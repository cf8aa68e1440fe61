"""Policies: how an operator vetoes new topics and changes of configs, and how the controller asks without waiting.

For operators: ``CreateTopicPolicy`` and ``AlterConfigPolicy`` are to be derived from. A policy refuses by raising
``PolicyViolation``; its text goes to the caller. It is asked when a caller only validates, too.

Inside: a policy may take its time, and deciding takes none. So a decision is made twice. The first time, in rehearsal,
``PolicyGate`` notes the questions and nothing is written; then the policy is asked, elsewhere; then the decision is
made for good with the answers at hand. What has changed in between brings another question, which has no answer.
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

_CHANGED = "What the policy was asked about has changed in the meantime; try again."


class PolicyViolation(ApiException):
    """What a policy raises to refuse; the caller gets POLICY_VIOLATION with this text."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, message)


# For operators


class PolicyResource(NamedTuple):
    """``type`` is TOPIC, BROKER, GROUP or CLIENT_METRICS. The broker with the empty name is the default of all."""

    type: str
    name: str


class NewTopic(NamedTuple):
    """Either both counts are given, or the replicas of each partition, as in the request."""

    name: str
    num_partitions: int | None
    replication_factor: int | None
    replica_assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str | None]


class _Policy:
    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, before anything is asked, with the node's settings as text; secrets are not among them."""

    def close(self) -> None:
        """Called when the node stops."""


class CreateTopicPolicy(_Policy):
    """Derive from it and name the class in ``create.topic.policy.class.name``, as ``module:Class``."""

    def validate(self, topic: NewTopic) -> None:
        """Return to allow, raise PolicyViolation to refuse. May also take ``principal``, who asks, as User:name."""
        raise NotImplementedError


class AlterConfigPolicy(_Policy):
    """Derive from it and name the class in ``alter.config.policy.class.name``, as ``module:Class``."""

    def validate(self, resource: PolicyResource, configs: Mapping[str, str | None]) -> None:
        """Return to allow, raise PolicyViolation to refuse.

        ``configs`` has the keys that change with their new values, None for those that are removed, be they named or
        not. May also take ``existing_configs``, what is set now, and ``principal``, who asks, as ``User:name``.
        """
        raise NotImplementedError


# Inside


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
    """The questions of one request, with the answers that are known: None, or the error for the caller."""

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
        """Questions are noted, nothing is refused. May be entered for each step of the decision."""
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
    """The port that the controller asks. It answers only while a session is open."""

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
        """Raise what the policy says against it."""
        if self.session is None:
            raise PolicyViolation("The policy was not asked.")
        self.session.check(question)
