"""Random requests to the share coordinator: commits, refused appends and restarts do not change what it answers."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.share.persister import NO_EPOCH, SharePartitionKey, StateBatch
from tests.unit.coordinator.share_driver import ACKNOWLEDGED, ARCHIVED, AVAILABLE, KEY, OTHER_KEY, ShareDriver

keys = st.sampled_from([KEY, OTHER_KEY])
epochs = st.integers(NO_EPOCH, 3)


@st.composite
def batches(draw: st.DrawFn) -> StateBatch:
    first = draw(st.integers(0, 12))
    state = draw(st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]))
    return StateBatch(first, first + draw(st.integers(0, 3)), state, draw(st.integers(1, 2)))


class Request:
    """One request: what it asks, and of which share-partition."""

    def __init__(self, kind: str, key: SharePartitionKey, *arguments: Any) -> None:
        self.kind = kind
        self.key = key
        self.arguments = arguments

    def __repr__(self) -> str:
        return f"{self.kind} {self.key.partition} {self.arguments}"

    def send(self, driver: ShareDriver) -> Deferred[Any]:
        if self.kind == "initialize":
            state_epoch, start_offset = self.arguments
            return driver.begin_initialize(self.key, state_epoch=state_epoch, start_offset=start_offset)
        if self.kind == "read":
            return driver.begin_read(self.key, *self.arguments)
        if self.kind == "write":
            state_epoch, leader_epoch, start_offset, written = self.arguments
            return driver.begin_write(
                *written, key=self.key, state_epoch=state_epoch, leader_epoch=leader_epoch, start_offset=start_offset
            )
        if self.kind == "delete":
            return driver.coordinator.delete(self.key, driver.now_ms)
        return driver.coordinator.read_summary(self.key, driver.now_ms)


requests = st.one_of(
    st.builds(Request, st.just("initialize"), keys, epochs, st.integers(-1, 5)),
    st.builds(Request, st.just("read"), keys, epochs),
    st.builds(
        Request, st.just("write"), keys, epochs, epochs, st.integers(-1, 14), st.lists(batches(), max_size=3).map(tuple)
    ),
    st.builds(Request, st.just("delete"), keys),
    st.builds(Request, st.just("summary"), keys),
)


def final_state(driver: ShareDriver) -> list[Any]:
    return [answer for key in (KEY, OTHER_KEY) for answer in (driver.read(key), driver.summary(key))]


@settings(max_examples=200)
@given(st.lists(st.tuples(requests, st.booleans()), max_size=25))
def test_answers_do_not_depend_on_when_writes_are_committed(history: list[tuple[Request, bool]]) -> None:
    immediate, late = ShareDriver(updates_per_snapshot=2).load(), ShareDriver(updates_per_snapshot=2).load()
    late.topic.auto_commit = False
    answers = []
    for request, commits in history:
        answers.append((request.send(immediate).value, request.send(late)))
        if commits:
            late.topic.commit(0)
    late.topic.commit(0)
    for expected, seen in answers:
        assert seen.value == expected
    assert late.topic.log(0).records() == immediate.topic.log(0).records()


@settings(max_examples=200)
@given(st.lists(st.tuples(requests, st.sampled_from(["", "", "refused", "restart"])), max_size=25))
def test_refused_appends_and_restarts_leave_the_committed_state(history: list[tuple[Request, str]]) -> None:
    driver, model = ShareDriver(updates_per_snapshot=2).load(), ShareDriver(updates_per_snapshot=2).load()
    for request, event in history:
        if event == "restart":
            driver = driver.restarted()
        if event == "refused":
            driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
            before = len(driver.topic.log(0).records())
            request.send(driver)
            driver.topic.refuse_with = None
            assert len(driver.topic.log(0).records()) == before
        else:
            assert request.send(driver).value == request.send(model).value
    driver, model = driver.restarted(), model.restarted()
    assert final_state(driver) == final_state(model)
