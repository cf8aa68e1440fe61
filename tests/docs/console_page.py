"""What a page asks a reader to do: commands with their printed output, and files, in the order of the page.

- A block ``console``: a line that begins with ``$ `` is a command, which continues on lines that begin with ``> `` or
  follow a backslash. The lines after it are its output. A line ``^C`` is the reader's Ctrl-C.
- A block of any other language with ``title="NAME"`` is a file with that name.
- ``<!-- console: not run: REASON -->`` before a block: the test omits it. REASON says why, and names the test or
  command that shows the same.
- ``<!-- console: figures vary -->`` before a block: its numbers are measurements and are not compared.
- ``<!-- console: setup`` with commands until ``-->``: steps that the page's text describes instead of printing.
- ``<!-- console: long: REASON -->`` anywhere: only ``make slow`` runs the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Command", "Interrupt", "NotRun", "Page", "Step", "WrittenFile", "parse_page"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command and the output that the page prints: ``lines`` of the page, counted from 0, ``end`` exclusive."""

    text: str
    expected: tuple[str, ...]
    start: int
    end: int
    figures_vary: bool = False
    is_setup: bool = False


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The reader presses Ctrl-C: ``expected`` is what the interrupted program prints then."""

    expected: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WrittenFile:
    name: str
    content: str


@dataclass(frozen=True, slots=True)
class NotRun:
    """A block that the test omits; ``line`` is that of the block."""

    reason: str
    line: int


Step = Command | Interrupt | WrittenFile | NotRun


@dataclass(frozen=True, slots=True)
class Page:
    steps: tuple[Step, ...]
    long: str | None
    """Why only ``make slow`` runs the page."""

    @property
    def commands(self) -> tuple[Command, ...]:
        return tuple(step for step in self.steps if isinstance(step, Command))


_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<info>.*)$")
_TITLE = re.compile(r'title="(?P<name>[^"]+)"')
_MARK = re.compile(r"^<!-- console: (?P<mark>.*?) *(?P<closed>-->)?$")


def parse_page(text: str) -> Page:
    """Return the steps of a page. Raise ValueError, with the line, for unknown marks and commands in other blocks."""
    lines = text.splitlines()
    steps: list[Step] = []
    long: str | None = None
    mark = ""
    index = 0
    while index < len(lines):
        line = lines[index]
        if marked := _MARK.match(line):
            mark, index = _read_mark(lines, index, marked)
            if mark.startswith("long: "):
                long, mark = mark.removeprefix("long: "), ""
            elif mark.startswith("setup\n"):
                steps += _setup(mark)
                mark = ""
            elif not mark.startswith("not run: ") and mark != "figures vary":
                raise ValueError(f"line {index}: {mark!r} is not a mark of a console block; see {__name__}")
        elif fence := _FENCE.match(line):
            end = next(
                (number for number in range(index + 1, len(lines)) if lines[number].strip() == "```"), len(lines)
            )
            steps += _block(lines, index, end, fence, mark)
            mark, index = "", end + 1
        else:
            if line.strip():
                mark = ""
            index += 1
    return Page(tuple(steps), long)


def _read_mark(lines: Sequence[str], index: int, marked: re.Match[str]) -> tuple[str, int]:
    """Return the comment's text and the index of the line after it."""
    if marked["closed"]:
        return marked["mark"], index + 1
    content = [marked["mark"]]
    while not lines[index + 1].endswith("-->"):
        index += 1
        content.append(lines[index])
    rest = lines[index + 1].removesuffix("-->").rstrip()
    separator = "\n" if marked["mark"] == "setup" else " "
    return separator.join([*content, *([rest] if rest else [])]).rstrip(), index + 2


def _setup(mark: str) -> Iterator[Step]:
    for line in mark.splitlines()[1:]:
        yield Command(line.removeprefix("$ "), (), 0, 0, is_setup=True)


def _block(lines: Sequence[str], start: int, end: int, fence: re.Match[str], mark: str) -> Iterator[Step]:
    indent = len(fence["indent"])
    content = [line[indent:] for line in lines[start + 1 : end]]
    if fence["language"] == "console":
        if mark.startswith("not run: "):
            yield NotRun(mark.removeprefix("not run: "), start + 1)
        else:
            yield from _commands(content, start + 1, figures_vary=mark == "figures vary")
    elif any(line.startswith("$ ") for line in content):
        raise ValueError(f"line {start + 1}: a block with commands begins with ```console")
    elif title := _TITLE.search(fence["info"]):
        yield WrittenFile(title["name"], "\n".join([*content, ""]))


def _commands(content: Sequence[str], first: int, *, figures_vary: bool) -> Iterator[Step]:
    index = 0
    while index < len(content):
        start = index
        line = content[index]
        index += 1
        if line.startswith("$ "):
            text = [line.removeprefix("$ ")]
            while index < len(content) and (text[-1].endswith("\\") or content[index].startswith("> ")):
                text.append(content[index].removeprefix("> "))
                index += 1
        elif line == "^C":
            text = []
        else:
            raise ValueError(f"line {first + index}: output before the first command: {line!r}")
        output = index
        while index < len(content) and not content[index].startswith("$ ") and content[index] != "^C":
            index += 1
        expected = tuple(content[output:index])
        if text:
            yield Command("\n".join(text), expected, first + output, first + index, figures_vary)
        else:
            yield Interrupt(expected, first + output, first + index)
        assert index > start
