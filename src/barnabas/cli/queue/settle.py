"""``barnabas queue accept|release|reject|renew``: say what became of records, by their handles."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_options import AnswerOptions, UsageError
from barnabas.cli.arguments.standard_input import STANDARD_INPUT
from barnabas.cli.output.advice import problem_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.queue.handles import Handle, parse_handle

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["accept", "reject", "release", "renew"]

_GONE = "the process that held the record has ended: the record is delivered again, to any member of the group"
_AGAIN = "'barnabas queue receive' delivers it again, unless another member has it"


def accept(handle: list[str] | None = None, *, options: AnswerOptions | None = None) -> int:
    """Accept records: they are processed, and are not delivered again.

    For example:

        barnabas queue accept 3f9a1c0b77de52a1.0.42.1
        barnabas queue receive orders --group billing --max 10 | tee batch | cut -f1 | barnabas queue accept -

    Parameters
    ----------
    handle
        The handle of a record. May be repeated. - reads handles from the standard input, the first field of each line.
    """
    return _settle("ACCEPT", "accepted", handle, options)


def release(handle: list[str] | None = None, *, options: AnswerOptions | None = None) -> int:
    """Release records: they are delivered again at once, to any member of the group.

    For example:

        barnabas queue release 3f9a1c0b77de52a1.0.42.1

    Parameters
    ----------
    handle
        The handle of a record. May be repeated. - reads handles from the standard input, the first field of each line.
    """
    return _settle("RELEASE", "released", handle, options)


def reject(handle: list[str] | None = None, *, options: AnswerOptions | None = None) -> int:
    """Reject records: they can't be processed, and are not delivered again.

    For example:

        barnabas queue reject 3f9a1c0b77de52a1.0.42.1

    Parameters
    ----------
    handle
        The handle of a record. May be repeated. - reads handles from the standard input, the first field of each line.
    """
    return _settle("REJECT", "rejected", handle, options)


def renew(handle: list[str] | None = None, *, options: AnswerOptions | None = None) -> int:
    """Renew the locks of records: they are yours for the full time again.

    For example:

        barnabas queue renew 3f9a1c0b77de52a1.0.42.1

    Parameters
    ----------
    handle
        The handle of a record. May be repeated. - reads handles from the standard input, the first field of each line.
    """
    return _settle("RENEW", "renewed", handle, options)


def _settle(type_name: str, done: str, texts: Sequence[str] | None, options: AnswerOptions | None) -> int:
    handles = [parse_handle(text) for text in _handles(texts)]
    answer = asyncio.run(_settled(type_name, done, list(dict.fromkeys(handles))))
    return (options or AnswerOptions()).give(answer)


def _handles(texts: Sequence[str] | None) -> list[str]:
    if not texts:
        raise UsageError("no handle given: 'barnabas queue receive' prints one before each record")
    found: list[str] = []
    for text in texts:
        if text == STANDARD_INPUT:
            found += [line.split("\t", 1)[0].strip() for line in sys.stdin if line.strip()]
        else:
            found.append(text)
    return found


async def _settled(type_name: str, done: str, handles: Sequence[Handle]) -> Answer:
    by_agent: dict[str, list[Handle]] = defaultdict(list)
    for handle in handles:
        by_agent[handle.agent].append(handle)
    changes: list[Change] = []
    problems: list[Problem] = []
    for agent, of_agent in by_agent.items():
        for handle, outcome in zip(of_agent, await _outcomes(agent, type_name, of_agent), strict=True):
            if isinstance(outcome, Problem):
                problems.append(outcome)
            else:
                changes.append(Change("record", str(handle), done, outcome))
    return change_answer(changes, problems, dry_run=False)


async def _outcomes(agent: str, type_name: str, handles: Sequence[Handle]) -> list[Problem | str]:
    """Return details or a problem for each record."""
    from barnabas.cli.queue.agent_client import AgentGone, ask_agent
    from barnabas.clients.admin.errors import AdminError
    from barnabas.clients.errors import ClientError

    records = [[handle.partition, handle.offset, handle.delivery_count] for handle in handles]
    try:
        response = await ask_agent(agent, {"do": "acknowledge", "type": type_name, "records": records})
    except AgentGone:
        return [Problem(_GONE, str(handle), advice=_AGAIN) for handle in handles]
    except (AdminError, ClientError) as error:
        problem = problem_of(error)
        return [Problem(problem.text, str(handle), problem.code, problem.advice) for handle in handles]
    details = f"for {response['lock_timeout_s']:g} s" if type_name == "RENEW" else ""
    return [
        details if outcome is None else _refused(handle, outcome)
        for handle, outcome in zip(handles, response["results"], strict=True)
    ]


def _refused(handle: Handle, outcome: Mapping[str, Any]) -> Problem:
    return Problem(outcome["message"] or "", str(handle), outcome.get("code", ""), _AGAIN)
