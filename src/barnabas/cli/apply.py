"""``barnabas apply``: makes a cluster what a file of desired state says, step by step.

It plans first, and again whenever it is called: after an interruption the same command does what is left. The first
step that fails ends it. Exit status: 0 all is as the file says, 1 something failed, 2 the command line or the file
makes no sense, 3 access would open and ``--forbid-new-access`` forbids it (nothing was changed).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.access.plan import Plan, Verdict, make_plan, verdict
from barnabas.cli.answer import Answer, Problem
from barnabas.cli.cluster_command import cluster_app, main_of
from barnabas.cli.cluster_options import ChangeOptions, Flag
from barnabas.cli.exit_status import DENIED, DONE
from barnabas.cli.plan import InvalidState, plan_answer, read_file
from barnabas.cli.plan_sources import AccessOptions, Known

if TYPE_CHECKING:
    from barnabas.access.desired_state import DesiredState
    from barnabas.clients.admin import AdminClient

__all__ = ["app", "main"]

app = cluster_app(
    "apply",
    "Make a cluster what a file of desired state says: what 'barnabas plan' shows, in that order. "
    "When it is interrupted, the same command does what is left.",
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
    """Make a cluster what a file of desired state says.

    Exit status: 0 done, 3 access would open and --forbid-new-access forbids it: nothing was changed.

    For example:

        barnabas apply state.yaml --bootstrap-server localhost:9092 --dry-run
        barnabas apply state.yaml --allow-delete

    Parameters
    ----------
    file
        The desired state in YAML or JSON; - is the standard input.
    allow_delete
        Delete what the file owns and lacks. Without it, that stays.
    forbid_new_access
        Change nothing when the change would let anybody do what he may not do now.
    """
    desired = read_file(file)
    known = (access or AccessOptions()).known()
    chosen = options or ChangeOptions()
    is_refused = False

    async def work(admin: AdminClient) -> Answer:
        nonlocal is_refused
        made, notes = await _planned(admin, desired, known, allow_delete=allow_delete)
        answer = plan_answer(made, notes, forbid_new_access=forbid_new_access)
        answer.document["done"] = 0
        is_refused = verdict(made, forbid_new_access=forbid_new_access) is Verdict.NEW_ACCESS
        if is_refused:
            text = "nothing was changed: access would open, which --forbid-new-access forbids"
            answer.notes = [*answer.notes, text]
        elif chosen.dry_run and not made.is_empty:
            answer.notes = [*answer.notes, "nothing was changed (--dry-run)"]
        elif not made.is_empty and not made.impossible:
            await _do(admin, made, answer)
        return answer

    status = chosen.run(work, right="ALTER and ALTER_CONFIGS on Cluster, and on the topics and groups of the file")
    return DENIED if status == DONE and is_refused else status


async def _planned(
    admin: AdminClient, desired: DesiredState, known: Known, *, allow_delete: bool
) -> tuple[Plan, list[str]]:
    from barnabas.cli.desired_state_cluster import read_cluster

    state, notes = await read_cluster(admin, desired.scope)
    made = make_plan(
        state,
        desired,
        super_users=known.super_users,
        allow_everyone=known.allow_everyone,
        allow_delete=allow_delete,
    )
    return made, [*notes, *(known.notes if desired.scope.acls else ())]


async def _do(admin: AdminClient, made: Plan, answer: Answer) -> None:
    """Stops at the first step that fails: those behind it may count on it."""
    from barnabas.cli.advice import problems_of
    from barnabas.cli.desired_state_cluster import perform
    from barnabas.cli.desired_state_secrets import resolve_passwords
    from barnabas.cli.progress import in_steps

    passwords, problems = resolve_passwords(made.steps)
    if problems:
        answer.problems = problems
        return
    done = 0
    for (step,) in in_steps(made.steps, 1, "applying"):
        errors = await perform(admin, step, passwords)
        done += len(step.changes) - len(errors)
        answer.document["done"] = done
        if errors:
            rest = Problem(
                f"{done} of {made.change_count} changes are made; the rest was not tried",
                advice="put right what failed, and apply again: it does what is left",
            )
            answer.problems = [*problems_of(errors), rest]
            return
    answer.notes = [*answer.notes, f"{done} changes are made"]
