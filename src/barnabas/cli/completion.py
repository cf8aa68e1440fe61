"""``barnabas completion bash|zsh|fish``: print a script with which a shell completes commands, verbs and options."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Literal

from cyclopts import App

from barnabas.cli.arguments.cluster_app import cluster_app, main_of

__all__ = ["app", "main"]

app = cluster_app("completion", "Print a script that completes commands, verbs and options in a shell.")
main = main_of(app)


@app.default
def completion(shell: Literal["bash", "zsh", "fish"]) -> int:
    """Print the completion script for a shell. Save it as in the examples, and start a new shell.

    For example:

        barnabas completion bash > ~/.local/share/bash-completion/completions/barnabas
        barnabas completion zsh > ~/.zfunc/_barnabas
        barnabas completion fish > ~/.config/fish/completions/barnabas.fish

    Parameters
    ----------
    shell
        The shell.
    """
    sys.stdout.write(_whole().generate_completion(prog_name="barnabas", shell=shell))
    return 0


def _whole() -> App:
    """Return an app with all commands. Otherwise only the requested command is loaded, so that it starts fast."""
    from barnabas.cli.main import COMMANDS

    whole = App(name="barnabas", version_flags=("--version", "-V"))
    for name, (module, text) in COMMANDS.items():
        command = getattr(import_module(module), "app", None)
        whole.command(App(name=name, help=text, version_flags=()) if command is None else command.full, name=name)
    return whole
