"""``barnabas shell``: browse the metadata of a node's files or of running controllers like files, read-only.

Commands and messages are those of Kafka's metadata shell. Paths may contain patterns (``ls /image/t*``).
``--at-offset`` and ``--at-time`` show the metadata of an earlier point.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TextIO

from barnabas import __version__
from barnabas.cli.shell.arguments import ShellArguments, parse_arguments
from barnabas.cli.shell.metadata_tree import Directory, File, Node, metadata_tree
from barnabas.common.printable import printable
from barnabas.storage.errors import StorageError
from barnabas.storage.metadata_reader import read_metadata

__all__ = ["Shell", "main"]

PROMPT = ">> "
WELCOME = "[ barnabas metadata shell ]  help lists the commands"


def main(arguments: Sequence[str]) -> int:
    """Return 0 if all commands succeed, 1 if one fails or the metadata can't be read, 2 for invalid arguments."""
    parsed = parse_arguments(arguments)
    if parsed.controllers:
        return _look_at_controllers(parsed)
    try:
        found = read_metadata(parsed.path, parsed.moment)
    except (StorageError, OSError) as error:
        sys.stderr.write(f"barnabas shell: {error}\n")
        return 1
    if found.incomplete is not None:
        sys.stderr.write(f"barnabas shell: the rest is not shown: {found.incomplete}\n")
    shell = Shell(metadata_tree(found.image, version=__version__, show_secrets=parsed.show_secrets), sys.stdout)
    return _serve(shell, parsed.words, found.source, found.image.offset)


def _look_at_controllers(parsed: ShellArguments) -> int:
    from barnabas.cli.shell.running_controllers import CommittedMetadata
    from barnabas.clients.errors import ClientError

    try:
        with CommittedMetadata(parsed.controllers, parsed.command_config) as live:
            for warning in live.warnings:
                sys.stderr.write(f"barnabas shell: {warning}\n")

            def read() -> Directory:
                try:
                    return metadata_tree(live.read(), version=__version__, show_secrets=parsed.show_secrets)
                except ClientError as error:
                    raise Unreadable(str(error)) from error

            shell = Shell(read(), sys.stdout, read)
            return _serve(shell, parsed.words, live.source, live.offset)
    except (ClientError, Unreadable) as error:
        sys.stderr.write(f"barnabas shell: {error}\n")
        return 1


def _serve(shell: Shell, words: Sequence[str], source: str, offset: int) -> int:
    if words:
        return 0 if shell.run(words) else 1
    return _interact(shell, source, offset) if sys.stdin.isatty() else _run_lines(shell, sys.stdin)


def _run_lines(shell: Shell, lines: Iterable[str]) -> int:
    all_good = True
    for line in lines:
        all_good = shell.run_line(line) and all_good
        if shell.is_done:
            break
    return 0 if all_good else 1


def _interact(shell: Shell, source: str, offset: int) -> int:
    try:
        import readline
    except ImportError:  # Python can be built without readline.
        pass
    else:
        readline.set_completer_delims(" \t\n/")
        readline.set_completer(lambda text, state: shell.complete(readline.get_line_buffer(), text, state))
        readline.parse_and_bind("tab: complete")
    sys.stdout.write(f"{WELCOME}\n{source}, up to offset {offset}\n")
    while not shell.is_done:
        try:
            line = input(PROMPT)
        except EOFError:
            sys.stdout.write("\n")
            break
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            continue
        shell.run_line(line)
    return 0


class _CommandError(Exception):
    """An error of the user. The shell prints the message."""


class Unreadable(Exception):
    """The metadata can't be read now. The message is for the user."""


