"""``barnabas queue``: handles, what an agent answers, and the verbs without a cluster."""

from __future__ import annotations

import asyncio
import io
import json
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.arguments.time_options import parse_wait
from barnabas.cli.queue import agent_client
from barnabas.cli.queue.agent import Agent
from barnabas.cli.queue.agent_client import AgentGone
from barnabas.cli.queue.agent_files import agent_name, agents_folder
from barnabas.cli.queue.agent_task import AgentTask
from barnabas.cli.queue.command import main
from barnabas.cli.queue.handles import Handle, parse_handle
from barnabas.cli.queue.printing import QueuePrinter, read_record
from barnabas.cli.records.printers import Readers
from barnabas.clients.admin import (
    GroupDescription,
    GroupListing,
    GroupListings,
    ListedOffset,
    MemberDescription,
    Results,
    ShareGroupOffset,
    TopicPartition,
)
from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.share.acquired_records import AcquiredRecord
from barnabas.clients.share.config import share_config
from barnabas.clients.share.share_consumer import ShareConsumer
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.unit.cli.conftest import FakeAdmin
from tests.unit.clients.memory_cluster import TOPIC
from tests.unit.clients.share.memory_queue import ACCEPT, MemoryQueue

AGENT = "0123456789abcdef"
HANDLE = f"{AGENT}.0.42.1"
EXPLICIT = {"share.acquire.mode": "record_limit", "share.acknowledgement.mode": "explicit", "fetch.max.wait.ms": "5"}


# --- handles and the folder of agents


def test_a_handle_is_read_back() -> None:
    handle = Handle(AGENT, 3, 17, 2)
    assert parse_handle(str(handle)) == handle


@pytest.mark.parametrize("text", ["", "x", f"{AGENT}.0.1", f"{AGENT}.0.1.1.1", f"{AGENT}.-1.1.1", "../../etc.0.1.1"])
def test_another_text_is_not_a_handle(text: str) -> None:
    with pytest.raises(UsageError, match="not a handle"):
        parse_handle(text)


def test_an_agent_is_that_of_one_user_of_one_cluster() -> None:
    names = {
        agent_name(bootstrap, properties, group, topic)
        for bootstrap in ("a:1", "b:1")
        for properties in ({}, {"sasl.jaas.config": "x"})
        for group in ("g", "h")
        for topic in ("t", "u")
    }
    assert len(names) == 16
    assert agent_name("a:1", {"a": "1", "b": "2"}, "g", "t") == agent_name("a:1", {"b": "2", "a": "1"}, "g", "t")


def test_only_the_user_may_enter_the_folder_of_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # Paths of tests are long.
    monkeypatch.setenv("XDG_RUNTIME_DIR", ".")
    folder = agents_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o750)
    with pytest.raises(UsageError, match="other users can enter it"):
        agents_folder()
    folder.rmdir()
    folder.write_text("")
    with pytest.raises(UsageError):
        agents_folder()
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"./{'x' * 100}")
    with pytest.raises(UsageError, match="shorter path"):
        agents_folder()


# --- what an agent answers


def as_agent(queue: MemoryQueue, use: Callable[[Agent, Callable[..., Awaitable[Any]]], Awaitable[None]]) -> None:
    """``ask`` sends a request as a command does."""

    async def main_() -> None:
        consumer = ShareConsumer(queue.network, "g", [TOPIC], share_config(EXPLICIT), member_id="m-1")
        agent = Agent(AgentTask(AGENT, "", "a:1", {}, "g", TOPIC, 0.0), consumer)

        async def ask(**request: object) -> Any:
            reader, writer = asyncio.StreamReader(), Written()
            reader.feed_data(json.dumps(request).encode() + b"\n")
            await agent.serve(reader, writer)  # type: ignore[arg-type]
            return json.loads(writer.data)

        consumer.start()
        try:
            async with asyncio.timeout(20):
                await use(agent, ask)
        finally:
            await consumer.close()

    asyncio.run(main_())


