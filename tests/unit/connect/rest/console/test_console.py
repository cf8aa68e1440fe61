"""Pages as HTML: their contents by role, the escaping of data, and the targets of links."""

from __future__ import annotations

import base64
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
import pytest

from barnabas.connect.entities import DeadLetter, LastFailure, TaskStatus
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.rest.application import Mount, RestRules
from barnabas.connect.rest.authentication import Authenticator, NotAuthenticated
from barnabas.connect.rest.console import console as console_module
from barnabas.connect.rest.console.views import is_worker_address
from barnabas.connect.rest.recent_log import RecentLog
from barnabas.connect.rest.roles import Role, User
from barnabas.connect.rest.route_table import matching
from barnabas.connect.rest.url_paths import path_segments
from tests.peers.console_scene import (
    EVIL,
    OTHER_WORKER,
    PREFIX,
    SceneHerder,
    SceneLetters,
    console_of,
    fill_history,
    fill_log,
)
from tests.peers.rest_workers import START_MS, RestWorkers

STATIC = Path(console_module.__file__).parent / "static"
EVIL_PAGE = "/console/connectors/" + quote(EVIL, safe="")
PAGES = (
    "/console",
    "/console/",
    "/console/create",
    "/console/workers",
    "/console/log",
    "/console/log?level=ERROR&connector=orders-to-files",
    "/console/bad-records",
    "/console/connectors/orders-to-files",
    "/console/connectors/orders-to-files/history",
    "/console/connectors/orders-to-files/history?hours=168",
    "/console/connectors/lines/offsets",
    "/console/connectors/stopped-one/offsets",
    "/console/connectors/orders-to-files/edit",
    "/console/connectors/orders-to-files/dead-letters",
    "/console/connectors/orders-to-files/tasks/0/plan",
    "/console/connectors/orders-to-files/tasks/2/plan",
    "/console/connectors/paused-one",
    "/console/connectors/stopped-one",
    "/console/connectors/none",
    EVIL_PAGE,
    EVIL_PAGE + "/edit",
    EVIL_PAGE + "/tasks/0/plan",
)
_VOID = frozenset(("meta", "link", "input", "br", "img"))


