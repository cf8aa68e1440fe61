"""Build and run commands: the ``CommandApp`` with its verbs, ``main``, and usage errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TypeVar, overload

from barnabas.cli.arguments.cluster_options import UsageError, running_command
from barnabas.cli.arguments.quick_parser import parse
from barnabas.cli.arguments.standard_input import STANDARD_INPUT
from barnabas.cli.output.exit_status import DONE, USAGE_ERROR
from barnabas.common.printable import printable

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["CommandApp", "cluster_app", "main_of"]

F = TypeVar("F", bound=Callable[..., int])

_HELP = frozenset({"--help", "-h"})
_WIDTH_MAX = 110
_EPILOGUE = (
    "Exit status: 0 done, 1 failed (also in part), 2 invalid command line. "
    "Errors are printed to standard error, with what to do next."
)


class CommandApp:
    """A command, and its verbs: ``@app.command`` registers one, ``@app.default`` the function of a command without."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.default_command: Callable[..., int] | None = None
        self._verbs: list[tuple[tuple[str, ...], Callable[..., int]]] = []
        self._full: App | None = None

    @overload
    def command(self, function: F, *, name: str | Sequence[str] | None = None) -> F: ...
    @overload
    def command(self, function: None = None, *, name: str | Sequence[str] | None = None) -> Callable[[F], F]: ...
    def command(self, function: F | None = None, *, name: str | Sequence[str] | None = None) -> F | Callable[[F], F]:
        """Register a verb. Its default name is that of the function, with dashes."""

        def registered(verb: F) -> F:
            names = verb.__name__.strip("_").replace("_", "-") if name is None else name
            self._verbs.append(((names,) if isinstance(names, str) else tuple(names), verb))
            self._full = None
            return verb

        return registered if function is None else registered(function)

    def default(self, function: F) -> F:
        """Register the function of a command without verbs."""
        self.default_command = function
        self._full = None
        return function

    def __contains__(self, verb: object) -> bool:
        return verb in tuple(self)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the verbs, also of the synonyms."""
        return (name for names, _ in self._verbs for name in names)

    def function_of(self, verb: str) -> Callable[..., int]:
        """Return the function of a verb. Raise KeyError."""
        for names, function in self._verbs:
            if verb in names:
                return function
        raise KeyError(verb)

    def usual_call(self, arguments: Sequence[str]) -> Callable[[], int] | None:
        """Return the call that a usual command line means, or None if the full parser must decide."""
        if self.default_command is not None:
            function, tokens = self.default_command, arguments
        elif arguments and arguments[0] in self:
            function, tokens = self.function_of(arguments[0]), arguments[1:]
        else:
            return None
        given = parse(function, tokens)
        return None if given is None else lambda: function(**given)

    def help_text(self, arguments: Sequence[str], *, width: int) -> str:
        """Return the help of the verb that the arguments name, or of the command."""
        from barnabas.cli.arguments.help_text import command_help, verb_help

        verb = next((argument for argument in arguments if not argument.startswith("-")), "")
        if self.default_command is not None:
            return verb_help(self.name, self.default_command, width=width, more=_EPILOGUE)
        if verb in self:
            return verb_help(f"{self.name} {verb}", self.function_of(verb), width=width)
        return command_help(self.name, self.text, self._verbs, width=width)

    @property
    def full(self) -> App:
        """The app of cyclopts, for help texts and mistakes. It takes longer to load than most commands to run."""
        if self._full is None:
            from barnabas.cli.arguments.full_parser import full_app

            verbs = list(self._verbs)
            if self.default_command is not None:
                verbs.append(((), self.default_command))
            self._full = full_app(self.name, self.text, verbs)
        return self._full


def cluster_app(name: str, text: str) -> CommandApp:
    """Return the app of a command. ``text`` is its help text."""
    return CommandApp(f"barnabas {name}", f"{text}\n\n{_EPILOGUE}")


def _no_verb(app: CommandApp, first: str) -> str:
    """Return the error for a command line that begins with an option, as in Kafka's tools."""
    if not first.startswith("-") or first in _HELP or app.default_command is not None:
        return ""
    word = first.lstrip("-").partition("=")[0]
    if word in app:
        return f"{first}: the verb must be first, without dashes: '{app.name} {word} ...'"
    return f"{first}: the verb is missing: write one of {', '.join(app)} before the options"


def main_of(app: CommandApp) -> Callable[[Sequence[str]], int]:
    """Return the ``main`` of a command's module. ``barnabas.cli.output.exit_status`` documents the exit statuses."""

    def main(arguments: Sequence[str]) -> int:
        name = app.name
        verb = next((argument for argument in arguments if not argument.startswith("-")), "")
        if arguments and (wrong := _no_verb(app, arguments[0])):
            sys.stderr.write(f"{name}: {printable(wrong)}\n  next: '{name} --help' lists verbs and options\n")
            return USAGE_ERROR
        running_command.set(f"{name} {verb}" if verb in app else name)
        if not _HELP.isdisjoint(arguments) or (not arguments and app.default_command is None):
            width = min(_WIDTH_MAX, get_terminal_size().columns)
            (sys.stdout if arguments else sys.stderr).write(app.help_text(arguments, width=width))
            return DONE if arguments else USAGE_ERROR
        tokens = [STANDARD_INPUT if argument == "-" else argument for argument in arguments]
        try:
            call = app.usual_call(tokens)
            status = _parsed_by_cyclopts(app, tokens) if call is None else call()
        except UsageError as error:
            sys.stderr.write(f"{running_command.get()}: {printable(str(error))}\n")
            return USAGE_ERROR
        return status

    return main


def _parsed_by_cyclopts(app: CommandApp, tokens: Sequence[str]) -> int:
    """Print a help text, report a mistake, or run an unusual command line. Raise UsageError."""
    from cyclopts import CycloptsError

    from barnabas.cli.arguments.mistakes import mistake

    try:
        status = app.full(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        return DONE if status is None else int(status)
    except SystemExit as stop:
        return int(stop.code or 0)
    except CycloptsError as error:
        sys.stderr.write(f"{running_command.get()}: {printable(mistake(error, tuple(app)))}\n")
    sys.stderr.write(f"  next: '{running_command.get()} --help' lists verbs and options\n")
    return USAGE_ERROR
