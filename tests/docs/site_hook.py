"""The pages of the site that are outside ``docs``, and the links between both: a hook of mkdocs (``mkdocs.yml``).

In the repository a page links files as GitHub shows them. The site has the pages of ``docs`` and those of
``ROOT_PAGES``. So a link to another file of the repository, as to a source or a test, becomes its path in the text. A
link to a file that does not exist stays, and the strict build refuses it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = ["ROOT_PAGES", "on_files", "on_page_markdown", "with_links_of_the_site"]

ROOT_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PROJECT = Path(__file__).resolve().parents[2]

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
_CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root."""
    for name in ROOT_PAGES:
        files.append(File.generated(config, name, content=(PROJECT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page's text with links that are valid on the site."""
    return with_links_of_the_site(markdown, page.file.src_uri)


def with_links_of_the_site(markdown: str, page: str) -> str:
    """Return ``markdown`` with its links rewritten; ``page`` is the path on the site."""
    in_repository = page if page in ROOT_PAGES else f"docs/{page}"

    def prose(text: str) -> str:
        text = text.replace(
            "] [", "] \\["
        )  # Placeholders like ``[action] [name]``, which autorefs would take for a link.
        return _LINK.sub(lambda link: _on_site(link, page, in_repository), text)

    pieces: list[str] = []
    end = 0
    for block in _CODE.finditer(markdown):
        pieces += [prose(markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*pieces, prose(markdown[end:])])


def _on_site(link: re.Match[str], page: str, in_repository: str) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), link["target"]))
    if target == "README.md":
        site_page = "index.md"
    elif target in ROOT_PAGES:
        site_page = target
    elif target.startswith("docs/"):
        site_page = target.removeprefix("docs/")
    elif (PROJECT / target).exists():
        return f"{link['text']} (`{target}`)" if link["text"].strip("`") not in target else link["text"]
    else:
        return link[0]
    path = posixpath.relpath(site_page, posixpath.dirname(page) or ".")
    return f"[{link['text']}]({path}{link['anchor'] or ''})"
