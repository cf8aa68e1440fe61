"""Pages to operate a group: history, workers, log, bad records, actions on several connectors, offsets."""

from __future__ import annotations

import asyncio
import json

import pytest

from barnabas.connect.entities import ConnectorOffset
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.rest.roles import Role, User
from barnabas.connect.rest.route_table import matching
from barnabas.connect.rest.url_paths import path_segments
from tests.peers.console_scene import EVIL
from tests.unit.connect.rest.console.test_console import Page, Site

pytestmark = pytest.mark.anyio

SINK = "/console/connectors/orders-to-files"


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


def _words(page: Page) -> str:
    return " ".join(page.text.replace("\u202f", " ").split())


# -- history


async def test_a_connector_shows_its_last_hour_as_charts_and_as_a_table(site: Site) -> None:
    page = await site.page(SINK)
    charts = [figure["id"] for figure in page.all("figure")]
    assert charts == ["chart-rate", "chart-lag", "chart-failures", "chart-skipped"]
    for drawing in page.all("svg"):
        assert drawing["role"] == "img"
        assert drawing["aria-labelledby"]
    words = _words(page)
    assert "Records/s now 410, highest 688" in words
    assert "Lag now 17 800, highest 18 000" in words
    assert "Failures 4 in 1 hour" in words
    assert "Skipped records 48 in 1 hour" in words
    source = await site.page("/console/connectors/lines")
    assert [figure["id"] for figure in source.all("figure")] == ["chart-rate", "chart-failures"]
    assert "Records/s nothing is known" in _words(source)


async def test_the_page_of_a_history_has_ranges_and_the_last_failures(site: Site) -> None:
    page = await site.page(f"{SINK}/history?hours=6")
    assert [link["href"] for link in page.all("a") if link.get("aria-current")] == [f"{SINK}/history?hours=6"]
    words = _words(page)
    assert f"Task 1 127.0.0.1:29511 {EVIL} Topic orders has no partition 7" in words
    assert words.count("Topic orders has no partition 7") == 4
    for hours in ("2", "x", "-1", "9999"):
        answer = await site.get(f"{SINK}/history?hours={hours}")
        assert (answer.status_code, "must be one of 1, 6, 24, 168" in answer.text) == (400, True)


async def test_a_missing_worker_and_a_rebalance_are_named(site: Site) -> None:
    site.workers.cluster.worker_urls.append("http://127.0.0.1:29599/")
    for path in (SINK, "/console/workers"):
        assert "127.0.0.1:29599" in (await site.page(path)).text
    site.workers.cluster.leader_url = None
    site.workers.herders["A"].cluster.leader_url = "http://127.0.0.1:29599/"
    page = await site.page(f"{SINK}/history?hours=24")
    assert "Only the part of this worker is known" in page.text
    assert page.all("svg")


