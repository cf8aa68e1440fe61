"""The result of a command: tables for people, or a JSON or YAML document for programs.

Errors are printed to standard error, with advice, and are in the document as ``errors``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.cli.output.exit_status import DONE, FAILED
from barnabas.cli.output.table import Sheet, show
from barnabas.common.printable import printable

__all__ = ["Answer", "Change", "Problem", "as_json", "as_yaml", "change_answer"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A failure. ``code`` is Kafka's name of the error, if the cluster returned it."""

    text: str
    item: str = ""
    code: str = ""
    advice: str = ""

    def lines(self) -> list[str]:
        about = f"{self.item}: " if self.item else ""
        code = f" ({self.code})" if self.code and self.code not in self.text else ""
        lines = [f"{about}{self.text}{code}"]
        return [*lines, f"  next: {self.advice}"] if self.advice else lines

    def document(self) -> dict[str, str]:
        parts = {"item": self.item, "code": self.code, "message": self.text, "advice": self.advice}
        return {key: value for key, value in parts.items() if value}


@dataclass(slots=True)
class Answer:
    """The result of a command. ``document`` is for programs; ``sheets`` and ``notes`` show the same to people."""

    document: dict[str, Any]
    sheets: Sequence[Sheet] = ()
    notes: Sequence[str] = ()
    problems: Sequence[Problem] = ()
    text: str = ""
    """Text to print unchanged instead of ``sheets``, for people and files."""
    status: int = DONE
    """The exit status if no problem occurred."""
    late: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    """Expensive parts of the document. They are computed when it is printed, and replace its placeholders."""

    def give(self, command: str, output: str) -> int:
        """Print the result, and return the exit status."""
        if output == "table":
            sys.stdout.write(self.text)
            for index, sheet in enumerate(self.sheets):
                if index:
                    sys.stdout.write("\n")
                show(sheet)
        elif output == "markdown":
            from barnabas.cli.output.markdown import markdown_of

            sys.stdout.write(markdown_of(self.sheets, self.notes, [problem.lines()[0] for problem in self.problems]))
        else:
            document = self.document | {name: make() for name, make in self.late.items()}
            document |= {"errors": [problem.document() for problem in self.problems]}
            sys.stdout.write(as_json(document) if output == "json" else as_yaml(document))
        sys.stdout.flush()
        for note in self.notes if output != "markdown" else ():
            sys.stderr.write(f"note: {printable(note)}\n")
        for problem in self.problems:
            first, *rest = problem.lines()
            sys.stderr.write(f"{command}: {printable(first)}\n")
            sys.stderr.writelines(f"{printable(line)}\n" for line in rest)
        return FAILED if self.problems else self.status


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was or would be made. ``done`` is a participle (created); the document contains ``more``."""

    kind: str
    name: str
    done: str
    details: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


def change_answer(
    changes: Sequence[Change], problems: Sequence[Problem] = (), *, dry_run: bool, notes: Sequence[str] = ()
) -> Answer:
    """Return the result for changes, with the same wording for all commands and for dry runs."""
    sheet = Sheet()
    for change in changes:
        details = f" ({change.details})" if change.details else ""
        sheet.add(f"{change.kind} {change.name}".rstrip(), f"{'would be ' if dry_run else ''}{change.done}{details}")
    document = {
        "dry_run": dry_run,
        "changes": [
            {change.kind.replace(" ", "_"): change.name, "change": change.done, **change.more} for change in changes
        ],
    }
    all_notes = list(notes)
    if dry_run:
        all_notes.append("nothing was changed")
    return Answer(document, [sheet] if changes else [], all_notes, problems)


def as_json(document: Mapping[str, object]) -> str:
    import json

    return json.dumps(document, indent=2) + "\n"


def as_yaml(document: Mapping[str, object]) -> str:
    import yaml

    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