class Shell:
    """Executes commands, and keeps the current directory."""

    def __init__(self, root: Directory, out: TextIO, read_again: Callable[[], Directory] | None = None) -> None:
        """``read_again`` returns the metadata for the next command, or raises Unreadable. None: it never changes."""
        self.is_done = False
        self._read_again = read_again
        self._root = root
        self._out = out
        self._path: tuple[str, ...] = ()
        self._history: list[str] = []
        self._had_errors = False

    def run_line(self, line: str) -> bool:
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            return self._fail(f"can't read the line: {error}")
        if not words:
            return True
        self._history.append(line.strip())
        if self._read_again is not None:
            try:
                self._root = self._read_again()
            except Unreadable as error:
                return self._fail(str(error))
        return self.run(words)

    def run(self, words: Sequence[str]) -> bool:
        """Run one command. Return False after a complete or partial failure."""
        name, *arguments = words
        command = _COMMANDS.get(name)
        if command is None:
            return self._fail(f"{name}: no such command; the commands are {', '.join(_COMMANDS)}")
        action, most, _ = command
        if most is not None and len(arguments) > most:
            return self._fail(f"{name}: too many arguments: {' '.join(arguments[most:])}")
        self._had_errors = False
        try:
            action(self, arguments)
        except _CommandError as error:
            return self._fail(f"{name}: {error}")
        return not self._had_errors

    def complete(self, line: str, text: str, state: int) -> str | None:
        """Return the completion with this number of a partly typed command or path."""
        word = line.rsplit(" ", 1)[-1]
        if " " not in line.lstrip():
            matches = [name + " " for name in _COMMANDS if name.startswith(text)]
        else:
            try:
                node = self._node(self._absolute(word.rpartition("/")[0] + "/" if "/" in word else ""))
            except _CommandError:
                return None
            names = [name for name in node.names() if name.startswith(text)] if isinstance(node, Directory) else []
            matches = [name + ("/" if isinstance(self._child(node, name), Directory) else " ") for name in names]
        return matches[state] if state < len(matches) else None

    # --- commands

    def cat(self, arguments: Sequence[str]) -> None:
        self._need(arguments, "a path")
        for path, node in self._targets("cat", arguments, "No such file or directory."):
            if isinstance(node, Directory):
                self._error(f"cat: {path}: Is a directory")
            else:
                self._line(node.text)

    def cd(self, arguments: Sequence[str]) -> None:
        target = self._absolute(arguments[0] if arguments else "/")
        try:
            node = self._node(target)
        except _CommandError:
            raise _CommandError(f"{arguments[0]}: no such directory.") from None
        if isinstance(node, File):
            raise _CommandError(f"{arguments[0]}: not a directory.")
        self._path = target

    def pwd(self, arguments: Sequence[str]) -> None:
        self._line("/" + "/".join(self._path))

    def ls(self, arguments: Sequence[str]) -> None:
        targets = list(self._targets("ls", arguments or ["."], "no such file or directory."))
        files = [path for path, node in targets if isinstance(node, File)]
        directories = [(path, node) for path, node in targets if isinstance(node, Directory)]
        self._names(files)
        for index, (path, directory) in enumerate(directories):
            if len(targets) > 1:
                if index or files:
                    self._line("")
                self._line(f"{path}:")
            self._names(directory.names())

    def tree(self, arguments: Sequence[str]) -> None:
        for _, node in self._targets("tree", arguments or ["."], "no such file or directory."):
            self._tree(node, 0)

    def find(self, arguments: Sequence[str]) -> None:
        for path, node in self._targets("find", arguments or ["."], "no such file or directory."):
            self._find(path, node)

    def help(self, arguments: Sequence[str]) -> None:
        if arguments and arguments[0] not in _COMMANDS:
            raise _CommandError(f"{arguments[0]}: no such command")
        for name in arguments or _COMMANDS:
            self._line(f"{name:<8}  {_COMMANDS[name][2]}")

    def history(self, arguments: Sequence[str]) -> None:
        count = arguments[0] if arguments else str(len(self._history))
        if not (count.isascii() and count.isdigit()):
            raise _CommandError(f"{count} is not a number of commands")
        first = max(0, len(self._history) - int(count))
        for index, line in enumerate(self._history[first:], first):
            self._line(f"{index:5}  {line}")

    def exit(self, arguments: Sequence[str]) -> None:
        self.is_done = True

    # --- paths

    def _absolute(self, path: str) -> tuple[str, ...]:
        parts = [] if path.startswith("/") else list(self._path)
        for part in path.split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return tuple(parts)

    def _node(self, path: Sequence[str]) -> Node:
        node: Node | None = self._root
        for name in path:
            node = self._child(node, name)
            if node is None:
                raise _CommandError("/".join(path))
        return self._root if node is None else node

    @staticmethod
    def _child(node: Node | None, name: str) -> Node | None:
        return node.child(name) if isinstance(node, Directory) else None

    def _targets(self, command: str, paths: Sequence[str], missing: str) -> Iterator[tuple[str, Node]]:
        """Yield the nodes that match the paths, which may contain patterns. Report paths without a match."""
        for path in paths:
            try:
                yield path, self._node(self._absolute(path))
                continue
            except _CommandError:
                found = list(self._matches(path)) if any(c in path for c in "*?[") else []
            if not found:
                self._error(f"{command}: {path}: {missing}")
            yield from found

    def _matches(self, pattern: str) -> Iterator[tuple[str, Node]]:
        """Yield matching nodes with their names, which are relative to the start of the typed pattern."""
        start = "/" if pattern.startswith("/") else ""
        nodes: list[tuple[str, Node]] = [(start, self._root if start else self._node(self._path))]
        for part in filter(None, pattern.split("/")):
            found: list[tuple[str, Node]] = []
            for path, node in nodes:
                if not isinstance(node, Directory):
                    continue
                for name in node.names() if any(c in part for c in "*?[") else [part]:
                    child = node.child(name) if fnmatchcase(name, part) or name == part else None
                    if child is not None:
                        found.append((f"{path}{'' if path in ('', '/') else '/'}{name}", child))
            nodes = found
        yield from nodes

    # --- printing

    def _tree(self, node: Node, depth: int) -> None:
        if isinstance(node, File):
            self._line("  " * depth + node.text)
            return
        for name in node.names():
            child = node.child(name)
            if child is not None:
                self._line("  " * depth + f"{name}:")
                self._tree(child, depth + 1)

    def _find(self, path: str, node: Node) -> None:
        self._line(path)
        if isinstance(node, Directory):
            for name in node.names():
                child = node.child(name)
                if child is not None:
                    self._find(f"{path.rstrip('/')}/{name}", child)

    def _names(self, names: Sequence[str]) -> None:
        """Print one name per line, or on a terminal in columns."""
        if not self._out.isatty() or not names:
            for name in names:
                self._line(name)
            return
        shown = [printable(name) for name in names]
        width = max(map(len, shown)) + 2
        columns = max(1, shutil.get_terminal_size().columns // width)
        rows = -(-len(shown) // columns)
        for row in range(rows):
            self._line("".join(name.ljust(width) for name in shown[row::rows]).rstrip())

    def _line(self, text: str) -> None:
        self._out.write(printable(text) + "\n")

    def _error(self, text: str) -> None:
        self._had_errors = True
        self._out.flush()
        sys.stderr.write(printable(text) + "\n")

    def _fail(self, text: str) -> bool:
        self._error(text)
        return False

    @staticmethod
    def _need(arguments: Sequence[str], what: str) -> None:
        if not arguments:
            raise _CommandError(f"needs {what}")


_COMMANDS: dict[str, tuple[Callable[[Shell, Sequence[str]], None], int | None, str]] = {
    "cat": (Shell.cat, None, "cat PATH ...: print the content of files"),
    "cd": (Shell.cd, 1, "cd [PATH]: go to a directory"),
    "exit": (Shell.exit, 0, "leave the shell; so does Ctrl-D"),
    "find": (Shell.find, None, "find [PATH ...]: list everything below"),
    "help": (Shell.help, 1, "help [COMMAND]: print this help"),
    "history": (Shell.history, 1, "history [N]: print the commands so far, or the last N"),
    "ls": (Shell.ls, None, "ls [PATH ...]: list directories"),
    "man": (Shell.help, 1, "man [COMMAND]: the same as help"),
    "pwd": (Shell.pwd, 0, "print the current directory"),
    "quit": (Shell.exit, 0, "the same as exit"),
    "tree": (Shell.tree, None, "tree [PATH ...]: print everything below, with the content of files"),
}
