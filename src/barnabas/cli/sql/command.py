"""``barnabas sql``: statements from the command line, a file, the standard input, or a prompt."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import UsageError, running_command
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.arguments.standard_input import STANDARD_INPUT, read_file
from barnabas.cli.output.exit_status import DONE, FAILED
from barnabas.cli.sql.cluster_topics import ClusterTopics
from barnabas.cli.sql.interruption import exit_at_signals
from barnabas.cli.sql.options import SqlOptions
from barnabas.cli.sql.pipelines import Pipelines
from barnabas.cli.sql.prompt import Prompt, history_file
from barnabas.cli.sql.queries import Queries
from barnabas.cli.sql.results import Result, print_result
from barnabas.cli.sql.script import Statement, parse_script
from barnabas.cli.sql.shell import Shell
from barnabas.cli.sql.shell_settings import ShellSettings
from barnabas.cli.sql.statement_errors import StatementError, pointed_lines
from barnabas.common.printable import printable

__all__ = ["app", "main"]

app = cluster_app("sql", "Query topics with SQL, and manage the pipelines of Connect workers.")
main = main_of(app)

WELCOME = "SQL over topics and pipelines. A statement ends with a semicolon; HELP lists them, EXIT or Ctrl-D leaves.\n"


@app.default
def sql(
    *,
    execute: Annotated[list[str] | None, Parameter(name=["--execute", "-e"])] = None,
    file: Annotated[str | None, Parameter(name=["--file", "-f"])] = None,
    set_: Annotated[list[str] | None, Parameter(name=["--set"])] = None,
    options: SqlOptions | None = None,
) -> int:
    """Query topics with SQL, and manage pipelines. Without a statement, a prompt reads them; HELP lists them.

    SELECT starts a Spark on this machine, which takes some seconds. It reads the records that a topic has when the
    statement begins; LIMIT ends it early. SET start and SET end choose other records: earliest, latest, a time (-1h,
    2026-01-31T12:30:00), 'offset 42', '0:42, 1:17' (offsets by partition), or 'last 100' of each partition. All other
    statements need no Spark.

    The values of a topic are text in the column value, unless CREATE TEMPORARY VIEW ... USING topic declares their
    format. Each record also has the columns _topic, _partition, _offset, _timestamp, _key and _headers.

    CREATE PIPELINE, ALTER PIPELINE and DROP PIPELINE change connectors of the class SqlPipeline on a worker.

    For example:

        barnabas sql
        barnabas sql -e 'SHOW TOPICS'
        barnabas sql -e 'SELECT _key, value FROM orders LIMIT 10'
        barnabas sql --set start=-1h -e 'SELECT count(*) FROM orders' --output json
        barnabas sql -f pipelines.sql --worker http://connect-1:8083

    Parameters
    ----------
    execute
        Statements to run, separated by semicolons. May be repeated. They stop at the first error.
    file
        A file of statements; - is the standard input.
    set_
        A setting as name=value, as SET has it. May be repeated.
    """
    options = options or SqlOptions()
    if execute and file is not None:
        raise UsageError("--execute and --file can't be used together")
    session = _Session(options, _settings(set_, options.output))
    with exit_at_signals():
        try:
            if execute:
                return session.run_script(";\n".join(execute))
            if file is not None:
                return session.run_script(_read(file))
            if sys.stdin.isatty():
                return session.interact()
            return session.run_script(_read(STANDARD_INPUT))
        finally:
            session.close()


def _settings(given: Sequence[str] | None, output: str) -> ShellSettings:
    settings = ShellSettings()
    try:
        settings.set("output", output)
        for text in given or ():
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"{text}: write a setting as name=value")
            settings.set(name.strip(), value.strip())
    except ValueError as error:
        raise UsageError(f"--set: {error}") from error
    return settings


def _read(file: str) -> str:
    try:
        return read_file(file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--file: can't read {file}: {getattr(error, 'strerror', None) or error}") from error


class _Session:
    """One shell with its output."""

    def __init__(self, options: SqlOptions, settings: ShellSettings) -> None:
        cluster = options.cluster()
        for warning in cluster.warnings:
            _note(warning)
        topics = ClusterTopics(cluster)
        self._settings = settings
        self._topics = topics
        self._queries = Queries(topics, options.client_properties(), settings, _say)
        self._shell = Shell(topics, Pipelines(options), self._queries, settings, _note)

    def run_script(self, text: str) -> int:
        """Run statements up to the first error."""
        script = parse_script(text)
        if script.unclosed is not None:
            _report([str(script.unclosed), *pointed_lines(text, script.unclosed.start)])
            return FAILED
        for statement in [*script.statements, *([script.rest] if script.rest is not None else [])]:
            if not self._run(statement):
                return FAILED
            if self._shell.is_done:
                break
        return DONE

    def interact(self) -> int:
        sys.stdout.write(WELCOME)
        threading.Thread(target=self._list_topics, name="sql-topics", daemon=True).start()
        prompt = Prompt(lambda: self._shell.known_names, history=history_file(os.environ))
        try:
            while not self._shell.is_done and (statements := prompt.statements()) is not None:
                for statement in statements:
                    if not self._run_at_prompt(statement):
                        break
        finally:
            prompt.close()
        return DONE

    def close(self) -> None:
        self._queries.close()

    def _run(self, statement: Statement) -> bool:
        """Run a statement, and print its result or its error. Return whether it succeeded."""
        try:
            self._shell.run(statement, self._give)
        except StatementError as error:
            _report(error.lines(statement.text))
            return False
        return True

    def _run_at_prompt(self, statement: Statement) -> bool:
        """The same, but Ctrl-C only cancels the statement, and wrong options of the worker don't end the prompt."""
        try:
            return self._run(statement)
        except UsageError as error:
            _report([str(error)])
        except KeyboardInterrupt:
            sys.stderr.write("cancelled\n")
        return False

    def _give(self, result: Result) -> None:
        output = self._settings["output"]
        notes = print_result(result, output, sys.stdout, rows_max=self._settings.rows)
        if result.done:
            (sys.stdout if output == "table" else sys.stderr).write(f"{printable(result.done)}\n")
        sys.stdout.flush()
        for note in [*result.notes, *notes]:
            _note(note)

    def _list_topics(self) -> None:
        """List the topics for Tab, which must not wait for the cluster."""
        with suppress(StatementError):
            self._topics.listing()


def _note(text: str) -> None:
    sys.stderr.write(f"note: {printable(text)}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def _report(lines: Sequence[str]) -> None:
    sys.stdout.flush()
    first, *others = "\n".join(lines).split("\n")
    sys.stderr.write(
        "".join(f"{line}\n" for line in [f"{running_command.get()}: {printable(first)}", *map(printable, others)])
    )
