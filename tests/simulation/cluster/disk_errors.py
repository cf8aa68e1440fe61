"""Disk errors: system calls of the storage code on the files of a node fail.

In runs with such errors, each call of ``os``, ``open`` and ``mmap`` in the product's storage modules passes through
this module. A plan arms a disk: after a number of calls, calls of a kind fail, once or until the fault ends. A full
disk first accepts a part of a write. A later sync does not make the data of a failed sync durable.

The process must stop or refuse to start with an error that names the path. A broker with another log directory may
instead disable the failed directory and continue. An error in any other form is a violation.
"""

from __future__ import annotations

import builtins
import errno
import mmap
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from barnabas import storage
from barnabas.server.start_errors import NodeStartError
from barnabas.storage.errors import StorageError

__all__ = ["ERROR_KINDS", "SCOPES", "Armed", "DiskErrors", "install_disk_errors"]

SCOPES = ("metadata", "data", "data", "any")
ERROR_KINDS = ("read", "write", "sync", "name", "any", "full")
_KINDS = {
    "read": ("open to read", "read", "pread", "scandir", "listdir", "stat", "fstat", "exists", "mmap"),
    "write": (
        "open to write", "write", "pwrite", "pwritev", "sendfile", "truncate", "ftruncate", "mkdir", "makedirs",
        "link", "utime", "fchmod",
    ),
    "sync": ("fsync", "fdatasync"),
    "name": ("rename", "unlink", "rmdir"),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_SERVER_MODULES = ("quorum.raft_recovery", "quorum.raft_driver", "metadata_log.snapshots")


@dataclass(slots=True)
class Armed:
    scope: str
    kind: str
    skips: int
    """The number of matching calls that still succeed."""
    left: int
    """The number of calls that fail after them."""

    def fits(self, operation: str, path: str, folder: str) -> bool:
        is_data = path.startswith(f"{folder}/data/")
        if self.scope != "any" and is_data != (self.scope != "metadata"):
            return False
        if self.scope.startswith("data ") and not f"{path}/".startswith(f"{folder}/data/{self.scope[5:]}/"):
            return False
        kind = _KIND_OF[operation]
        return self.kind in ("any", kind) or (self.kind == "full" and kind == "write")


class DiskErrors:
    """The disk errors of one node. ``on_error`` receives the module, operation and path of each failed call."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.armed: Armed | None = None
        self._is_watched = False
        self.met: list[str] = []
        """The calls that failed in this life of the process."""
        self.on_error: Callable[[str, str, str], None] = lambda module, operation, path: None

    def explains(self, fault: BaseException | None) -> bool:
        """Return whether the fault is the correct reaction to a disk error: of the right class, and naming the path."""
        if not self.met or not isinstance(fault, OSError | StorageError | NodeStartError):
            return False
        return self.folder in str(fault)

    def begins_life(self) -> None:
        self.met.clear()

    def heal(self) -> None:
        self.armed = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Let all calls succeed while a check reads files."""
        self._is_watched = True
        try:
            yield
        finally:
            self._is_watched = False

    def problem(self, module: str, operation: str, path: str) -> OSError | None:
        """Return the error with which this call fails, if any."""
        armed = self.armed
        if self._is_watched or armed is None or not armed.left or not armed.fits(operation, path, self.folder):
            return None
        if armed.skips:
            armed.skips -= 1
            return None
        armed.left -= 1
        self.met.append(f"{operation} {path}")
        self.on_error(module, operation, path)
        number = errno.ENOSPC if armed.kind == "full" else errno.EIO
        return OSError(number, os.strerror(number))


class _Disks:
    """The disk errors of all nodes of a run."""

    def __init__(self, disks: Sequence[DiskErrors]) -> None:
        self._disks = disks

    @property
    def is_quiet(self) -> bool:
        return all(disk.armed is None for disk in self._disks)

    def of(self, path: str) -> DiskErrors | None:
        return next((disk for disk in self._disks if f"{path}/".startswith(f"{disk.folder}/")), None)

    def problem(self, module: str, operation: str, path: object) -> OSError | None:
        if self.is_quiet:
            return None
        text = _path_of_descriptor(path) if isinstance(path, int) else os.fspath(path)  # type: ignore[call-overload]
        disk = self.of(text)
        if disk is None:
            return None
        error = disk.problem(module, operation, text)
        if error is not None and not isinstance(path, int):
            error.filename = text
        return error

    def check(self, module: str, operation: str, path: object) -> None:
        error = self.problem(module, operation, path)
        if error is not None:
            raise error


def _path_of_descriptor(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")


class _Path:
    """``os.path``: on an error the predicates return False, as in Python; ``getsize`` raises."""

    def __init__(self, disks: _Disks, module: str) -> None:
        self._disks, self._module = disks, module

    def __getattr__(self, name: str) -> Any:
        return getattr(os.path, name)

    def _look(self, name: str, path: str) -> bool:
        return self._disks.problem(self._module, "exists", path) is None and bool(getattr(os.path, name)(path))

    def exists(self, path: str) -> bool:
        return self._look("exists", path)

    def lexists(self, path: str) -> bool:
        return self._look("lexists", path)

    def isdir(self, path: str) -> bool:
        return self._look("isdir", path)

    def isfile(self, path: str) -> bool:
        return self._look("isfile", path)

    def getsize(self, path: str) -> int:
        self._disks.check(self._module, "stat", path)
        return os.path.getsize(path)


class _Os:
    """``os`` as one module of the product sees it."""

    def __init__(self, disks: _Disks, module: str) -> None:
        self._disks, self._module = disks, module
        self.path = _Path(disks, module)

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in _KIND_OF:
            return real

        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            self._disks.check(self._module, name, path)
            return real(path, *arguments, **options)

        setattr(self, name, call)
        return call

    def open(self, path: str, flags: int, *arguments: Any) -> int:
        does_write = flags & (os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._disks.check(self._module, "open to write" if does_write else "open to read", path)
        return os.open(path, flags, *arguments)

    def write(self, descriptor: int, data: Any) -> int:
        return self._written("write", descriptor, len(data), lambda count: os.write(descriptor, data[:count]))

    def pwrite(self, descriptor: int, data: Any, position: int) -> int:
        return self._written(
            "pwrite", descriptor, len(data), lambda count: os.pwrite(descriptor, data[:count], position)
        )

    def pwritev(self, descriptor: int, buffers: Iterable[Any], position: int) -> int:
        pieces = list(buffers)
        size = sum(len(piece) for piece in pieces)
        if self._disks.is_quiet:
            return os.pwritev(descriptor, pieces, position)
        whole = b"".join(pieces)
        return self._written("pwritev", descriptor, size, lambda count: os.pwrite(descriptor, whole[:count], position))

    def _written(self, operation: str, descriptor: int, size: int, write: Callable[[int], int]) -> int:
        error = self._disks.problem(self._module, operation, descriptor)
        if error is None:
            return write(size)
        if error.errno == errno.ENOSPC and size > 1 and self._disks.of(_path_of_descriptor(descriptor)):
            disk = self._disks.of(_path_of_descriptor(descriptor))
            # The first write to a full disk writes only a part.
            if disk is not None and len(disk.met) % 2:
                return write(size // 2)
        raise error


class _Mmap:
    def __init__(self, disks: _Disks, module: str) -> None:
        self._disks, self._module = disks, module

    def __getattr__(self, name: str) -> Any:
        return getattr(mmap, name)

    def mmap(self, descriptor: int, *arguments: Any, **options: Any) -> mmap.mmap:
        self._disks.check(self._module, "mmap", descriptor)
        return mmap.mmap(descriptor, *arguments, **options)


class _File:
    """A file opened with ``open``, whose reads may fail."""

    def __init__(self, file: Any, check: Callable[[], None]) -> None:
        self._file, self._check = file, check

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, *arguments: Any) -> Any:
        self._check()
        return self._file.read(*arguments)


def install_disk_errors(disks: Sequence[DiskErrors]) -> Callable[[], None]:
    """Install these errors between the product's storage code and the system; return a function to undo it."""
    known = _Disks(disks)
    undoing: list[Callable[[], None]] = []
    for module in _storage_modules():
        name = module.__name__.rpartition(".")[2]
        for attribute, replacement in (("os", _Os(known, name)), ("mmap", _Mmap(known, name))):
            real = module.__dict__.get(attribute)
            if real is not None:
                setattr(module, attribute, replacement)
                undoing.append(lambda module=module, attribute=attribute, real=real: setattr(module, attribute, real))  # type: ignore[misc]
        module.__dict__["open"] = _opener(known, name)
        undoing.append(lambda module=module: module.__dict__.pop("open"))  # type: ignore[misc]

    def undo() -> None:
        for step in undoing:
            step()

    return undo


def _opener(disks: _Disks, module: str) -> Callable[..., Any]:
    def opened(path: str, *arguments: Any, **options: Any) -> Any:
        disks.check(module, "open to read", path)
        file = builtins.open(path, *arguments, **options)  # noqa: SIM115
        return file if disks.is_quiet else _File(file, lambda: disks.check(module, "read", path))

    return opened


def _storage_modules() -> list[ModuleType]:
    """Return all storage modules, loaded or not: a run must not depend on what the process ran before."""
    names = [f"barnabas.storage.{module.name}" for module in pkgutil.iter_modules(storage.__path__)]
    names += [f"barnabas.server.{name}" for name in _SERVER_MODULES]
    return [import_module(name) for name in names]