async def test_a_leader_that_hangs_does_not_hide_the_part_of_this_worker(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.connect.rest.console.page_data._GROUP_S", 0.01)

    async def hang() -> list[str]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(site.workers.herders["A"], "other_workers", hang)
    page = await site.page(SINK)
    assert "Only the part of this worker is known: The leader did not answer within 0.01 s." in page.text
    assert page.all("svg")
    assert "127.0.0.1:29511 (this one)" in _words(await site.page("/console/workers"))


async def test_a_worker_without_a_history_says_so(site: Site) -> None:
    site.workers.figures["A"].is_kept = False
    page = await site.page(SINK)
    assert "keeps no history" in page.text
    assert page.all("svg") == []


# -- workers


async def test_the_workers_are_shown_with_their_loads(site: Site) -> None:
    site.workers.figures["A"].is_leader = True
    page = await site.page("/console/workers")
    words = _words(page)
    assert "127.0.0.1:29511 (this one) leader" in words
    assert "2 3 1 failed" in words
    assert "http://127.0.0.1:29512/" in page.links
    assert "http://127.0.0.1:29512/console/log" in page.links


# -- log


async def test_the_log_is_filtered_by_level_and_connector(site: Site) -> None:
    everything = _words(await site.page("/console/log"))
    assert everything.index(f"connector {EVIL} was created") < everything.index("task orders-to-files-1 has failed")
    assert "is listening" in everything
    errors = await site.page("/console/log?level=error&connector=orders-to-files")
    assert "task orders-to-files-1 has failed" in errors.text
    assert "is lost" not in errors.text
    assert [option["value"] for option in errors.all("option") if "selected" in option] == ["ERROR", "orders-to-files"]
    assert 'File "task.py", line 7' in errors.text
    nothing = await site.page("/console/log?connector=gone&level=WARN")
    assert "No line matches" in nothing.text
    assert [option["value"] for option in nothing.all("option") if "selected" in option] == ["WARN", "gone"]
    assert (await site.get("/console/log?level=LOUD")).status_code == 400
    assert (await site.get("/console/log?" + "&".join(["level=INFO"] * 101))).status_code == 400


async def test_the_log_quotes_data_so_a_reader_does_not_see_it(guarded_site: Site) -> None:
    assert (await guarded_site.get("/console/log", "read")).status_code == 403
    assert (await guarded_site.get("/console/log", "operate")).status_code == 200
    for role, is_linked in (("read", False), ("operate", True)):
        assert ("/console/log" in (await guarded_site.page("/console/", role)).links) == is_linked


async def test_the_log_is_not_shown_where_admin_has_listeners_of_its_own() -> None:
    site = Site(shows_log=False)
    answer = await site.get("/console/log")
    assert (answer.status_code, "admin.listeners" in answer.text) == (404, True)
    assert "/console/log" not in (await site.page("/console/")).links


# -- bad records


async def test_connectors_with_bad_records_are_listed_with_their_topics(site: Site) -> None:
    assert "No connector has skipped a record" in (await site.page("/console/bad-records")).text
    site.workers.cluster.connectors["lines"].config["errors.deadletterqueue.topic.name"] = "bad-lines"
    site.herder.skipped[ConnectorTaskId("orders-to-files", 1)] = 12
    page = await site.page("/console/bad-records")
    assert "/console/connectors/lines/dead-letters" in page.links
    assert "orders-to-files 12 12 none: skipped records are only counted" in _words(page)


# -- actions on several connectors


@pytest.mark.parametrize(
    ("role", "offered"),
    [
        ("read", set()),
        ("operate", {"restart", "pause", "resume", "stop"}),
        ("admin", {"restart", "pause", "resume", "stop", "delete"}),
    ],
)
async def test_actions_on_several_connectors_are_those_that_the_api_permits(
    guarded_site: Site, role: str, offered: set[str]
) -> None:
    page = await guarded_site.page("/console/", role)
    buttons = [button for button in page.all("button") if "data-bulk" in button]
    assert {button["data-bulk"] for button in buttons} == offered
    assert [box["data-choose"] for box in page.all("input") if "data-choose" in box] == (
        sorted(guarded_site.workers.cluster.connectors) if offered else []
    )
    assert ("/console/static/bulk.js" in [script["src"] for script in page.all("script")]) == bool(offered)
    for button in buttons:
        path = "/connectors/orders-to-files" + str(button["data-bulk-path"]).partition("?")[0]
        routes = {route.method: route for route, _ in matching(path_segments(path))}
        needed = routes[str(button["data-bulk-method"])].access.role
        assert needed is not None
        assert User(role, Role.named(role)).may(needed)


# -- offsets


async def test_offsets_have_a_field_for_each_partition(site: Site) -> None:
    page = await site.page("/console/connectors/stopped-one/offsets")
    field = next(field for field in page.all("input") if field.get("class") == "offset")
    assert (field["value"], field["data-first"], field["data-end"]) == ("5", "10", "1500")
    assert json.loads(str(field["data-partition"])) == {"kafka_partition": 0, "kafka_topic": EVIL}
    assert "hidden" in next(note for note in page.all("p") if note.get("id") == "not-stopped")
    running = await site.page(f"{SINK}/offsets")
    assert "hidden" not in next(note for note in running.all("p") if note.get("id") == "not-stopped")


async def test_positions_of_a_source_are_json(site: Site) -> None:
    site.workers.cluster.connectors["lines"].offsets = [ConnectorOffset({"filename": EVIL}, {"position": 7})]
    page = await site.page("/console/connectors/lines/offsets")
    field = next(field for field in page.all("input") if field.get("class") == "offset")
    assert field["value"] == '{"position": 7}'


async def test_only_an_admin_edits_offsets(guarded_site: Site) -> None:
    path = "/console/connectors/stopped-one"
    assert (await guarded_site.get(f"{path}/offsets", "operate")).status_code == 403
    assert (await guarded_site.get(f"{path}/offsets", "admin")).status_code == 200
    for role, is_linked in (("operate", False), ("admin", True)):
        assert (f"{path}/offsets" in (await guarded_site.page(path, role)).links) == is_linked
