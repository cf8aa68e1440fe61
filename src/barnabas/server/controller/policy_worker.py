"""Runs the operator's policies outside the controller, so that slow or faulty policies do not harm it.

One thread calls the policies one after another. If a policy raises anything but PolicyViolation, the change fails
with an error of ours. If the policy does not answer in time, the change fails with POLICY_VIOLATION. While it hangs,
every further change is refused immediately: a broken policy permits nothing. Log and metrics report that.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from barnabas.common.broker_config import broker_config_key
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.controller.mutation_quotas import UNLIMITED
from barnabas.controller.policies import (
    AlterConfigQuestion,
    PolicyGate,
    PolicySession,
    PolicyViolation,
)
from barnabas.coordinator.deferred import Deferred
from barnabas.network.stepped_responses import serve_others
from barnabas.protocol.api_keys import ApiKey
from barnabas.server.settings.policy_classes import ALTER_POLICY, CREATE_POLICY, PolicyProblem, load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.controller.decision_steps import Steps
    from barnabas.controller.policies import Question
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.security.principal import Principal
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["Policies", "PolicyWorker", "policies_of"]

log = logging.getLogger(__name__)

_GUARDED = frozenset((ApiKey.CREATE_TOPICS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS))
_REHEARSALS_MAX = 5
_WAITING_MAX = 64
_OPTIONAL = ("existing_configs", "principal")


class PolicyWorker:
    """Runs one policy on a thread, and counts for the metrics."""

    def __init__(self, setting: str, policy: Any, *, timeout_ms: int) -> None:
        self.setting = setting
        self.asked = 0
        self.refused = 0
        self.failed = 0
        self.timed_out = 0
        self._policy = policy
        self._wants = _optional_arguments(policy.validate)
        self._timeout_s = timeout_ms / 1000
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._hangs_since: float | None = None

    @property
    def is_hanging(self) -> bool:
        return self._hangs_since is not None

    async def ask(self, questions: Sequence[Question], principal: Principal) -> list[ApiException | None]:
        """Return the verdict on each question: None, or the error for the caller. Concurrent requests take turns."""
        self.asked += len(questions)
        if self._waiting >= _WAITING_MAX:
            return self._refusals(questions, f"The policy is busy: {self._waiting} requests wait for it; try again.")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._ask_in_turn(questions, principal)
        finally:
            self._waiting -= 1

    async def _ask_in_turn(self, questions: Sequence[Question], principal: Principal) -> list[ApiException | None]:
        if self._hangs_since is not None:
            hanging_s = time.monotonic() - self._hangs_since
            return self._refusals(
                questions,
                f"The policy of {self.setting} has not answered for {hanging_s:.0f} s: changes are refused until it "
                "does, or until the node is restarted without it.",
            )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[ApiException | None]] = loop.create_future()

        def job() -> None:
            verdicts = [self._verdict(question, principal) for question in questions]
            with suppress(RuntimeError):  # The loop is closed, so no request waits.
                loop.call_soon_threadsafe(self._answered, done, verdicts)

        self._start()
        self._jobs.put(job)
        try:
            async with asyncio.timeout(self._timeout_s):
                verdicts = await asyncio.shield(done)
        except TimeoutError:
            self.timed_out += 1
            self._hangs_since = time.monotonic() - self._timeout_s
            log.error(
                "the policy of %s has not answered within barnabas.policy.timeout.ms=%d; changes are refused until it"
                " does, or until the node is restarted without it",
                self.setting,
                self._timeout_s * 1000,
            )
            text = f"The policy of {self.setting} did not answer within {self._timeout_s:g} s."
            return self._refusals(questions, text)
        self.refused += sum(isinstance(verdict, PolicyViolation) for verdict in verdicts)
        return verdicts

    def _answered(self, done: asyncio.Future[list[ApiException | None]], verdicts: list[ApiException | None]) -> None:
        if self._hangs_since is not None:
            log.warning("the policy of %s answers again", self.setting)
            self._hangs_since = None
        if not done.done():
            done.set_result(verdicts)

    def _refusals(self, questions: Sequence[Question], text: str) -> list[ApiException | None]:
        self.refused += len(questions)
        return [PolicyViolation(text)] * len(questions)

    def _verdict(self, question: Question, principal: Principal) -> ApiException | None:
        """Runs on the thread."""
        extra: dict[str, Any] = {"principal": f"{principal.type}:{principal.name}"}
        if isinstance(question, AlterConfigQuestion):
            extra["existing_configs"] = dict(question.existing)
            arguments: tuple[Any, ...] = (question.resource, dict(question.configs))
        else:
            arguments = (question.topic,)
        try:
            self._policy.validate(*arguments, **{name: extra[name] for name in self._wants if name in extra})
        except ApiException as error:
            return error
        except BaseException:  # If a policy called exit(), the thread would end, and the policy would seem to hang.
            self.failed += 1
            log.exception("the policy of %s failed", self.setting)
            return ApiException(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"The policy of {self.setting} failed; the controller's log says why."
            )
        return None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="policy", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def close(self) -> None:
        self._jobs.put(None)
        if self.is_hanging:
            return
        try:
            self._policy.close()
        except Exception:
            log.exception("the policy of %s could not be closed", self.setting)


class Policies:
    """Asks the policies before the controller decides, on whichever path a request arrives."""

    def __init__(self, *, create: PolicyWorker | None, alter: PolicyWorker | None) -> None:
        self.create = create
        self.alter = alter
        self.gate = PolicyGate()

    @property
    def workers(self) -> list[PolicyWorker]:
        return [worker for worker in (self.create, self.alter) if worker is not None]

    def guards(self, api_key: ApiKey) -> bool:
        return api_key in _GUARDED

    async def settle(
        self, rehearse: Callable[[Rehearsal], None], controller: QuorumController, principal: Principal
    ) -> PolicySession:
        """Return a session with all verdicts that the decision needs. Use it before any other work runs."""
        session = PolicySession()
        for _ in range(_REHEARSALS_MAX):
            if not controller.is_active:
                break
            rehearsal = Rehearsal(controller)
            with session.rehearsal(), self.gate.opened(session):
                rehearse(rehearsal)
            for steps in rehearsal.steps:
                await self._rehearse_in_steps(steps, session)
            questions = session.open_questions
            if not questions:
                break
            session.answer(await self._verdicts(questions, principal))
        return session

    async def _rehearse_in_steps(self, steps: Steps[object], session: PolicySession) -> None:
        """Collect the questions. If the state changes meanwhile, a decision that needs more is refused."""
        is_going_on = True
        while is_going_on:
            with session.rehearsal(), self.gate.opened(session):
                is_going_on = _step(steps)
            await serve_others()

    async def _verdicts(self, questions: Sequence[Question], principal: Principal) -> list[ApiException | None]:
        verdicts: dict[int, ApiException | None] = {}
        for worker, is_alter in ((self.create, False), (self.alter, True)):
            ours = [
                at for at, question in enumerate(questions) if isinstance(question, AlterConfigQuestion) is is_alter
            ]
            if ours and worker is not None:
                answers = await worker.ask([questions[at] for at in ours], principal)
                verdicts.update(zip(ours, answers, strict=True))
        return [verdicts[at] for at in range(len(questions))]

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


class _Unlimited:
    def allowance(self, *_: object, **__: object) -> object:
        return UNLIMITED


class Rehearsal:
    """Stands in for the controller: it decides as the controller would, but writes and counts nothing."""

    mutation_quotas = _Unlimited()

    def __init__(self, controller: QuorumController) -> None:
        self._controller = controller
        self.steps: list[Steps[object]] = []
        """Decisions in steps that have not started."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._controller, name)

    def submit(self, decide: Callable[[], object], answer_error: Callable[[ApiException], object]) -> Deferred[object]:
        with suppress(Exception):  # The real decision raises it again.
            decide()
        return Deferred()

    def submit_in_steps(self, steps: Steps[object], answer_error: Callable[[ApiException], object]) -> Deferred[object]:
        self.steps.append(steps)
        return Deferred()


