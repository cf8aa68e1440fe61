"""Run the pages of README and docs as a reader would: ``python -m tests.docs.console PAGE ...``.

``--write`` replaces output in the page that differs from what was printed. Read the difference before you commit it.
"""

from __future__ import annotations

import argparse
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.console_output import matches
from tests.docs.console_page import Command, Interrupt, NotRun, Page, WrittenFile, parse_page
from tests.docs.console_session import PROJECT, Session
from tests.peers import HERE

__all__ = ["GENERATED", "Difference", "differences", "kafka_tools", "pages"]

GENERATED = {
    "docs/reference/cli.md": "tests/unit/cli/test_help.py",
}
"""Pages with examples from help texts, and the test that checks these examples."""

KAFKA_TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-delegation-tokens.sh": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-metadata-quorum.sh": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A command whose output is not that of the page."""

    step: Command | Interrupt
    printed: list[str]

    def __str__(self) -> str:
        command = f"$ {self.step.text}" if isinstance(self.step, Command) else "^C"
        place = f"line {self.step.start}" if self.step.end else "setup"
        page, printed = self._indented(self.step.expected), self._indented(self.printed)
        return "\n".join([f"{place}: {command}", "  the page:", *page, "  printed:", *printed])

    @staticmethod
    def _indented(lines: list[str] | tuple[str, ...]) -> list[str]:
        return [f"    {line}" for line in lines] or ["    (nothing)"]


def pages() -> Iterator[tuple[str, Page]]:
    """Yield each page of the README and docs that has commands to run, by its path in the repository."""
    found = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
    for path in found:
        name = str(path.relative_to(PROJECT))
        if name not in GENERATED and (page := parse_page(path.read_text())).steps:
            yield name, page


def kafka_tools(folder: Path) -> Path:
    """Write scripts with the names of Kafka's own into ``folder``, and return it."""
    folder.mkdir()
    for name, java_class in KAFKA_TOOLS.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{HERE / "kafka-run"}" ${{KAFKA_OPTS:+$KAFKA_OPTS --}} {java_class} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder


def differences(page: Page, folder: Path, *, tools: Path | None = None) -> Iterator[Difference]:
    """Run a page in ``folder``, and yield what it prints otherwise than the page says.

    Set-up commands must print no error; their other output is not compared.
    """
    with Session(folder, tools=tools) as session:
        for step in page.steps:
            match step:
                case WrittenFile(name, content):
                    session.write(name, content)
                case Command(text, expected):
                    printed = session.run(text)
                    if not step.is_setup and not matches(expected, printed, figures_vary=step.figures_vary):
                        yield Difference(step, printed)
                case Interrupt(expected):
                    printed = session.interrupt()
                    if not matches(expected, printed):
                        yield Difference(step, printed)
                case NotRun():
                    pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="replace output in the page that differs")
    options = parser.parse_args()
    count = 0
    for path in options.page:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "page"
            folder.mkdir()
            found = []
            for difference in differences(
                parse_page(path.read_text()), folder, tools=kafka_tools(Path(name) / "tools")
            ):
                print(f"{path}: {difference}", flush=True)
                found.append(difference)
        count += len(found)
        if options.write:
            lines = path.read_text().splitlines()
            for difference in reversed(found):
                lines[difference.step.start : difference.step.end] = difference.printed
            path.write_text("\n".join([*lines, ""]))
    print(f"{count} differences")
    return int(count > 0)


if __name__ == "__main__":
    raise SystemExit(main())
