"""Build and run commands that contact a cluster: the ``App``, ``main``, and usage errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter

from barnabas.cli.arguments.cluster_options import UsageError, running_command
from barnabas.cli.arguments.standard_input import STANDARD_INPUT
from barnabas.cli.output.exit_status import DONE, USAGE_ERROR
from barnabas.common.printable import printable

__all__ = ["cluster_app", "main_of"]

_EPILOGUE = (
    "Exit status: 0 done, 1 failed (also in part), 2 invalid command line. "
    "Errors are printed to standard error, with what to do next."
)


def cluster_app(name: str, text: str) -> App:
    """Return the app of a command. ``text`` is its help text."""
    return App(
        name=f"barnabas {name}",
        help=f"{text}\n\n{_EPILOGUE}",
        version_flags=(),
        help_format="markdown",
        # Omit --no-dry-run and --empty-topic: Kafka's tools don't have them, and they clutter the help.
        default_parameter=Parameter(negative=()),
    )


def _error_text(error: Exception) -> str:
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return f"{error.argument.name} is missing, or has no value"
    return " ".join(str(error).split()) if isinstance(error, CycloptsError) else printable(str(error))


def _no_verb(app: App, first: str) -> str:
    """Return the error for a command line that begins with an option, as in Kafka's tools."""
    if not first.startswith("-") or first in app or app.default_command is not None:
        return ""
    word = first.lstrip("-").partition("=")[0]
    if word in app:
        return f"{first}: the verb must be first, without dashes: '{app.name[0]} {word} ...'"
    verbs = ", ".join(name for name in app if not name.startswith("-"))
    return f"{first}: the verb is missing: write one of {verbs} before the options"


def main_of(app: App) -> Callable[[Sequence[str]], int]:
    """Return the ``main`` of a command's module. ``barnabas.cli.output.exit_status`` documents the exit statuses."""

    def main(arguments: Sequence[str]) -> int:
        name = app.name[0]
        verb = next((argument for argument in arguments if not argument.startswith("-")), "")
        if arguments and (wrong := _no_verb(app, arguments[0])):
            sys.stderr.write(f"{name}: {printable(wrong)}\n  next: '{name} --help' lists verbs and options\n")
            return USAGE_ERROR
        running_command.set(f"{name} {verb}" if verb in app else name)
        try:
            status = app(
                [STANDARD_INPUT if argument == "-" else argument for argument in arguments],
                exit_on_error=False,
                print_error=False,
                result_action="return_value",
            )
        except SystemExit as stop:
            return int(stop.code or 0)
        except (CycloptsError, UsageError) as error:
            sys.stderr.write(f"{running_command.get()}: {_error_text(error)}\n")
            if isinstance(error, CycloptsError):
                sys.stderr.write(f"  next: '{running_command.get()} --help' lists verbs and options\n")
            return USAGE_ERROR
        if not arguments:
            return USAGE_ERROR
        return DONE if status is None else int(status)

    return main