class Written:
    """The end of a socket that keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        return None

    def close(self) -> None:
        return None


def filled(count: int = 3) -> MemoryQueue:
    queue = MemoryQueue()
    queue.append(0, build_batch([Record(i, 1000, b"k", b"v%d" % i, (("h", b"\xff"),)) for i in range(count)]))
    queue.fill(0, list(range(count)))
    return queue


def test_an_agent_hands_out_records_and_settles_them_by_their_delivery() -> None:
    queue = filled()

    async def use(agent: Agent, ask: Callable[..., Awaitable[Any]]) -> None:
        answer = await ask(do="receive", count=2, wait_s=5)
        assert answer["lock_timeout_s"] == 30
        handles = [parse_handle(record["handle"]) for record in answer["records"]]
        assert handles == [Handle(AGENT, 0, 0, 1), Handle(AGENT, 0, 1, 1)]
        record = read_record(TOPIC, answer["records"][0]).record
        assert (record.key, record.value, record.headers) == (b"k", b"v0", (("h", b"\xff"),))
        assert not agent.is_idle  # It holds records.
        settled = await ask(do="acknowledge", type="ACCEPT", records=[[0, 0, 1], [0, 1, 2], [0, 7, 1]])
        outcomes = [None if outcome is None else outcome["code"] for outcome in settled["results"]]
        assert outcomes == [None, "INVALID_RECORD_STATE", "INVALID_RECORD_STATE"]
        again = await ask(do="acknowledge", type="RELEASE", records=[[0, 0, 1], [0, 1, 1]])
        assert [outcome is None for outcome in again["results"]] == [False, True]
        assert agent.is_idle

    as_agent(queue, use)
    assert queue.settled[0] == (0, 0, ACCEPT)


def test_an_agent_describes_itself_and_ends_when_it_is_asked_to() -> None:
    async def use(agent: Agent, ask: Callable[..., Awaitable[Any]]) -> None:
        await ask(do="receive", count=1, wait_s=5)
        described = await ask(do="describe")
        assert (described["group"], described["topic"], described["process_id"]) == ("g", TOPIC, os.getpid())
        assert 0 < described["held_for_s"] <= 30
        assert await ask(do="end") == {}
        assert agent.ended.is_set()
        agent.is_ending = True
        assert await ask(do="receive", count=1, wait_s=5) == {"gone": True}

    as_agent(filled(), use)


def test_an_agent_answers_with_the_error_of_the_cluster() -> None:
    queue = filled()
    queue.errors[ApiKey.SHARE_GROUP_HEARTBEAT].append(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    async def use(agent: Agent, ask: Callable[..., Awaitable[Any]]) -> None:
        answer = await ask(do="receive", count=1, wait_s=5)
        error = agent_client.error_of(answer["error"])
        assert isinstance(error, AdminError)
        assert (error.code, error.item) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, "g")

    as_agent(queue, use)


# --- the verbs that settle


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The answers of an agent, and then what it was asked."""
    scripted: list[Any] = []

    async def ask_agent(name: str, request: Mapping[str, Any]) -> Any:
        outcome = scripted.pop(0)
        scripted.append((name, request))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(agent_client, "ask_agent", ask_agent)
    return scripted


@pytest.mark.parametrize(
    ("verb", "type_name", "done"),
    [
        ("accept", "ACCEPT", "accepted"),
        ("release", "RELEASE", "released"),
        ("reject", "REJECT", "rejected"),
        ("renew", "RENEW", "renewed (for 30 s)"),
    ],
)
def test_a_record_is_settled_by_its_handle(
    answers: list[Any], capsys: pytest.CaptureFixture[str], verb: str, type_name: str, done: str
) -> None:
    answers.append({"results": [None], "lock_timeout_s": 30.0})
    assert main([verb, HANDLE, HANDLE]) == 0
    assert capsys.readouterr().out == f"record {HANDLE}  {done}\n"
    assert answers == [(AGENT, {"do": "acknowledge", "type": type_name, "records": [[0, 42, 1]]})]


def test_handles_are_read_from_the_output_of_receive(
    answers: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{HANDLE}\tvalue\n\n{AGENT}.1.7.2\tother\tvalue\n"))
    answers.append({"results": [None, {"code": "INVALID_RECORD_STATE", "message": "late"}], "lock_timeout_s": 30.0})
    assert main(["accept", "-"]) == 1
    captured = capsys.readouterr()
    assert captured.out == f"record {HANDLE}  accepted\n"
    assert f"{AGENT}.1.7.2: late (INVALID_RECORD_STATE)" in captured.err


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (AgentGone(AGENT), "the process that held the record has ended"),
        (AdminError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "no", "g"), "no (GROUP_AUTHORIZATION_FAILED)"),
    ],
)
def test_a_record_that_can_not_be_settled_is_reported(
    answers: list[Any], capsys: pytest.CaptureFixture[str], outcome: Exception, expected: str
) -> None:
    answers.append(outcome)
    assert main(["accept", HANDLE]) == 1
    assert expected in capsys.readouterr().err


# --- output


RECORD = AcquiredRecord(TopicPartition("orders", 2), Record(17, 0, b"k", b"v", (("h", None),)), 3)


def test_records_are_printed_with_their_handles() -> None:
    def printed(output: str, handle: str = HANDLE) -> str:
        return QueuePrinter(output, Readers()).lines([(handle, RECORD)]).decode()

    assert printed("text") == f"{HANDLE}\tv\n"
    assert printed("text", "") == "v\n"
    assert printed("table").splitlines()[1].split() == [HANDLE, "1970-01-01T00:00:00.000Z", "2", "17", "3", "k", "v"]
    document = json.loads(printed("json"))
    assert (document["topic"], document["partition"], document["offset"]) == ("orders", 2, 17)
    assert (document["handle"], document["delivery_count"], document["value"]) == (HANDLE, 3, "v")
    assert "handle" not in json.loads(printed("json", ""))
    assert yaml.safe_load(printed("yaml"))["handle"] == HANDLE


