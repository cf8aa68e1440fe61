"""The site builds strictly, with every page, and a reader's browser requests nothing from elsewhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.docs.site_hook import ROOT_PAGES, with_links_of_the_site
from tests.docs.tracked import PROJECT
from tests.interop.chromium import Chromium, require_chromium


class Requested(HTMLParser):
    """The addresses that a browser requests without a click."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.has_diagram = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in {"script", "img", "iframe", "source", "video"}:
            self.addresses.append(values.get("src") or "")
        elif tag == "link" and values.get("rel") not in {"canonical", "next", "prev"}:
            self.addresses.append(values.get("href") or "")
        self.has_diagram |= "mermaid" in (values.get("class") or "").split()  # The theme would fetch a library.


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(PROJECT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    config.plugins.run_event("startup", command="build", dirty=False)
    warnings: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("mkdocs").addHandler(handler)
    try:
        build(config)
    finally:
        logging.getLogger("mkdocs").removeHandler(handler)
        config.plugins.run_event("shutdown")
    assert warnings == []
    return folder


@pytest.mark.filterwarnings("ignore")
def test_the_site_has_every_page_and_requests_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    sources = list((PROJECT / "docs").rglob("*.md"))
    assert len(pages) == len(sources) + len(ROOT_PAGES) + 1  # And the page for what does not exist.
    for page in pages:
        requested = Requested()
        requested.feed(page.read_text())
        assert [address for address in requested.addresses if "//" in address] == [], page
        assert not requested.has_diagram, page
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text(), style


@pytest.mark.filterwarnings("ignore")
def test_the_search_finds_a_setting_a_command_and_a_class(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {word: [entry["location"] for entry in index["docs"] if word in entry["title"] + entry["text"]] for word in
             ("log.retention.hours", "reset-offsets", "SyncAdminClient")}  # fmt: skip
    assert any(location.startswith("reference/configs/") for location in found["log.retention.hours"])
    assert any(location.startswith("reference/cli/") for location in found["reset-offsets"])
    assert any(location.startswith("reference/python/admin/") for location in found["SyncAdminClient"])


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Serve the site; return its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore")
def test_a_browser_finds_a_setting_and_requests_nothing_from_elsewhere(address: str, tmp_path: Path) -> None:
    browser = Chromium(require_chromium(), tmp_path / "profile")
    try:
        browser.open(f"{address}?q=unclean.leader.election.enable")
        browser.wait_for("document.querySelector('.md-search-result__item a[href*=configs]') !== null")
        requested = browser.run("performance.getEntriesByType('resource').map(entry => entry.name)")
        assert requested
        assert [name for name in requested if not name.startswith((address, "blob:", "data:"))] == []
    finally:
        browser.close()


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("decisions/0014-a.md", "[x](../../ARCHITECTURE.md#layers)", "[x](../ARCHITECTURE.md#layers)"),
        ("SECURITY.md", "[x](docs/storage-faults.md)", "[x](storage-faults.md)"),
        ("CHANGELOG.md", "[x](SECURITY.md)", "[x](SECURITY.md)"),
        ("index.md", "[x](../README.md)", "[x](index.md)"),
        ("benchmarks/admin.md", "[`bench/admin.py`](../../bench/admin.py)", "`bench/admin.py`"),
        ("benchmarks/admin.md", "[the bench](../../bench/admin.py)", "the bench (`bench/admin.py`)"),
        ("kips/README.md", "[x](nowhere.md)", "[x](nowhere.md)"),
        ("connect/rest.md", "[x](#below) [y](https://example.org/a)", "[x](#below) [y](https://example.org/a)"),
        ("connect/rest.md", "```\n[x](../../README.md)\n```\n", "```\n[x](../../README.md)\n```\n"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(page: str, text: str, expected: str) -> None:
    assert with_links_of_the_site(text, page) == expected