def _step(steps: Steps[object]) -> bool:
    """Take one step and return whether more follow. The real decision raises a failure again."""
    try:
        next(steps)
    except Exception:  # This includes StopIteration, the end.
        return False
    return True


def policies_of(config: NodeConfig) -> Policies | None:
    """Create the policies of the settings. Raise PolicyProblem if one can't be loaded or configured."""
    names = {ALTER_POLICY: config.alter_config_policy_class_name, CREATE_POLICY: config.create_topic_policy_class_name}
    if not any(names.values()):
        return None
    workers = {}
    for setting, class_name in names.items():
        if not class_name:
            continue
        policy = load_policy(setting, class_name)
        try:
            policy.configure({name: text for name, text in config.static.items() if not _is_secret(name)})
        except Exception as error:
            what = f"{class_name} can't be configured: {type(error).__name__}: {error}"
            raise PolicyProblem(setting, what, "fix the policy, or its settings") from error
        workers[setting] = PolicyWorker(setting, policy, timeout_ms=config.barnabas_policy_timeout_ms)
    return Policies(create=workers.get(CREATE_POLICY), alter=workers.get(ALTER_POLICY))


def _is_secret(name: str) -> bool:
    key = broker_config_key(name)
    return key is None or key.sensitive


def _optional_arguments(validate: Callable[..., object]) -> tuple[str, ...]:
    parameters = inspect.signature(validate).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return _OPTIONAL
    return tuple(name for name in _OPTIONAL if name in parameters)
