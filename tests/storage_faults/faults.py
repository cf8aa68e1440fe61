"""Faults: changes of a file, and changes of the environment of a node that needs the file."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.storage_faults.no_space import NoSpace

__all__ = ["ALL_FAULTS", "FAULTS", "SURROUNDINGS", "damage", "surroundings"]

Change = Callable[[bytes, bytes], bytes]


def _flip(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :] if content else content


def _garbage(content: bytes, other: bytes) -> bytes:
    return random.Random(len(content)).randbytes(max(len(content), 16))


FAULTS: Mapping[str, Change | None] = {
    "missing": None,
    "empty": lambda content, other: b"",
    "zeros": lambda content, other: bytes(len(content)),
    "flip at start": lambda content, other: _flip(content, 0),
    "flip in middle": lambda content, other: _flip(content, len(content) // 2),
    "flip at end": lambda content, other: _flip(content, max(len(content) - 1, 0)),
    "truncated": lambda content, other: content[: len(content) // 2],
    "garbage": _garbage,
    "other node's": lambda content, other: other,
}
"""Changes of the content. They are applied while the node is stopped, and stay."""

NO_PERMISSION, READ_ONLY, NO_SPACE = "wrong permissions", "read-only directory", "no space"
SURROUNDINGS = (NO_PERMISSION, READ_ONLY, NO_SPACE)
"""Faults that end: afterwards all data acknowledged before or meanwhile must exist again."""

ALL_FAULTS = (*FAULTS, *SURROUNDINGS)


def damage(path: Path, fault: str, other: Path | None) -> bool:
    """Change the content. Return False if the fault changes nothing, such as a flipped bit in an empty file."""
    change = FAULTS[fault]
    if change is None:
        path.unlink()
        return True
    if fault == "other node's" and (other is None or not other.exists()):
        return False
    before = path.read_bytes()
    after = change(before, other.read_bytes() if other is not None and other.exists() else b"")
    path.write_bytes(after)
    return after != before


@contextmanager
def surroundings(path: Path, fault: str, no_space: NoSpace | None) -> Iterator[bool]:
    """Cause the fault for the duration of a ``with`` block. Yield False if this machine can't cause it."""
    if fault == NO_SPACE:
        if no_space is None:
            yield False
            return
        no_space.refuse(f"{path.parent}/", path.suffix if path.name[0].isdigit() else path.name)
        try:
            yield True
        finally:
            no_space.refuse_nothing()
        return
    modes = {path: 0} if fault == NO_PERMISSION else {path: 0o444, path.parent: 0o555}
    before = {changed: stat.S_IMODE(changed.stat().st_mode) for changed in modes}
    for changed, mode in modes.items():
        changed.chmod(mode)
    try:
        yield True
    finally:
        for changed, mode in before.items():
            if changed.exists():
                changed.chmod(mode)
        if not path.parent.exists():  # The node renamed the directory; its files must at least be removable.
            for renamed in path.parent.parent.glob(f"{path.parent.name}*"):
                renamed.chmod(0o750)


def can_refuse() -> bool:
    """Return whether permissions can be denied to a node that this process starts."""
    return os.geteuid() != 0 or shutil.which("setpriv") is not None


def without_override() -> list[str]:
    """Return the command prefix that makes permissions apply to root too."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return []
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"]
