"""What happens to a file."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["FAULTS", "damage"]

Fault = Callable[[bytes, bytes], bytes]


def _flip(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :] if content else content


def _garbage(content: bytes, other: bytes) -> bytes:
    return random.Random(len(content)).randbytes(max(len(content), 16))


FAULTS: Mapping[str, Fault | None] = {
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


def damage(path: Path, fault: str, other: Path | None) -> bool:
    """Do it; False where the fault changes nothing, as a flipped bit in an empty file."""
    change = FAULTS[fault]
    if change is None:
        path.unlink()
        return True
    before = path.read_bytes()
    after = change(before, other.read_bytes() if other is not None and other.exists() else b"of nobody\n")
    path.write_bytes(after)
    return after != before
