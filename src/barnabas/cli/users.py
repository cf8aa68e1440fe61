"""``barnabas users list|describe|set-password|delete-password``: manage users with SCRAM credentials."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Flag, UsageError
from barnabas.cli.output.advice import nearest, problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["app", "main"]

app = cluster_app("users", "List users with SCRAM passwords, and set and delete passwords.")
main = main_of(app)

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
_DEFAULT: tuple[Mechanism, ...] = ("SCRAM-SHA-512",)


@app.command(name=["list", "describe"])
def list_(user: list[str] | None = None, *, options: ClusterOptions | None = None) -> int:
    """List users with their mechanisms and iterations. Passwords are never shown.

    For example:

        barnabas users list
        barnabas users describe --user alice --output json

    Parameters
    ----------
    user
        Only this user. May be repeated.
    """

    async def work(admin: AdminClient) -> Answer:
        results = await admin.describe_user_scram_credentials(user or None)
        known = list((await admin.describe_user_scram_credentials()).values) if results.errors else []
        sheet = Sheet(columns=("user", "mechanism", "iterations"))
        for name, infos in sorted(results.values.items()):
            for info in infos:
                sheet.add(name, info.mechanism.mechanism_name, str(info.iterations))
        document = {
            "users": [
                {
                    "user": name,
                    "credentials": [
                        {"mechanism": info.mechanism.mechanism_name, "iterations": info.iterations} for info in infos
                    ],
                }
                for name, infos in sorted(results.values.items())
            ]
        }
        problems = problems_of(results.errors, right="DESCRIBE on Cluster", names=known)
        notes = [] if sheet.rows or problems else ["no user has a SCRAM password"]
        return Answer(document, [sheet] if sheet.rows else [], notes, problems)

    return (options or ClusterOptions()).run(work, right="DESCRIBE on Cluster")


@app.command(name="set-password")
def set_password(
    user: str,
    *,
    mechanism: list[Mechanism] | None = None,
    iterations: int = 8192,
    password_file: str | None = None,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Set the password of a user. The command reads it from a prompt, a file, or the standard input.

    The password is never an argument, which other users could see, and never leaves this machine. The cluster receives
    it salted and hashed.

    For example:

        barnabas users set-password alice
        barnabas users set-password --user alice --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512
        barnabas users set-password --user alice --password-file alice.password --wait

    Parameters
    ----------
    user
        The name of the user.
    mechanism
        SCRAM-SHA-256 or SCRAM-SHA-512 (the default). May be repeated.
    iterations
        Number of hash iterations, 4096 to 16384. More iterations make guessing harder and logins slower.
    password_file
        A file with the password in its first line.
    wait
        Return when every live broker has the change.
    """
    options = options or ChangeOptions()
    password = "" if options.dry_run else _password(user, password_file)
    dry_run = options.dry_run
    mechanisms = list(dict.fromkeys(mechanism or _DEFAULT))

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import ScramMechanism, ScramUpsertion

        changes = [
            Change("user", user, "given a password", name, {"mechanism": name, "iterations": iterations})
            for name in mechanisms
        ]
        if dry_run:
            await admin.describe_user_scram_credentials()  # First check that the cluster responds.
            return change_answer(changes, dry_run=True)
        results = await admin.alter_user_scram_credentials(
            [ScramUpsertion(user, ScramMechanism.from_name(name), password, iterations) for name in mechanisms],
            wait=wait,
        )
        problems = problems_of(results.errors, right="ALTER on Cluster")
        return change_answer(changes if not problems else [], problems, dry_run=False)

    return options.run(work, right="ALTER on Cluster")


@app.command(name="delete-password")
def delete_password(
    user: str,
    *,
    mechanism: list[Mechanism] | None = None,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Delete passwords of a user, so that no client can authenticate as that user with SCRAM.

    For example:

        barnabas users delete-password alice --dry-run
        barnabas users delete-password --user alice --mechanism SCRAM-SHA-256

    Parameters
    ----------
    user
        The name of the user.
    mechanism
        Only the password for SCRAM-SHA-256 or SCRAM-SHA-512. Default: all passwords. May be repeated.
    wait
        Return when every live broker has the change.
    """
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import ScramDeletion

        known = await admin.describe_user_scram_credentials()
        held = {info.mechanism.mechanism_name: info.mechanism for info in known.values.get(user, ())}
        wanted = [name for name in held if not mechanism or name in mechanism]
        if not wanted:
            near = nearest(user, (name for name in known.values if name != user))
            advice = f"did you mean {near}?" if near else "'barnabas users list' shows the users"
            return change_answer([], [Problem("no such password exists", user, advice=advice)], dry_run=dry_run)
        changes = [Change("password of user", user, "deleted", name, {"mechanism": name}) for name in wanted]
        if dry_run:
            return change_answer(changes, dry_run=True)
        results = await admin.alter_user_scram_credentials(
            [ScramDeletion(user, held[name]) for name in wanted], wait=wait
        )
        problems = problems_of(results.errors, right="ALTER on Cluster")
        return change_answer(changes if not problems else [], problems, dry_run=False)

    return options.run(work, right="ALTER on Cluster")


def _password(user: str, path: str | None) -> str:
    """Read a password from a file, a prompt or the standard input. Raise UsageError."""
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.readline().rstrip("\r\n")
        except OSError as error:
            raise UsageError(f"--password-file: can't read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"--password-file: {path} is not UTF-8") from error
    elif sys.stdin.isatty():
        import getpass

        text = getpass.getpass(f"Password for {user}: ")
        if getpass.getpass("Again: ") != text:
            raise UsageError("the passwords differ; nothing was changed")
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    if not text:
        raise UsageError("the password must not be empty: type it, pipe it in, or use --password-file")
    return text
