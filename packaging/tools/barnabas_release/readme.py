"""README.md as a package index shows it, outside the repository.

A relative link becomes the address of the file, if the project has such addresses. Otherwise its text stays and the
link is omitted, because it would lead to a page of the index. A picture without an address is omitted with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from barnabas_release.addresses import Addresses

__all__ = ["broken_links", "for_an_index"]

_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_EMPTY_LINE = "\0"


def for_an_index(text: str, addresses: Addresses, version: str) -> str:
    """Return the text with absolute links only. Links to a heading of the same page stay."""

    def replaced(match: re.Match[str]) -> str:
        target = match["target"]
        if not _is_relative(target):
            return match[0]
        path, _, anchor = target.partition("#")
        address = (addresses.bytes_of if match["picture"] else addresses.page_of)(path, version)
        if address:
            return f"{match['picture']}[{match['text']}]({address}{'#' + anchor if anchor else ''})"
        return _EMPTY_LINE if match["picture"] else match["text"]

    parts = [part if is_code else _LINK.sub(replaced, part) for part, is_code in _parts(text)]
    return re.sub(rf"^{_EMPTY_LINE}\n\n?", "", "".join(parts), flags=re.MULTILINE).replace(_EMPTY_LINE, "")


def broken_links(text: str, root: Path) -> list[str]:
    """Return the relative links whose file is not in the repository at ``root``."""
    found = [match["target"] for part, is_code in _parts(text) if not is_code for match in _LINK.finditer(part)]
    return [target for target in found if _is_relative(target) and not (root / target.partition("#")[0]).exists()]


def _is_relative(target: str) -> bool:
    return not target.startswith(("#", "mailto:")) and "://" not in target


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, each with whether it is a block of code."""
    end = 0
    for fence in _FENCE.finditer(text):
        yield text[end : fence.start()], False
        yield fence[0], True
        end = fence.end()
    yield text[end:], False
