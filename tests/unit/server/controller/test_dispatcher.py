"""Envelopes are opened and answered as by a real Kafka 4.3.1, and no client delays a broker's connection."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.config_value import Password
from barnabas.common.errors import ErrorCode
from barnabas.network.request_metrics import ApiStats
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.envelope_tags import committed_offset_of, set_call_id
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.protocol.messages.envelope import EnvelopeResponse
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.principal_serde import serialize_principal
from barnabas.server.controller.api_handlers import SERVED_ON_CONTROLLER_LISTENERS, ControllerHandlers
from barnabas.server.controller.dispatcher import ControllerDispatcher
from tests.peers.envelope_requests import EnvelopeCase, envelope_of, envelopes
from tests.peers.record_envelope_answers import answer_of
from tests.unit.controller.controller_harness import ControllerHarness, topic

RECORDED = Path(__file__).parents[3] / "vectors" / "forwarding" / "envelope-answers-4.3.1.jsonl.gz"
HEADER = bytes.fromhex("003a0000000000090006") + b"broker" + b"\0"
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
DENIED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
ALICE = Principal("User", "alice")


class Connection(SimpleNamespace):
    """The parts of a connection that a dispatcher uses."""

    def __init__(self, principal: Principal = ANONYMOUS) -> None:
        super().__init__(
            principal=principal, peer_host="127.0.0.1", listener_name="CONTROLLER", connection_id="1", rested=[]
        )

    def rest(self, seconds: float) -> None:
        self.rested.append(seconds)


class World:
    def __init__(self, *, is_loaded: bool = True, hold_timeout_s: float = 1.0) -> None:
        secret = Password("a-secret-for-this-run")
        self.harness = ControllerHarness(delegation_token_secret_key=secret).activate()
        self.harness.start_broker(1)
        self.authorizer = StandardAuthorizer()
        self.authorizer.configure({"super.users": str(ANONYMOUS)})
        self.ready = asyncio.Event()
        if is_loaded:
            self.load()
        self.stats: dict[ApiKey, ApiStats] = {}
        self.dispatcher = ControllerDispatcher(
            server=self.harness.controller,
            handlers=ControllerHandlers(SERVED_ON_CONTROLLER_LISTENERS),
            authorizer=self.authorizer,
            stats=self.stats,
            ready=self.ready,
            hold_timeout_s=hold_timeout_s,
        )

    def load(self) -> None:
        self.authorizer.complete_initial_load()
        self.ready.set()

    async def ask(self, body: bytes, connection: Connection) -> EnvelopeResponse:
        answer: Any = self.dispatcher.process(connection, bytearray(HEADER + body))  # type: ignore[arg-type]
        if isinstance(answer, Awaitable):
            waiting = asyncio.ensure_future(answer)
            while not waiting.done():
                await asyncio.sleep(0)
                self.harness.settle()
            answer = waiting.result()
        return EnvelopeResponse.decode(b"".join(answer), 0, 5)

    async def answer(self, case: EnvelopeCase) -> Any:
        sender = Principal("User", "bob") if case.as_bob else ANONYMOUS
        return answer_of(case, await self.ask(case.frame, Connection(sender)))


def envelope(request: Any, version: int, who: Principal = ALICE) -> bytes:
    return envelope_of(request, version, who=serialize_principal(who)).encode(0)


def comparable(answer: Any) -> Any:
    """Remove values that differ between runs, and the text of denials, which exposes internals in Kafka."""
    if isinstance(answer, dict):
        found = {
            key: "new" if key == "topicId" and value != ZERO_ID else comparable(value)
            for key, value in answer.items()
            if key != "throttleTimeMs"
        }
        if found.get("errorCode") in DENIED:
            found.pop("errorMessage", None)
        return found
    if isinstance(answer, list):
        return sorted((comparable(entry) for entry in answer), key=lambda entry: json.dumps(entry, sort_keys=True))
    return answer


def test_every_envelope_is_answered_as_kafka_does() -> None:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        recorded = {line["case"]: comparable(line["answer"]) for line in map(json.loads, lines)}

    async def ask_all() -> dict[str, Any]:
        world = World()
        return {case.name: comparable(await world.answer(case)) for case in envelopes()}

    ours = asyncio.run(ask_all())
    assert {name: (recorded[name], answer) for name, answer in ours.items() if answer != recorded[name]} == {}
    assert set(ours) == set(recorded)


CREATE = CreateTopicsRequest(topics=[topic("orders")])


def inside(response: EnvelopeResponse) -> CreateTopicsResponse:
    assert response.error_code == 0
    assert response.response_data is not None
    return CreateTopicsResponse.decode(response.response_data, 7, 5)


def test_an_inactive_controller_reports_it_on_the_envelope() -> None:
    async def run() -> list[EnvelopeResponse]:
        world = World()
        world.harness.controller.deactivate()
        return [
            await world.ask(envelope(CREATE, 7, ANONYMOUS), Connection()),
            await world.ask(envelope(CREATE, 7), Connection()),
        ]

    answered, denied = asyncio.run(run())
    assert (answered.error_code, answered.response_data) == (ErrorCode.NOT_CONTROLLER, None)
    assert inside(denied).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_replica_that_does_not_lead_reports_it_on_the_envelope() -> None:
    def not_leader(request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
        return DescribeQuorumResponse(error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    async def run() -> EnvelopeResponse:
        world = World()
        world.harness.controller.describe_quorum = not_leader
        return await world.ask(envelope(DescribeQuorumRequest(), 2, ANONYMOUS), Connection())

    assert asyncio.run(run()).error_code == ErrorCode.NOT_CONTROLLER


def test_a_leadership_lost_while_a_client_waits_is_reported_on_the_envelope() -> None:
    async def run() -> EnvelopeResponse:
        world = World()
        frame = bytearray(HEADER + envelope(CREATE, 7, ANONYMOUS))
        waiting: Any = world.dispatcher.process(Connection(), frame)  # type: ignore[arg-type]
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        world.harness.controller.deactivate()
        return EnvelopeResponse.decode(b"".join(await task), 0, 5)

    assert asyncio.run(run()).error_code == ErrorCode.NOT_CONTROLLER


def test_a_client_waits_for_the_acls_and_a_super_user_does_not() -> None:
    async def run() -> tuple[bool, EnvelopeResponse, EnvelopeResponse]:
        world = World(is_loaded=False)
        frame = bytearray(HEADER + envelope(CREATE, 7))
        held: Any = world.dispatcher.process(Connection(), frame)  # type: ignore[arg-type]
        waiting = asyncio.ensure_future(held)
        at_once = await world.ask(envelope(CREATE, 7, ANONYMOUS), Connection())
        was_held = not waiting.done()
        world.load()
        return was_held, at_once, EnvelopeResponse.decode(b"".join(await waiting), 0, 5)

    was_held, at_once, later = asyncio.run(run())
    assert was_held
    assert inside(at_once).topics[0].error_code == 0
    assert inside(later).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_client_that_waited_too_long_for_the_acls_receives_a_retriable_error() -> None:
    async def run() -> EnvelopeResponse:
        return await World(is_loaded=False, hold_timeout_s=0.01).ask(envelope(CREATE, 7), Connection())

    answered = inside(asyncio.run(run())).topics[0]
    assert answered.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "try again" in (answered.error_message or "")


class ThrottlesEveryClient:
    def __init__(self) -> None:
        self.throttled: list[tuple[Principal, str | None, ApiKey]] = []

    def throttle_ms(self, context: Any, response: Any, request_bytes: int, busy_s: float) -> int:
        self.throttled.append((context.principal, context.client_id, context.api_key))
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = 250
        return 250


@pytest.mark.parametrize(
    ("sender", "rests"), [(ANONYMOUS, []), (Principal("User", "bob"), [0.25])], ids=["a broker", "another client"]
)
def test_a_quota_throttles_the_client_and_not_the_broker(sender: Principal, rests: list[float]) -> None:
    async def run() -> tuple[EnvelopeResponse, Connection, ThrottlesEveryClient]:
        world, connection, quotas = World(), Connection(sender), ThrottlesEveryClient()
        world.dispatcher.quotas = quotas
        return await world.ask(envelope(CREATE, 7), connection), connection, quotas

    response, connection, quotas = asyncio.run(run())
    assert connection.rested == rests
    if not rests:
        assert quotas.throttled == [(ALICE, "terminal", ApiKey.CREATE_TOPICS)]
        assert inside(response).throttle_time_ms == 250, "the broker throttles the client"


def test_a_fault_is_an_error_inside_the_envelope_and_the_controller_stays_active() -> None:
    async def run() -> tuple[EnvelopeResponse, bool]:
        world = World()

        def breaks(*args: Any, **more: Any) -> Any:
            raise RuntimeError("a secret of ours")

        world.harness.controller.mutation_quotas.allowance = breaks  # type: ignore[method-assign]
        response = await world.ask(envelope(CREATE, 7, ANONYMOUS), Connection())
        return response, world.harness.controller.is_active

    response, is_active = asyncio.run(run())
    assert inside(response).topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert is_active
    assert b"secret" not in response.encode(0)


def test_enveloped_requests_are_counted_by_their_own_name() -> None:
    async def run() -> dict[ApiKey, ApiStats]:
        world = World()
        await world.ask(envelope(CREATE, 7), Connection())
        return world.stats

    stats = asyncio.run(run())
    assert (stats[ApiKey.CREATE_TOPICS].requests, stats[ApiKey.ENVELOPE].requests) == (1, 1)
    assert stats[ApiKey.CREATE_TOPICS].errors == {int(ErrorCode.TOPIC_AUTHORIZATION_FAILED): 1}


def test_the_decision_names_client_and_broker_in_the_audit() -> None:
    seen = []

    class Audit:
        wants_allowed = True

        def decided(self, authorizer: Any, context: Any, operation: Any, *rest: Any) -> None:
            seen.append((context.api_key, context.principal, context.client_host, context.forwarding_principal))

    async def run() -> None:
        world = World()
        world.authorizer.audit = Audit()  # type: ignore[assignment]
        await world.ask(envelope(CREATE, 7), Connection())

    asyncio.run(run())
    assert seen[0] == (ApiKey.ENVELOPE, ANONYMOUS, "127.0.0.1", None)
    assert set(seen[1:]) == {(ApiKey.CREATE_TOPICS, ALICE, "192.0.2.7", ANONYMOUS)}


CALL = bytes(range(16))


def numbered(request: Any, version: int, call_id: bytes = CALL) -> bytes:
    made = envelope_of(request, version, who=serialize_principal(ANONYMOUS))
    set_call_id(made, call_id)
    return made.encode(0)


def test_a_repeated_call_is_applied_once_and_receives_the_same_response() -> None:
    async def run() -> tuple[list[EnvelopeResponse], World]:
        world = World()
        answers = [await world.ask(numbered(CREATE, 7), Connection()) for _ in range(2)]
        return [*answers, await world.ask(numbered(CREATE, 7, bytes(16)), Connection())], world

    (first, again, another), world = asyncio.run(run())
    assert inside(first).topics[0].error_code == 0
    assert again.response_data == first.response_data
    assert inside(another).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert committed_offset_of(first) == world.harness.controller.committed_image.offset


def test_a_call_repeated_while_in_progress_receives_the_same_response() -> None:
    async def run() -> tuple[EnvelopeResponse, EnvelopeResponse]:
        world = World()
        frame = bytearray(HEADER + numbered(CREATE, 7))
        first: Any = world.dispatcher.process(Connection(), frame)  # type: ignore[arg-type]
        lost = asyncio.ensure_future(first)
        await asyncio.sleep(0)
        lost.cancel()  # The connection of the first call has ended.
        await asyncio.sleep(0)
        again: Any = world.dispatcher.process(Connection(), bytearray(frame))  # type: ignore[arg-type]
        waiting = asyncio.ensure_future(again)
        await asyncio.sleep(0)
        world.harness.settle()
        answer = EnvelopeResponse.decode(b"".join(await waiting), 0, 5)
        return answer, await world.ask(numbered(CREATE, 7), Connection())

    answer, later = asyncio.run(run())
    assert inside(answer).topics[0].error_code == 0
    assert later.response_data == answer.response_data


def test_the_next_controller_knows_what_the_last_one_applied() -> None:
    async def run() -> tuple[EnvelopeResponse, EnvelopeResponse]:
        world, successor = World(), World()
        first = await world.ask(numbered(CREATE, 7), Connection())
        harness = ControllerHarness(log=world.harness.log).activate()
        successor.harness = harness
        successor.dispatcher._server = harness.controller
        return first, await successor.ask(numbered(CREATE, 7), Connection())

    first, again = asyncio.run(run())
    assert again.response_data == first.response_data


def test_a_call_whose_answer_was_not_kept_is_not_applied_again() -> None:
    request = CreateDelegationTokenRequest(max_lifetime_ms=1000)

    async def run() -> tuple[EnvelopeResponse, EnvelopeResponse, int]:
        world = World()
        first = await world.ask(numbered(request, 3), Connection())
        again = await world.ask(numbered(request, 3), Connection())
        return first, again, len(world.harness.controller.committed_image.delegation_tokens)

    first, again, tokens = asyncio.run(run())
    codes = [
        CreateDelegationTokenResponse.decode(response.response_data or b"", 3, 5).error_code
        for response in (first, again)
    ]
    assert codes == [0, ErrorCode.REQUEST_TIMED_OUT]
    assert tokens == 1


def test_a_kafka_broker_receives_no_tags() -> None:
    async def run() -> EnvelopeResponse:
        return await World().ask(envelope(CREATE, 7, ANONYMOUS), Connection())

    assert asyncio.run(run()).unknown_tags is None