# --- groups


@pytest.fixture
def billing(admin: FakeAdmin) -> FakeAdmin:
    admin.list_groups.return_value = GroupListings((GroupListing("billing", "share", "Empty", "share"),), {})
    knows(admin, "share")
    offsets = {TopicPartition("orders", 0): ShareGroupOffset(40, 0, 60)}
    admin.list_share_group_offsets.return_value = Results({"billing": Results(offsets, {})}, {})

    async def list_offsets(wanted: dict[TopicPartition, Any]) -> Results[TopicPartition, ListedOffset]:
        known = {-2: 10, -1: 100}
        return Results({tp: ListedOffset(known.get(spec.timestamp, 70), 0, None) for tp, spec in wanted.items()}, {})

    admin.mock.list_offsets = list_offsets
    return admin


def knows(admin: FakeAdmin, type_: str, *members: MemberDescription) -> None:
    group = GroupDescription("billing", type_, type_, "Empty", "simple", members, None, 3, 3)
    admin.describe_groups.return_value = Results({"billing": group}, {})


def test_share_groups_are_listed_and_shown(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["billing", "Empty"]
    assert billing.list_groups.call_args.kwargs == {"types": ["share"]}
    assert main(["offsets"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["orders", "0", "40", "60"]
    assert main(["describe", "billing", "--state"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["billing", "Empty", "share", "simple"]


def test_a_share_group_is_reset_and_deleted(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reset", "billing", "--all-topics", "--to-earliest"]) == 0
    assert capsys.readouterr().out == "group billing  would be reset (orders-0 from 40 to 10)\n"
    billing.alter_share_group_offsets.return_value = Results({TopicPartition("orders", 0): None}, {})
    assert main(["reset", "billing", "--all-topics", "--to-offset", "50", "--execute"]) == 0
    billing.alter_share_group_offsets.assert_awaited_once_with("billing", {TopicPartition("orders", 0): 50})
    billing.delete_groups.return_value = Results({"billing": None}, {})
    assert main(["delete", "billing"]) == 0
    billing.delete_groups.assert_awaited_once_with(["billing"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe", "billing"],
        ["offsets", "billing"],
        ["delete", "billing"],
        ["reset", "billing", "--all-topics", "--to-latest", "--execute"],
    ],
)
def test_a_group_of_another_kind_is_left_alone(
    billing: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    knows(billing, "consumer")
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.err.count("the group is a consumer group, not a share group") == 1
    assert "'barnabas groups describe billing' shows it" in captured.err
    billing.delete_groups.assert_not_called()
    billing.alter_share_group_offsets.assert_not_called()


def test_a_missing_share_group_is_answered_with_the_closest_name(
    billing: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = admin_error(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist", "biling")
    billing.describe_groups.return_value = Results({}, {"biling": missing})
    assert main(["describe", "biling"]) == 1
    assert capsys.readouterr().err.count("did you mean billing?") == 1


def test_a_busy_share_group_is_not_deleted(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    knows(billing, "share", MemberDescription("m", None, "c", "/1", ()))
    assert main(["delete", "billing", "--dry-run"]) == 1
    assert "agents --stop" in capsys.readouterr().err


# --- mistakes


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["receive", "orders"], "--group"),
        (["receive", "--group", "g"], "no topic given"),
        (["receive", "orders", "--group", "g", "--wait", "10"], "as in 500ms, 10s, 5m or 1h"),
        (["receive", "orders", "--group", "g", "--max", "0"], "--max"),
        (["receive", "orders", "--group", "g", "--command-property", "group.id=x"], "use --group"),
        (["receive", "orders", "--group", "g", "--command-property", "fetch.min.bytes=x"], "fetch.min.bytes"),
        (["work", "orders", "--group", "g"], "no command given"),
        (["work", "orders", "--group", "g", "--", "no-such-command"], "no-such-command: no such command"),
        (["accept"], "no handle given"),
        (["delete"], "no group given"),
        (["reset", "g", "--to-latest"], "no partitions given"),
        (["reset", "g", "--topic", "t"], "no new offset given"),
        (["reset", "g", "--topic", "t", "--to-latest", "--execute", "--dry-run"], "can't be used together"),
    ],
)
def test_invalid_arguments_are_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err


def test_the_words_after_two_dashes_belong_to_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["work", "orders", "--group", "g", "--", "no-such-command", "--help", "-"]) == 2
    assert "no-such-command: no such command" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("10s", 10), ("1.5m", 90), ("2h", 7200), ("0s", 0)])
def test_waiting_times_have_a_unit(text: str, seconds: float) -> None:
    assert parse_wait(text, "--wait") == seconds
