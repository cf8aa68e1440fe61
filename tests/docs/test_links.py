"""Every link and file name in the documents resolves."""

from __future__ import annotations

import re

from tests.docs.tracked import PROJECT, markdown_files

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
OUR_PATH = re.compile(r"`((?:src/barnabas|tests|docs|bench|requirements|examples)/[^`<>* ]*)`")


def anchors_of(text: str) -> set[str]:
    """Return the anchors that a browser derives from the headings."""
    headings = re.findall(r"^#+ +(.*)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_link_inside_the_repository_resolves() -> None:
    broken = []
    for path, text in markdown_files():
        for match in LINK.finditer(CODE_BLOCK.sub("", text)):
            target = match.group(1) or match.group(2)
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            file = (PROJECT / path).parent / name if name else PROJECT / path
            if not file.exists() or (anchor and anchor not in anchors_of(file.read_text())):
                broken.append(f"{path}: {target}")
    assert broken == []


def test_every_file_that_a_document_names_exists() -> None:
    named = {(path, match) for path, text in markdown_files() for match in OUR_PATH.findall(text)}
    missing = [f"{path}: {name}" for path, name in sorted(named) if not (PROJECT / name.split("::")[0]).exists()]
    assert missing == []


def test_every_page_of_docs_can_be_reached_from_an_index() -> None:
    linked = set()
    for path, text in markdown_files():
        for match in LINK.finditer(text):
            name = (match.group(1) or match.group(2)).partition("#")[0]
            if name and "://" not in name:
                linked.add(((PROJECT / path).parent / name).resolve())
    pages = {PROJECT / path for path, _ in markdown_files() if path.parts[0] == "docs"}
    assert sorted(str(page.relative_to(PROJECT)) for page in pages - linked) == []
