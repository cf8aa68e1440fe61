"""``barnabas plan``: show the changes to reach a desired state, and exactly which access they open and close.

Exit status: 0 no changes, 3 changes. With ``--forbid-new-access``: 0 no access opens, 3 some access opens. 1 planning
failed, or a part of the file is impossible; 2 invalid command line or file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.access.desired_state import InvalidFile
from barnabas.access.plan import Plan, Verdict, make_plan, verdict
from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import Flag, running_command
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.desired_state.sources import AccessOptions, FileOptions, Found
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.exit_status import DENIED, DONE, USAGE_ERROR
from barnabas.common.printable import printable

if TYPE_CHECKING:
    from barnabas.access.desired_state import DesiredState

__all__ = ["InvalidState", "app", "main", "plan_answer", "read_file"]

app = cluster_app(
    "plan",
    "Compare a file of desired state with a cluster: show the changes, and which access they open and close. "
    "'barnabas apply' makes the changes, 'barnabas export' writes such a file.\n\n"
    "Exit status 3: changes are needed; with --forbid-new-access: some access opens.",
)
_main = main_of(app)


@dataclass(kw_only=True)
class PlanOptions(FileOptions):
    """The same options, with one more output format."""

    output: Annotated[Literal["table", "json", "yaml", "markdown"], Parameter(name=["--output", "-o"])] = "table"  # type: ignore[assignment]
    """Output format: a table, one document for programs, or a comment for a pull request."""


class InvalidState(Exception):
    """The file is invalid, and its errors have been printed."""

    status = USAGE_ERROR


def main(arguments: Sequence[str]) -> int:
    try:
        return _main(arguments)
    except InvalidState as error:
        return error.status


@app.default
def plan(
    file: str,
    *,
    allow_delete: Flag = False,
    forbid_new_access: Flag = False,
    against_audit: str | None = None,
    access: AccessOptions | None = None,
    options: PlanOptions | None = None,
) -> int:
    """Compare a file of desired state with a cluster, or with the files of a node.

    Exit status: 0 no changes, 3 changes. With --forbid-new-access: 0 no access opens, 3 some access opens.

    For example:

        barnabas plan state.yaml --bootstrap-server localhost:9092
        barnabas plan state.yaml --allow-delete --forbid-new-access --output json
        barnabas plan state.yaml --output markdown
        barnabas plan state.yaml --against-audit /var/log/kafka/authorizer --super-users User:admin

    Parameters
    ----------
    file
        The desired state in YAML or JSON; - is the standard input.
    allow_delete
        Also plan deletions. Default: keep and show resources that the file lacks.
    forbid_new_access
        Fail if the change would open access for any principal.
    against_audit
        A file or directory of audited decisions, of barnabas or Kafka: show which of these requests the change would
        deny, or newly allow.
    """
    desired = read_file(file)
    known = (access or AccessOptions()).known()
    outcome = Verdict.NOTHING_TO_DO

    async def work(found: Found) -> Answer:
        nonlocal outcome
        made = make_plan(
            found.state,
            desired,
            super_users=known.super_users,
            allow_everyone=known.allow_everyone,
            allow_delete=allow_delete,
        )
        outcome = verdict(made, forbid_new_access=forbid_new_access)
        notes = [*found.notes, *(known.notes if desired.scope.acls else ())]
        answer = plan_answer(made, notes, forbid_new_access=forbid_new_access)
        if against_audit is not None and not desired.scope.acls:
            answer.notes = [*answer.notes, "--against-audit: the scope of the file has no ACLs, so no decision changes"]
        elif against_audit is not None:
            from barnabas.cli.desired_state.against_audit import add_replay

            add_replay(answer, made, against_audit)
        if outcome is Verdict.NEW_ACCESS:
            answer.notes = [*answer.notes, "--forbid-new-access forbids access that the change opens"]
        return answer

    status = (options or PlanOptions()).find(desired.scope, work)
    if status != DONE:
        return status
    if forbid_new_access:
        return DENIED if outcome is Verdict.NEW_ACCESS else DONE
    return DENIED if outcome is Verdict.CHANGES_PENDING else DONE


def plan_answer(made: Plan, notes: Sequence[str], *, forbid_new_access: bool) -> Answer:
    from barnabas.access.plan_json import plan_json, proof_json
    from barnabas.cli.desired_state.tables import plan_sheets

    document = plan_json(made, forbid_new_access=forbid_new_access)
    document["notes"] = [*made.notes, *notes]
    all_notes = [*made.notes, *notes]
    if made.is_empty:
        all_notes.insert(0, "no changes: everything in the file's scope matches the file")
    advice = "change the file, or make this change by hand first"
    problems = [Problem(change.why, change.what, advice=advice) for change in made.impossible]
    return Answer(document, plan_sheets(made), all_notes, problems, late={"access": lambda: proof_json(made.proof)})


def read_file(path: str) -> DesiredState:
    """Read the file. If it is invalid, print all its errors and end the command."""
    from barnabas.cli.desired_state.yaml_file import UnreadableFile, load_desired_state

    command = running_command.get()
    try:
        desired = load_desired_state(path)
    except UnreadableFile as error:
        sys.stderr.write(f"{command}: {printable(str(error))}\n")
        raise InvalidState from error
    except InvalidFile as error:
        for problem in error.problems:
            sys.stderr.write(f"{command}: {printable(f'{path}: {problem}')}\n")
        count = len(error.problems)
        sys.stderr.write(
            f"  next: correct {'this error' if count == 1 else f'these {count} errors'}; no request was sent\n"
        )
        raise InvalidState from error
    for warning in desired.warnings:
        sys.stderr.write(f"note: {printable(f'{path}: {warning}')}\n")
    return desired