class Page(HTMLParser):
    """The elements of a page with their attributes; fails where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, self.getpos()
        self.text += " " if tag in ("td", "th", "dt", "dd") else ""

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]

    @property
    def actions(self) -> dict[str, tuple[str, str]]:
        """Return method and path of each button that changes something, by its id."""
        return {
            str(button["id"]): (str(button["data-method"]), str(button["data-path"]))
            for button in self.all("button")
            if "data-method" in button
        }

    @property
    def links(self) -> set[str]:
        return {str(link["href"]) for link in self.all("a")}


class Passwords:
    async def __call__(self, name: str, password: str, address: str) -> User:
        if name not in ("read", "operate", "admin"):
            raise NotAuthenticated("The user name or the password is wrong.")
        return User(name, Role.named(name))


class Site:
    def __init__(self, *, is_open: bool = True, shows_log: bool = True) -> None:
        rules = RestRules() if is_open else RestRules(Authenticator(passwords=Passwords()))  # type: ignore[arg-type]
        self.workers = RestWorkers(rules=rules)
        self.herder = SceneHerder(self.workers.cluster, self.workers.urls["A"])
        self.letters = SceneLetters()
        self.log = RecentLog()
        fill_history(self.workers.figures["A"].past, START_MS)
        fill_log(self.log, START_MS)
        console = console_of(
            self.herder,
            self.herder.worker_id,
            letters=self.letters,
            group_reads=self.workers.services["A"].group_reads,
            recent_log=self.log if shows_log else None,
        )
        self.workers.applications["A"].mount(Mount(PREFIX, console))

    async def get(self, path: str, user: str = "", **headers: str) -> httpx.Response:
        if user:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:x".encode()).decode()
        return await self.workers.send("A", "GET", path, headers)

    async def page(self, path: str, user: str = "") -> Page:
        return Page((await self.get(path, user)).text)


@pytest.fixture
async def site() -> Site:
    site = Site()
    await site.herder.fill()
    return site


@pytest.fixture
async def guarded_site() -> Site:
    site = Site(is_open=False)
    await site.herder.fill()
    return site


@pytest.mark.anyio
@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_well_formed_and_labels_every_control(site: Site, path: str) -> None:
    page = await site.page(path)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    labelled = {label["for"] for label in page.all("label") if "for" in label}
    for control in page.all("input", "select", "textarea"):
        assert control["id"] in labelled or control["id"] == "confirm-option"  # This control is inside its label.
    for _, attributes in page.elements:
        for reference in ("aria-labelledby", "aria-describedby"):
            assert set((attributes.get(reference) or "").split()) <= set(ids)
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("main")) == len(page.all("h1")) == 1
    assert page.all("a")[0] == {"class": "skip", "href": "#main"}
    assert {"status", "alert"} <= {paragraph.get("role") for paragraph in page.all("p")}


@pytest.mark.anyio
@pytest.mark.parametrize("path", PAGES)
async def test_pages_load_and_execute_only_our_own_files(site: Site, path: str) -> None:
    answer = await site.get(path)
    policy = dict(directive.strip().split(" ", 1) for directive in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    page = Page(answer.text)
    assert page.all("style", "img", "iframe", "form", "base") == []
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        if tag == "script":
            assert set(attributes) == {"type", "src"}
        for name in ("src", "href") if tag in ("script", "link") else ():
            if name in attributes:
                assert str(attributes[name]).startswith("/console/static/")
                assert (await site.get(str(attributes[name]))).status_code == 200
    for link in page.links:
        assert link.startswith(("/console/", "#main", "http://", "/openapi.json"))


@pytest.mark.anyio
async def test_a_name_made_to_be_html_is_shown_as_text(site: Site) -> None:
    for path in ("/console/", EVIL_PAGE, EVIL_PAGE + "/edit", EVIL_PAGE + "/tasks/0/plan"):
        answer = await site.get(path)
        assert answer.status_code == 200
        assert "<img" not in answer.text
        values = [value for _, attributes in Page(answer.text).elements for value in attributes.values()]
        assert EVIL in Page(answer.text).text or EVIL in values
    for method, path in (await site.page(EVIL_PAGE)).actions.values():
        assert method in ("PUT", "POST", "DELETE")
        assert unquote(path.split("?")[0].split("/")[2]) == EVIL


@pytest.mark.anyio
@pytest.mark.parametrize("role", ["read", "operate", "admin"])
@pytest.mark.parametrize("path", PAGES)
async def test_a_user_sees_exactly_the_buttons_that_the_api_permits(guarded_site: Site, path: str, role: str) -> None:
    user = User(role, Role.named(role))
    for method, target in (await guarded_site.page(path, role)).actions.values():
        routes = {route.method: route for route, _ in matching(path_segments(target.partition("?")[0]))}
        needed = routes[method].access.role
        assert needed is not None
        assert user.may(needed)


@pytest.mark.anyio
async def test_each_role_has_its_buttons(guarded_site: Site) -> None:
    path = "/console/connectors/orders-to-files"
    tasks = {"restart-0", "restart-1", "restart-2"}
    reader, operator, admin = [await guarded_site.page(path, role) for role in ("read", "operate", "admin")]
    assert reader.actions.keys() == set()
    assert operator.actions.keys() == {"restart", "pause", "stop", "reset-topics"} | tasks
    assert admin.actions.keys() == operator.actions.keys() | {"delete"}
    assert ["/console/create" in page.links for page in (reader, operator, admin)] == [False, False, True]
    assert [f"{path}/edit" in page.links for page in (reader, operator, admin)] == [False, False, True]
    assert "read, read" in reader.text
    for page in ("/console/create", f"{path}/edit"):
        refused = await guarded_site.get(page, "operate")
        assert (refused.status_code, "Only an admin may" in refused.text) == (403, True)
    assert (await guarded_site.get(path)).status_code == 401
    assert "basic" in (await guarded_site.get(path)).headers["www-authenticate"].lower()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("lines", {"restart", "pause", "stop", "delete", "reset-topics", "restart-0"}),
        ("paused-one", {"restart", "resume", "stop", "delete", "reset-topics"}),
        ("stopped-one", {"resume", "delete", "reset-offsets", "reset-topics"}),
    ],
)
async def test_the_offered_actions_depend_on_the_state(site: Site, name: str, offered: set[str]) -> None:
    page = await site.page(f"/console/connectors/{name}")
    assert page.actions.keys() == offered


@pytest.mark.anyio
async def test_the_list_shows_states_tasks_lag_throughput_and_errors(site: Site) -> None:
    await site.get("/console/")
    page = await site.page("/console/")
    states = {str(row["data-name"]): row["data-state"] for row in page.all("tr") if "data-name" in row}
    assert states == {
        EVIL: "failed",
        "lines": "running",
        "orders-to-files": "failed",
        "paused-one": "paused",
        "stopped-one": "stopped",
    }
    words = " ".join(page.text.split())
    assert "orders-to-files running sink 1 failed 2 running 500 12 Task 1: Topic orders has no partition 7" in words


@pytest.mark.anyio
async def test_a_connector_page_shows_tasks_workers_traces_lag_and_settings(site: Site) -> None:
    page = await site.page("/console/connectors/orders-to-files")
    words = " ".join(page.text.split())
    assert f"http://{OTHER_WORKER}/" in page.links
    assert "127.0.0.1:29511 (this one)" in words
    assert 'File "task.py", line 7' in words
    assert "orders 0 1 000 1 500 500" in words.replace("\u202f", " ")
    assert "topics orders" in words


@pytest.mark.anyio
async def test_a_task_that_runs_again_shows_its_failure_until_a_batch_succeeds(site: Site) -> None:
    next_ = "It runs again after restart 7 of 10, but no batch has succeeded since."
    site.herder.unrecovered[ConnectorTaskId("lines", 0)] = LastFailure(0, "the disk is full", 7, 10, next_)
    for path in ("/console/", "/console/connectors/lines"):
        words = " ".join((await site.page(path)).text.split())
        assert "Task 0 (restart 7 of 10): the disk is full" in words
        assert next_ in words
        assert "running" in words


@pytest.mark.anyio
async def test_a_sink_without_its_topic_says_that_it_waits(site: Site) -> None:
    site.herder.waits_for["orders-to-files"] = ("orders",)
    for path in ("/console/", "/console/connectors/orders-to-files"):
        page = await site.page(path)
        assert "It waits for topics: topic orders does not exist" in page.text
        assert "Connector: It waits" not in page.text


def _letter(value: str) -> DeadLetter:
    error = {"topic": "orders", "partition": "3", "offset": "1041", "stage": "VALUE_CONVERTER"}
    return DeadLetter(
        partition=0,
        offset=17,
        time=1_795_260_000_000,
        key=None,
        value=value,
        key_bytes=0,
        value_bytes=2000,
        error={**error, "exception.message": "no JSON"},
        headers={"trace-id": "x"},
    )


@pytest.mark.anyio
async def test_dead_letters_are_counted_and_shown_with_their_errors(site: Site) -> None:
    config = site.workers.cluster.connectors["orders-to-files"].config
    config["errors.deadletterqueue.topic.name"] = "bad-orders"
    site.herder.skipped[ConnectorTaskId("orders-to-files", 1)] = 12
    site.letters.letters = [_letter(EVIL)]
    path = "/console/connectors/orders-to-files"
    page = await site.page(path)
    assert "12 skipped, 12 dead letters" in " ".join(page.text.split())
    assert f"{path}/dead-letters" in page.links
    words = " ".join((await site.page(f"{path}/dead-letters")).text.split())
    assert "bad-orders" in words
    assert "orders-3, offset 1041" in words
    assert "VALUE_CONVERTER: no JSON" in words
    assert EVIL in words
    assert "Only the last 1 000 records of the topic were examined" in words


@pytest.mark.anyio
async def test_dead_letters_quote_data_so_a_reader_does_not_see_them(guarded_site: Site) -> None:
    path = "/console/connectors/orders-to-files"
    assert (await guarded_site.get(f"{path}/dead-letters", "read")).status_code == 403
    assert (await guarded_site.get(f"{path}/dead-letters", "operate")).status_code == 200


@pytest.mark.anyio
async def test_unreadable_dead_letters_are_a_problem_on_their_page(site: Site) -> None:
    site.letters.problem = "The dead-letter topic bad-orders can't be read: no broker"
    page = await site.page("/console/connectors/orders-to-files/dead-letters")
    assert site.letters.problem in page.text


@pytest.mark.anyio
async def test_a_plain_text_secret_is_hidden_at_first(site: Site) -> None:
    site.workers.cluster.connectors["lines"].config["other.password"] = "${file:/secrets:password}"
    page = await site.page("/console/connectors/lines")
    assert [detail["id"] for detail in page.all("details")] == ["history-table", "setting-db.password"]
    assert "${file:/secrets:password}" in page.text


@pytest.mark.anyio
async def test_a_plan_is_shown_by_the_worker_that_has_it(site: Site) -> None:
    here = await site.page("/console/connectors/orders-to-files/tasks/0/plan")
    assert "== Physical Plan ==" in here.text
    assert "http://localhost:4040" in here.links
    elsewhere = await site.page("/console/connectors/orders-to-files/tasks/2/plan")
    assert f"http://{OTHER_WORKER}/console/connectors/orders-to-files/tasks/2/plan" in elsewhere.links
    assert "Physical" not in elsewhere.text


@pytest.mark.anyio
async def test_a_worker_id_that_is_not_an_address_is_not_a_link(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def task(_: SceneHerder, task: ConnectorTaskId, status: TaskStatus) -> TaskStatus:
        return TaskStatus(task.task, "RUNNING", "evil.example/?:80", None)

    monkeypatch.setattr(SceneHerder, "_task", task)
    for path in ("/console/connectors/lines", "/console/connectors/lines/tasks/0/plan"):
        page = await site.page(path)
        assert "evil.example/?:80" in page.text
        assert not [link for link in page.links if "evil" in link]
    assert is_worker_address("[::1]:8083")
    assert not is_worker_address("host:80/path")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "path",
    ["/console/nope", "/console/connectors/none", "/console/connectors/lines/tasks/7/plan", "/console/static/../x"],
)
async def test_a_missing_page_is_reported_on_a_page(site: Site, path: str) -> None:
    answer = await site.get(path)
    assert answer.status_code == 404
    assert "The request failed" in answer.text


@pytest.mark.anyio
async def test_pages_are_read_only(site: Site) -> None:
    answer = await site.workers.send("A", "POST", "/console/create", {}, b"{}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.anyio
async def test_a_cached_file_is_not_sent_again(site: Site) -> None:
    first = await site.get("/console/static/live.js")
    assert first.headers["content-type"].startswith("text/javascript")
    again = await site.get("/console/static/live.js", **{"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_scripts_never_create_html_or_code_from_text() -> None:
    for script in STATIC.glob("*.js"):
        text = script.read_text(encoding="utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in text, f"{script.name} has {word}"
    for template in (STATIC.parent / "templates").glob("*.html"):
        assert "safe" not in template.read_text(encoding="utf-8").replace("unsafe", "")


@pytest.mark.anyio
async def test_a_page_during_a_rebalance_loads_immediately_and_names_missing_facts(site: Site) -> None:
    import asyncio

    site.herder.rebalancing = asyncio.Event()
    page = await site.page("/console/connectors/lines")
    assert "a rebalance is expected" in page.text
    assert "running" in page.text
