"""The console in a real browser: live updates, buttons, forms, the keyboard, a phone. Skipped on machines without a
browser."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote

import pytest

from barnabas.connect.decide.tasks.task_progress import QueryPlan
from barnabas.connect.entities import ConnectorOffset
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.plugins.discovery import discover
from barnabas.connect.rest.application import Mount
from barnabas.connect.rest.rest_server import RestServer
from barnabas.connect.rest.rest_settings import RestSettings
from tests.interop.chromium import Chromium, require_chromium
from tests.peers.console_scene import EVIL, PREFIX, SceneHerder, SceneInsight, console_of, fill_history, fill_log
from tests.peers.scripted_figures import ScriptedFigures
from tests.peers.scripted_herder import ScriptedCluster

pytestmark = [pytest.mark.interop, pytest.mark.anyio]

PAGES = (
    "",
    "create",
    "workers",
    "log",
    "bad-records",
    "connectors/orders-to-files",
    "connectors/orders-to-files/history?hours=6",
    "connectors/stopped-one",
    "connectors/stopped-one/offsets",
    "connectors/lines/edit",
    "connectors/lines/tasks/0/plan",
    "connectors/" + quote(EVIL, safe=""),
)
JDBC_SOURCE = "barnabas.connect_spark.connectors.jdbc.jdbc_source.JdbcSource"
TOPIC_TO_FILES = "barnabas.connect_spark.connectors.files.topic_to_files.TopicToFiles"
FILE_STREAM_SINK = "barnabas.connect_spark.connectors.files.file_stream.FileStreamSink"


class _Clock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser = Chromium(require_chromium(), tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


class Worker:
    """A REST API and console on a socket, backed by a scripted herder."""

    def __init__(self, server: RestServer, herder: SceneHerder) -> None:
        self.server = server
        self.herder = herder
        self.url = f"{server.advertised_url.rstrip('/')}{PREFIX}/"


@pytest.fixture
async def worker(browser: Chromium) -> AsyncIterator[Worker]:
    settings = RestSettings.read({"listeners": "http://127.0.0.1:0"})
    server = RestServer(settings, clock=_Clock(), random_bytes=os.urandom)
    await server.start()
    herder = SceneHerder(ScriptedCluster(server.advertised_url), server.advertised_url)
    herder.registry = await asyncio.to_thread(discover)
    await herder.fill()
    figures = ScriptedFigures(server.advertised_url, _Clock().now_ms, is_leader=True)
    fill_history(figures.past, _Clock().now_ms())
    fill_log(server.recent_log, _Clock().now_ms())
    client = server.client(herder.session)
    group_reads = server.open(
        herder,
        client,
        herder.plugins,
        kafka_cluster_id="c1",
        version="1",
        commit="c",
        own_figures=figures,
    )
    console = console_of(
        herder, server.worker_id, time.monotonic, group_reads=group_reads, recent_log=server.recent_log
    )
    server.mount(Mount(PREFIX, console))
    yield Worker(server, herder)
    await asyncio.to_thread(browser.open, "about:blank")  # No page looks for a stopped worker in the next test.
    await server.stop()


def _focused(browser: Chromium) -> str:
    return str(browser.run("document.activeElement.id"))


async def test_pages_fit_a_phone_and_log_no_errors(browser: Chromium, worker: Worker) -> None:
    def look() -> None:
        browser.problems.clear()
        for width, dark in ((360, False), (1280, True)):
            browser.size(width, dark=dark)
            for page in PAGES:
                browser.open(worker.url + page)
                if page.endswith("edit"):
                    browser.wait_for("document.querySelectorAll('#form .field').length > 5")
                # Not innerWidth: a phone's browser zooms out until everything fits.
                assert browser.run("document.documentElement.scrollWidth") <= width, (page, width)
        assert browser.problems == []  # Among them: EVIL has not called alert.

    await asyncio.to_thread(look)


async def test_a_long_reason_does_not_break_the_names_of_connectors(browser: Chromium, worker: Worker) -> None:
    def look() -> None:
        browser.size(1280)
        browser.open(worker.url)
        assert browser.run("[...document.querySelectorAll('th a')].map(e => e.getClientRects().length)") == [1, 1]

    del worker.herder.cluster.connectors[EVIL], worker.herder.cluster.connectors["stopped-one"]
    del worker.herder.cluster.connectors["orders-to-files"]
    worker.herder.failed[ConnectorTaskId("lines", 0)] = "There is a long reason why it could not go on. " * 9
    await asyncio.to_thread(look)


async def test_the_page_of_a_plan_shows_all_of_it(
    browser: Chromium, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"+- Project [{', '.join(f'column_{number}_{line}' for number in range(60))}]" for line in range(100)]

    async def long_plan(_: SceneInsight, task: ConnectorTaskId) -> QueryPlan:
        return QueryPlan("\n".join(lines), "\n".join(f'"rows": {line}' for line in range(100)), None)

    def look() -> None:
        for width in (360, 1280):
            browser.size(width)
            browser.open(worker.url + "connectors/lines/tasks/0/plan")
            for part in ("plan", "progress"):
                shown = browser.run(f"(e => [e.scrollHeight, e.clientHeight, e.scrollWidth, e.clientWidth])({part})")
                assert shown[0] <= shown[1], (part, width)  # Nothing is behind a scroll bar.
                assert shown[2] <= shown[3], (part, width)
            assert browser.run("document.getElementById('plan').textContent") == "\n".join(lines)

    monkeypatch.setattr(SceneInsight, "query_plan", long_plan)
    await asyncio.to_thread(look)


async def test_a_page_follows_changes_and_keeps_the_users_position(browser: Chromium, worker: Worker) -> None:
    task = ConnectorTaskId("orders-to-files", 1)

    def look() -> None:
        browser.size(1280)
        browser.open(worker.url + "connectors/orders-to-files")
        browser.run("document.getElementById('trace-1').open = true")
        browser.run("document.getElementById('restart-2').focus()")
        worker.herder.failed[ConnectorTaskId("orders-to-files", 0)] = "The disk is full"
        browser.wait_for("document.getElementById('task-0').dataset.state === 'failed'")
        browser.wait_for("document.getElementById('notice').textContent === 'orders-to-files task 0 is failed now.'")
        assert "The disk is full" in browser.run("document.getElementById('task-0-failure').textContent")
        assert browser.run("document.getElementById('trace-1').open")
        assert _focused(browser) == "restart-2"
        del worker.herder.failed[task]
        browser.wait_for("!document.getElementById('trace-1')")
        assert _focused(browser) == "restart-2"

    await asyncio.to_thread(look)


async def test_a_button_asks_for_confirmation_before_it_sends_the_request(browser: Chromium, worker: Worker) -> None:
    calls = worker.herder.calls

    def look() -> None:
        browser.size(360)
        browser.open(worker.url + "connectors/orders-to-files")
        browser.click("#restart-1")
        assert _focused(browser) == "confirm-no"
        browser.press("Enter", 13)
        browser.wait_for("!document.getElementById('confirm').open")
        assert (calls, _focused(browser)) == ([], "restart-1")
        browser.click("#restart-1")
        browser.click("#confirm-yes")
        browser.wait_for("document.getElementById('notice').textContent === 'The restart of task 1 has begun.'")
        assert calls == ["restart task orders-to-files-1"]
        assert browser.run("document.getElementById('task-1').dataset.state") == "running"
        browser.click("#restart")
        browser.click("#confirm-option")
        browser.click("#confirm-yes")
        browser.wait_for("document.getElementById('notice').textContent.includes('has begun')")
        assert calls[-1] == "restart orders-to-files True True"
        browser.click("#stop")
        browser.click("#confirm-yes")
        browser.wait_for("document.getElementById('resume')")
        browser.click("#delete")
        browser.click("#confirm-yes")
        browser.wait_for(f"location.href === {json.dumps(worker.url)} && document.readyState === 'complete'")

    await asyncio.to_thread(look)
    assert "orders-to-files" not in worker.herder.cluster.connectors


async def test_a_refusal_is_shown_in_the_words_of_the_worker(browser: Chromium, worker: Worker) -> None:
    def look() -> None:
        browser.size(1280)
        browser.open(worker.url + "connectors/lines")
        browser.click("#delete")
        del worker.herder.cluster.connectors["lines"]
        browser.click("#confirm-yes")
        browser.wait_for("document.getElementById('alarm').textContent === 'Connector lines not found'")
        browser.wait_for("document.querySelector('h1').textContent === 'The request failed'")

    await asyncio.to_thread(look)


async def test_the_console_is_usable_with_the_keyboard_alone(browser: Chromium, worker: Worker) -> None:
    def look() -> None:
        browser.size(1280)
        browser.open(worker.url)
        browser.press("Tab", 9)
        assert browser.run("document.activeElement.className") == "skip"
        assert browser.run("document.activeElement.getBoundingClientRect().left >= 0")
        browser.press("Enter", 13)
        browser.wait_for("document.activeElement.id === 'main'")
        browser.press("Tab", 9)
        assert _focused(browser) == "filter"
        assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        browser.type("#filter", "paused")
        browser.wait_for("[...document.querySelectorAll('tr[data-name]')].filter(e => !e.hidden).length === 1")

    await asyncio.to_thread(look)


async def test_a_chart_shows_the_value_under_the_pointer(browser: Chromium, worker: Worker) -> None:
    def look() -> None:
        browser.size(1280)
        browser.open(worker.url + "connectors/orders-to-files/history?hours=1")
        browser.click("#chart-lag svg")
        readout = "document.querySelector('#chart-lag .readout').textContent"
        shown = str(browser.run(readout))
        assert re.fullmatch(r"\d\d-\d\d \d\d:\d\d:\d\d: [\d\u202f]+", shown), shown
        browser.run("new Promise(done => document.getElementById('main').addEventListener('shown', done))")
        assert browser.run(f"{readout} !== ''")  # A refresh keeps it.
        browser.click("h1")
        assert browser.run(readout) == ""

    browser.problems.clear()
    await asyncio.to_thread(look)
    assert browser.problems == []


async def test_actions_on_several_connectors_have_a_result_each(browser: Chromium, worker: Worker) -> None:
    connectors = worker.herder.cluster.connectors

    def choose(*names: str) -> None:
        for name in names:
            browser.click(f"[data-choose={json.dumps(name)}]")

    def results() -> list[str]:
        return [
            str(text) for text in browser.run("[...document.querySelectorAll('#bulk-list li')].map(e => e.textContent)")
        ]

    def look() -> None:
        browser.size(360)
        browser.open(worker.url)
        browser.click("#bulk-pause")
        browser.wait_for("document.getElementById('notice').textContent === 'Choose connectors first.'")
        choose("lines", EVIL, "orders-to-files")
        browser.wait_for("document.getElementById('chosen-count').textContent === '3 chosen'")
        browser.type("#filter", "l")
        browser.wait_for("document.getElementById('chosen-count').textContent === '3 chosen'")
        browser.type("#filter", "lines")  # What the filter hides is not chosen.
        browser.wait_for("document.getElementById('chosen-count').textContent === '1 chosen'")
        browser.type("#filter", "")
        choose(EVIL, "orders-to-files")
        browser.click("#bulk-pause")
        assert browser.run("document.getElementById('bulk-title').textContent") == "Pause 3 connectors?"
        assert sorted(results()) == sorted([EVIL, "lines", "orders-to-files"])
        assert _focused(browser) == "bulk-no"
        assert connectors["lines"].state is TargetState.STARTED
        del connectors["orders-to-files"]
        browser.click("#bulk-yes")
        browser.wait_for("document.getElementById('bulk-title').textContent === '1 of 3 failed'")
        assert f"{EVIL}: it will pause" in results()
        assert "orders-to-files: Unknown connector orders-to-files" in results()
        browser.press("Enter", 13)  # The focus is on Close.
        browser.wait_for("!document.getElementById('bulk-dialog').open")
        browser.click("#choose-all")
        browser.click("#bulk-delete")
        browser.click("#bulk-yes")
        browser.wait_for("document.getElementById('bulk-title').textContent === 'Done: 4 of 4'")

    browser.problems.clear()
    await asyncio.to_thread(look)
    assert connectors == {}


async def test_offsets_are_changed_after_a_preview_of_a_stopped_connector(browser: Chromium, worker: Worker) -> None:
    sink = worker.herder.cluster.connectors["orders-to-files"]
    sink.offsets = [
        ConnectorOffset({"kafka_topic": "orders", "kafka_partition": number}, {"kafka_offset": 500})
        for number in range(2)
    ]

    def effects() -> list[str]:
        return [
            str(text)
            for text in browser.run(
                "[...document.querySelectorAll('#changes [data-label=Effect]')].map(e => e.textContent)"
            )
        ]

    def preview() -> str:
        browser.run("document.getElementById('notice').textContent = 'old'")
        browser.click("#show")
        browser.wait_for(
            "document.getElementById('notice').textContent === '' && document.activeElement.id === 'preview-title'"
        )
        return str(browser.run("document.getElementById('summary').textContent"))

    def look() -> None:
        browser.size(360)
        browser.open(worker.url + "connectors/orders-to-files/offsets")
        browser.click("#show")
        browser.wait_for("document.getElementById('alarm').textContent === 'No field has changed.'")
        browser.type("#offset-0", "400")
        browser.type("#offset-1", "2000")
        assert preview() == "1 of 2 rows would be refused. Correct them, and preview again."
        assert effects() == ["100 records read again", "Refused: Offset 2000 is after the end, which is 1500."]
        browser.type("#offset-1", "750")
        assert browser.run("document.getElementById('preview').hidden")
        assert preview().startswith(
            "In all, 100 records would be read again, and 250 records skipped. The connector is not"
        )
        assert browser.run("document.getElementById('apply').hidden")
        browser.click("#stop")
        browser.wait_for("!document.getElementById('apply').hidden")
        assert sink.offsets[0].offset == {"kafka_offset": 500}
        browser.click("#apply")
        browser.wait_for("document.getElementById('notice').textContent.includes('altered successfully')")
        assert _focused(browser) == "resume"
        browser.click("#resume")
        browser.wait_for("document.querySelector('h1').textContent === 'orders-to-files'")

    browser.problems.clear()
    await asyncio.to_thread(look)
    assert browser.problems == []
    assert [entry.offset for entry in sink.offsets] == [{"kafka_offset": "400"}, {"kafka_offset": "750"}]
    assert sink.state is TargetState.STARTED


async def test_the_log_is_filtered_with_lists(browser: Chromium, worker: Worker) -> None:
    def look() -> None:
        browser.size(1280)
        browser.open(worker.url + "log")
        assert browser.run("document.querySelectorAll('.log li').length") >= 4
        for name, value in (("level", "ERROR"), ("connector", "orders-to-files")):
            element = f"document.getElementById({json.dumps(name)})"
            browser.run(f"{element}.value = {json.dumps(value)}")
            browser.run(f"{element}.dispatchEvent(new Event('change', {{bubbles: true}}))")
            browser.wait_for(f"location.search.includes({json.dumps(value)}) && document.readyState === 'complete'")
        browser.wait_for("document.querySelectorAll('.log li').length === 1")
        browser.run("document.querySelector('.log details').open = true")
        worker.server.recent_log.emit(logging.LogRecord("x", logging.ERROR, "", 0, "orders-to-files again", None, None))
        browser.wait_for("document.querySelectorAll('.log li').length === 2")  # The refresh keeps the filter.
        assert browser.run("document.querySelector('.log details').open")

    await asyncio.to_thread(look)


async def test_a_form_creates_a_connector_and_shows_errors_beside_fields(browser: Chromium, worker: Worker) -> None:
    connectors = worker.herder.cluster.connectors

    def look() -> None:
        browser.size(360)
        browser.open(worker.url + "create")
        browser.type("#name", "a/b c")
        browser.run(f"document.getElementById('plugin').value = {json.dumps(FILE_STREAM_SINK)}")
        browser.run("document.getElementById('plugin').dispatchEvent(new Event('change'))")
        browser.wait_for("document.getElementById('setting-file')")
        browser.click("#save")
        browser.wait_for("document.getElementById('setting-file').getAttribute('aria-invalid') === 'true'")
        assert "Missing required" in browser.run("document.getElementById('setting-file-errors').textContent")
        assert "setting-file-errors" in browser.run(
            "document.getElementById('setting-file').getAttribute('aria-describedby')"
        )
        browser.wait_for("document.activeElement.id === 'problems'")
        assert "a/b c" not in connectors
        browser.type("#setting-file", "/data/out.txt")
        browser.type("#setting-topics", EVIL)
        browser.run("document.getElementById('setting-transforms').closest('details').open = true")
        browser.type("#setting-transforms", "mask")
        browser.wait_for("document.getElementById('setting-transforms.mask.type')")
        browser.type("#setting-transforms", "")
        browser.wait_for("!document.getElementById('setting-transforms.mask.type')")
        browser.type("#setting-topics", "orders")
        browser.click("#save")
        browser.wait_for("document.querySelector('h1').textContent === 'a/b c'")

    browser.problems.clear()
    await asyncio.to_thread(look)
    assert browser.problems == []
    assert connectors["a/b c"].config == {
        "name": "a/b c",
        "connector.class": FILE_STREAM_SINK,
        "file": "/data/out.txt",
        "topics": "orders",
    }


async def test_settings_with_few_values_are_chosen_from_a_list(browser: Chromium, worker: Worker) -> None:
    def choices(setting: str) -> list[str]:
        field = f"document.getElementById('setting-{setting}')"
        browser.wait_for(f"{field}?.tagName === 'SELECT'")
        return [str(text) for text in browser.run(f"[...{field}.options].map(option => option.textContent)")]

    def choose(class_name: str) -> None:
        browser.run(f"document.getElementById('plugin').value = {json.dumps(class_name)}")
        browser.run("document.getElementById('plugin').dispatchEvent(new Event('change'))")

    def look() -> None:
        browser.size(1280)
        browser.open(worker.url + "create")
        choose(JDBC_SOURCE)
        modes = ["bulk", "incrementing", "timestamp", "timestamp+incrementing"]
        assert choices("mode") == ["Choose one", *modes, "another value …"]
        choose(TOPIC_TO_FILES)
        assert choices("format") == ["default (parquet)", "parquet", "json", "csv", "orc", "another value …"]
        field = "document.getElementById('setting-format')"
        browser.run(f"{field}.value = 'csv'; {field}.dispatchEvent(new Event('change'))")
        browser.click("#as-json")
        browser.wait_for("JSON.parse(document.getElementById('json-text').value).format === 'csv'")
        browser.click("#as-form")
        assert choices("format")
        browser.run(f"{field}.value = [...{field}.options].pop().value; {field}.dispatchEvent(new Event('change'))")
        browser.wait_for(f"{field}.tagName === 'INPUT' && document.activeElement === {field}")
        browser.type("#setting-format", "${env:FORMAT}")
        browser.wait_for("document.getElementById('setting-format').getAttribute('aria-invalid') === 'true'")

    browser.problems.clear()
    await asyncio.to_thread(look)
    assert browser.problems == []


async def test_a_connector_is_changed_as_json(browser: Chromium, worker: Worker) -> None:
    connectors = worker.herder.cluster.connectors
    config = {"connector.class": FILE_STREAM_SINK, "file": "/new", "topics": "orders", "tasks.max": 2}

    def look() -> None:
        browser.size(1280)
        browser.open(worker.url + "connectors/stopped-one/edit")
        browser.click("#as-json")
        browser.wait_for("document.getElementById('json-text').value.includes('/data/out.txt')")
        browser.type("#json-text", "{")
        browser.click("#save")
        browser.wait_for("document.getElementById('problems').textContent.includes('is not JSON')")
        browser.type("#json-text", json.dumps(config))
        browser.click("#as-form")
        browser.wait_for("document.getElementById('setting-tasks.max')?.value === '2'")
        browser.click("#save")
        browser.wait_for("document.querySelector('h1').textContent === 'stopped-one'")

    await asyncio.to_thread(look)
    assert connectors["stopped-one"].config == {**config, "tasks.max": "2", "name": "stopped-one"}


async def test_a_stopped_worker_is_reported(browser: Chromium, worker: Worker) -> None:
    def look(condition: str) -> None:
        browser.wait_for(condition)

    browser.size(1280)
    await asyncio.to_thread(browser.open, worker.url)
    await worker.server.stop()
    await asyncio.to_thread(look, "document.getElementById('alarm').textContent.includes('This data is from')")
    assert browser.run("document.querySelectorAll('tr[data-name]').length") == 5
