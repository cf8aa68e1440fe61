"""Paths of URLs: their decoded segments, and the variable parts of a template such as ``/connectors/{name}``."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

__all__ = ["path_parameters", "path_segments"]


def path_segments(raw_path: str) -> list[str]:
    """Return the parts of a path, decoded one by one, so that a name may contain a slash. Raise ValueError."""
    trimmed = raw_path.removeprefix("/").removesuffix("/")
    return [unquote(segment, errors="strict") for segment in trimmed.split("/")] if trimmed else []


def path_parameters(template: str, segments: Sequence[str]) -> dict[str, str] | None:
    """Return the variable parts of a path, by their names; None if it does not have the form of the template."""
    parts = template.strip("/").split("/") if template != "/" else []
    if len(parts) != len(segments):
        return None
    found: dict[str, str] = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            found[part[1:-1]] = segment
        elif part != segment:
            return None
    return found
