"""``barnabas apply``: change a cluster to match a file of desired state, step by step.

Each run creates a new plan, so after an interruption the same command completes the change. The first failed step ends
the run. Exit status: 0 the cluster matches the file, 1 a step failed, 2 invalid command line or file, 3
``--forbid-new-access`` forbids access that the change would open (nothing was changed).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.access.plan import Plan, Verdict, make_plan, verdict
from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, Flag
from barnabas.cli.desired_state.plan import InvalidState, plan_answer, read_file
from barnabas.cli.desired_state.sources import AccessOptions, Known
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.exit_status import DENIED, DONE
from barnabas.common.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.access.cluster_state import Credential
    from barnabas.access.desired_state import DesiredState
    from barnabas.clients.admin import AdminClient
    from barnabas.clients.admin.errors import AdminError

__all__ = ["app", "main"]

_BEHIND_S = (0.5, 1.0, 2.0, 4.0)
"""Pauses between checks whether a broker shows the controller's changes."""
_MADE_BEFORE = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)
"""Errors for a step that was made already, but that a lagging broker does not show yet."""

app = cluster_app(
    "apply",
    "Change a cluster to match a file of desired state, in the steps that 'barnabas plan' shows. "
    "After an interruption, the same command completes the change.\n\n"
    "Exit status 3: --forbid-new-access forbids access that the change would open; nothing was changed.",
)
_main = main_of(app)


def main(arguments: Sequence[str]) -> int:
    try:
        return _main(arguments)
    except InvalidState as error:
        return error.status


@app.default
def apply(
    file: str,
    *,
    allow_delete: Flag = False,
    forbid_new_access: Flag = False,
    access: AccessOptions | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Change a cluster to match a file of desired state.

    Exit status: 0 done, 3 --forbid-new-access forbids access that the change would open; nothing was changed.

    For example:

        barnabas apply state.yaml --bootstrap-server localhost:9092 --dry-run
        barnabas apply state.yaml --allow-delete

    Parameters
    ----------
    file
        The desired state in YAML or JSON; - is the standard input.
    allow_delete
        Delete resources that are in the file's scope but not in the file. Default: keep them.
    forbid_new_access
        Change nothing if the change would open access for any principal.
    """
    desired = read_file(file)
    known = (access or AccessOptions()).known()
    chosen = options or ChangeOptions()
    is_refused = False

    async def work(admin: AdminClient) -> Answer:
        nonlocal is_refused

        async def planned() -> tuple[Plan, list[str]]:
            return await _planned(admin, desired, known, allow_delete=allow_delete)

        made, notes = await planned()
        answer = plan_answer(made, notes, forbid_new_access=forbid_new_access)
        answer.document["done"] = 0
        is_refused = verdict(made, forbid_new_access=forbid_new_access) is Verdict.NEW_ACCESS
        if is_refused:
            text = "nothing was changed: --forbid-new-access forbids access that the change would open"
            answer.notes = [*answer.notes, text]
        elif chosen.dry_run and not made.is_empty:
            answer.notes = [*answer.notes, "nothing was changed (--dry-run)"]
        elif not made.is_empty and not made.impossible:
            await _do(admin, made, planned, answer)
        return answer

    status = chosen.run(work, right="ALTER and ALTER_CONFIGS on Cluster, and on the topics and groups of the file")
    return DENIED if status == DONE and is_refused else status


async def _planned(
    admin: AdminClient, desired: DesiredState, known: Known, *, allow_delete: bool
) -> tuple[Plan, list[str]]:
    from barnabas.cli.desired_state.cluster import read_cluster

    state, notes = await read_cluster(admin, desired.scope)
    made = make_plan(
        state,
        desired,
        super_users=known.super_users,
        allow_everyone=known.allow_everyone,
        allow_delete=allow_delete,
    )
    return made, [*notes, *(known.notes if desired.scope.acls else ())]


async def _do(
    admin: AdminClient, made: Plan, plan_again: Callable[[], Awaitable[tuple[Plan, list[str]]]], answer: Answer
) -> None:
    """Make the steps of a plan. Stop at the first failed step, because later steps may depend on it.

    After an interruption, a broker may not show the latest changes yet, and the cluster refuses to repeat them. So
    after a failure, plan the remaining steps again, and continue if fewer remain.
    """
    from barnabas.cli.desired_state.passwords import resolve_passwords

    passwords, problems = resolve_passwords(made.steps)
    if problems:
        answer.problems = problems
        return
    total, left = made.change_count, made.change_count
    while True:
        errors = await _steps_of(admin, made, passwords)
        if not errors:
            answer.document["done"] = total
            answer.notes = [*answer.notes, "1 change was made" if total == 1 else f"{total} changes were made"]
            return
        for wait_s in _BEHIND_S if {error.code for error in errors.values()} <= _MADE_BEFORE else _BEHIND_S[:1]:
            await asyncio.sleep(wait_s)
            made, _ = await plan_again()
            if made.change_count < left:
                break
        else:
            break
        left = made.change_count
        passwords |= resolve_passwords(made.steps)[0]
    answer.document["done"] = total - left
    rest = Problem(
        f"{total - left} of {total} changes were made; the others were not tried",
        advice="correct the cause, and run apply again: it makes the remaining changes",
    )
    answer.problems = [*problems_of(errors), rest]


async def _steps_of(admin: AdminClient, made: Plan, passwords: Mapping[Credential, str]) -> Mapping[object, AdminError]:
    """Make the steps. Return the errors of the first failed step, or none if all succeeded."""
    from barnabas.cli.desired_state import cluster as desired_state_cluster
    from barnabas.cli.output.progress import in_steps

    for (step,) in in_steps(made.steps, 1, "applying"):
        # Brokers apply the steps in order, so a broker that shows the last step shows all.
        is_last = step is made.steps[-1]
        errors = await desired_state_cluster.apply_step(admin, step, passwords, wait=is_last)
        if errors:
            return errors
    return {}
