"""``barnabas queue``: use a topic as a queue, from the shell."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.queue.agents import agents
from barnabas.cli.queue.groups import delete, describe, list_, offsets, reset
from barnabas.cli.queue.receive import receive
from barnabas.cli.queue.settle import accept, reject, release, renew
from barnabas.cli.queue.work import given_command, work

__all__ = ["app", "main"]

app = cluster_app(
    "queue",
    "Use a topic as a queue: each record goes to one member of a share group, and again to another one if it is not "
    "accepted.\n\n"
    "'work' runs a command for each record. 'receive' prints records with handles, for scripts, and 'accept', "
    "'release', 'reject' and 'renew' say what became of them. The other verbs manage the groups.",
)
_main = main_of(app)
app.command(receive)
app.command(accept)
app.command(release)
app.command(reject)
app.command(renew)
app.command(work)
app.command(agents)
app.command(list_, name="list")
app.command(describe)
app.command(offsets)
app.command(reset)
app.command(delete)


def main(arguments: Sequence[str]) -> int:
    """Run a verb. The words after ``--`` are those of the command that 'work' runs."""
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    token = given_command.set(tuple(words[at + 1 :]))
    try:
        return _main(words[:at])
    finally:
        given_command.reset(token)
