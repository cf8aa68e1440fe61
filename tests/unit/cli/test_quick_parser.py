"""The quick parser returns what cyclopts returns, or leaves the decision to it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.cli.arguments.cluster_app import CommandApp
from barnabas.cli.arguments.properties_arguments import UsageError
from barnabas.cli.arguments.quick_parser import Options, options_of, parse
from barnabas.cli.main import COMMANDS

APPS = [
    app for module, _ in COMMANDS.values() if isinstance(app := getattr(import_module(module), "app", None), CommandApp)
]
VERBS = [(app, verb) for app in APPS for verb in (app if app.default_command is None else [""])]
EVERY_VERB = pytest.mark.parametrize(("app", "verb"), VERBS, ids=[f"{app.name} {verb}".strip() for app, verb in VERBS])
WORDS = [
    "orders",
    "1",
    "0",
    "-1",
    "2.5",
    "a=b",
    "--",
    "-",
    "",
    "none",
    "[1,2]",
    '{"a":1}',
    "table",
    "json",
    "x y",
    "true",
]


def function_of(app: CommandApp, verb: str) -> Callable[..., int]:
    return app.function_of(verb) if app.default_command is None else app.default_command


def by_cyclopts(app: CommandApp, tokens: list[str]) -> dict[str, object]:
    _, bound, _ = app.full.parse_args(tokens, exit_on_error=False, print_error=False)
    return bound.arguments


def options_or_none(app: CommandApp, verb: str) -> Options | None:
    try:
        return options_of(function_of(app, verb))
    except Exception:
        return None


@EVERY_VERB
def test_both_parsers_return_the_same_for_the_examples_of_the_help(app: CommandApp, verb: str) -> None:
    lines = (function_of(app, verb).__doc__ or "").splitlines()
    for line in (line.strip() for line in lines if line.startswith("        barnabas ")):
        tokens = shlex.split(line.partition(" | ")[0].partition(" > ")[0].partition(" < ")[0])[2:]
        found = parse(function_of(app, verb), tokens[1:] if verb else tokens)
        if found is not None:
            assert found == by_cyclopts(app, tokens), line


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[CommandApp, str, list[str]]:
    app, verb = draw(st.sampled_from(VERBS))
    known = options_or_none(app, verb)
    names = sorted(known.by_name) if known is not None else ["--topic"]
    words = st.sampled_from(WORDS)
    part = st.one_of(
        words.map(lambda word: [word]),
        st.sampled_from(names).map(lambda name: [name]),
        st.tuples(st.sampled_from(names), words).map(list),
        st.tuples(st.sampled_from(names), words).map(lambda pair: [f"{pair[0]}={pair[1]}"]),
    )
    return app, verb, [token for tokens in draw(st.lists(part, max_size=4)) for token in tokens]


@settings(max_examples=400)
@given(command_lines())
def test_both_parsers_return_the_same_for_any_command_line(drawn: tuple[CommandApp, str, list[str]]) -> None:
    app, verb, tokens = drawn
    try:
        found = parse(function_of(app, verb), tokens)
    except UsageError:
        return  # cyclopts rounds fractions.
    if found is not None:
        assert found == by_cyclopts(app, [verb, *tokens] if verb else tokens)


@pytest.mark.parametrize(
    "line",
    [
        "topics list",
        "topics list orders payments",
        "topics create orders --partitions 3 --config a=1 --config=b=2 --if-not-exists --dry-run -o json",
        "topics describe --topic orders --bootstrap-server=localhost:9092 --timeout 2.5",
        "plan cluster.yaml --super-users User:admin",
        "groups describe g --members",
    ],
)
def test_usual_command_lines_are_parsed_quickly(line: str) -> None:
    command, *tokens = line.split()
    app = import_module(COMMANDS[command][0]).app
    assert app.usual_call(tokens) is not None


@pytest.mark.parametrize(
    "line",
    [
        "topics list --help",
        "topics create orders --partitions 0",
        "topics create --partition",
        "topics lst",
        "plan",
        "topics",
    ],
)
def test_mistakes_and_help_are_left_to_the_full_parser(line: str) -> None:
    command, *tokens = line.split()
    app = import_module(COMMANDS[command][0]).app
    assert app.usual_call(tokens) is None
