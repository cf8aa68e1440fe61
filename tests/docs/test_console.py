"""Every command that README and docs print runs as printed, and prints what they say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.console import GENERATED, KAFKA_TOOLS, differences, kafka_tools, pages
from tests.docs.console_output import PAGE_FOLDER, matches
from tests.docs.console_page import Command, Interrupt, NotRun, Page, WrittenFile, parse_page
from tests.docs.console_session import PROJECT, Session, missing_for_sessions
from tests.peers import lacking, require_java, require_peer

PAGES = dict(pages())
PENDING: set[str] = set()
"""Pages whose commands do not run as printed yet."""


@pytest.fixture
def needs_sessions() -> None:
    """Skip the test where a session can't have a network of its own; in CI that is an error."""
    if missing := missing_for_sessions():
        lacking(missing)


def uses_kafka(page: Page) -> bool:
    return any(tool in command.text for command in page.commands for tool in KAFKA_TOOLS)


def parameters() -> Iterator[object]:
    for name, page in PAGES.items():
        if page.commands and name not in PENDING:
            marks = [pytest.mark.interop] + [pytest.mark.long] * (page.long is not None)
            yield pytest.param(name, marks=marks)


@pytest.mark.usefixtures("needs_sessions")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", list(parameters()))
def test_the_commands_of_a_page_print_what_it_shows(name: str, tmp_path: Path) -> None:
    page = PAGES[name]
    if page.long is not None:
        require_java()
    if uses_kafka(page):
        require_peer()
    folder = tmp_path / "page"
    folder.mkdir()
    found = list(differences(page, folder, tools=kafka_tools(tmp_path / "tools")))
    assert not found, "\n".join([f"{name} differs; see `python -m tests.docs.console --help`", *map(str, found)])


@pytest.mark.parametrize("name", PAGES)
def test_a_block_that_is_not_run_says_why_and_what_shows_it(name: str) -> None:
    for step in PAGES[name].steps:
        if isinstance(step, NotRun):
            named = [word.strip("`,;.()") for word in step.reason.split() if "/" in word]
            assert named or "make " in step.reason, f"{name}, line {step.line}: {step.reason}"
            assert all((PROJECT / path).exists() for path in named), f"{name}, line {step.line}: {step.reason}"


@pytest.mark.parametrize("name", GENERATED)
def test_the_examples_of_a_generated_page_have_a_test(name: str) -> None:
    assert (PROJECT / name).exists()
    assert (PROJECT / GENERATED[name]).exists()


# ---- reading a page ------------------------------------------------------------------------------------------------

PAGE = """
# Title

<!-- console: long: it starts Spark -->

<!-- console: setup
$ mkdir a
$ mkdir b
-->

```properties title="a.properties"
x=1
```

```console
$ barnabas node
ready
$ for i in 1 2; do
>   echo $i
> done
1
2
$ echo a \\
    b
^C
stopped
```

<!-- console: not run: it needs a week; tests/slow shows it -->

```console
$ sleep 604800
```

<!-- console: figures vary -->
```console
$ barnabas bench
7
```
"""


def test_a_page_is_commands_files_and_interrupts_in_its_order() -> None:
    page = parse_page(PAGE)
    assert page.long == "it starts Spark"
    assert page.steps == (
        Command("mkdir a", (), 0, 0, is_setup=True),
        Command("mkdir b", (), 0, 0, is_setup=True),
        WrittenFile("a.properties", "x=1\n"),
        Command("barnabas node", ("ready",), 16, 17),
        Command("for i in 1 2; do\n  echo $i\ndone", ("1", "2"), 20, 22),
        Command("echo a \\\n    b", (), 24, 24),
        Interrupt(("stopped",), 25, 26),
        NotRun("it needs a week; tests/slow shows it", 31),
        Command("barnabas bench", ("7",), 37, 38, figures_vary=True),
    )


@pytest.mark.parametrize(
    "text", ["<!-- console: later -->", "```console\noutput\n```", "```\n$ barnabas node\n```", "```sh\n$ ls\n```"]
)
def test_unknown_marks_outputs_without_a_command_and_commands_elsewhere_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        parse_page(text)


# ---- comparing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("2026-01-31 10:00:00,123 INFO ready in 0.25 s", "2027-02-01 11:30:59,999 INFO ready in 12.5 s"),
        ("cluster EB0gquMsMAuUUdEjX2c9WA", "cluster jny0pkVFsUNBfOGCJYfZeg"),
        ("a    b     c", "a  b  c"),
        ("one\n...\nfour", "one\ntwo\nthree\nfour"),
        ("one\n...\nfour", "one\nfour"),
        ("ready: ...; data", "ready: localhost; data"),
        (f"node  10523  {PAGE_FOLDER}/node.log", f"node  7  {PAGE_FOLDER}/node.log"),
        (
            "up: controller-1 is the active controller, in epoch 1\ncluster",
            "up: controller-3 is the active controller, in epoch 1\n"
            "up: controller-2 is the active controller, in epoch 2\ncluster",
        ),
    ],
)
def test_what_is_new_in_each_run_is_not_compared(expected: str, printed: str) -> None:
    assert matches(expected.splitlines(), printed.splitlines())


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("3 partitions", "4 partitions"),
        ("one\n...\nfour", "two\nfour"),
        ("localhost:9092", "localhost:9093"),
        ("", "something"),
        ("something", ""),
    ],
)
def test_everything_else_is_compared(expected: str, printed: str) -> None:
    assert not matches(expected.splitlines(), printed.splitlines())


def test_measurements_are_compared_without_their_figures() -> None:
    assert matches(["1,000  0.95 MiB  4.2"], ["300,000  286 KiB  17"], figures_vary=True)
    assert not matches(["1,000 records"], ["1,000 requests"], figures_vary=True)


# ---- the shell -----------------------------------------------------------------------------------------------------


@pytest.fixture
def session(needs_sessions: None, tmp_path: Path) -> Iterator[Session]:
    folder = tmp_path / "page"
    folder.mkdir()
    with Session(folder) as running:
        yield running


def test_a_session_keeps_variables_aliases_and_the_folder(session: Session) -> None:
    session.run("name=world; alias greet='echo hello'")
    assert session.run("greet $name; pwd; false") == ["hello world", PAGE_FOLDER]
    assert session.run("echo $?; echo wrong >&2") == ["0", "wrong"]


def test_a_session_has_a_network_of_its_own(session: Session) -> None:
    ports = "import socket; print(len(socket.if_nameindex()), socket.create_server(('localhost', 9092)).getsockname())"
    assert session.run(f'python -c "{ports}"') == ["1 ('127.0.0.1', 9092)"]


@pytest.mark.usefixtures("needs_sessions")
def test_the_end_of_a_session_ends_its_processes(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    with Session(tmp_path / "page") as running:
        running.run("sleep 604801 & sleep 0.2")
        assert len(sleeping()) == 1
    end = time.monotonic() + 10
    while sleeping() and time.monotonic() < end:
        time.sleep(0.01)
    assert sleeping() == []


def sleeping() -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if _read(path).startswith(b"sleep\x00604801")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
