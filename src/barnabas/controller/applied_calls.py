"""Remembers which forwarded calls took effect, and their answers, so that no call is applied twice.

A barnabas broker numbers its calls. When an answer is lost, or the controller changes, the broker sends the call again
with the same number, and cannot know whether it was applied. The records of a numbered call end with a marker: a
NoOpRecord with the number and the answer in a tagged field, which other readers of the log ignore. The marker is last,
so that its presence proves that the whole result was written; a result that is cut into batches and breaks off may be
decided again. Every replica that replays the log learns the call from it, also a controller that becomes active later.

An answer with secrets is not kept, nor one that does not fit into its batch: then it is only known that the call was
applied. The configs of created topics, by far the largest part of a long answer, are omitted: ``restore_configs`` of
``controller.apis.create_topics`` computes them again from the request. Calls are forgotten when no broker retries them
any longer. A controller that starts from a snapshot does not know the calls in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from barnabas.controller import decision_steps
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.envelope_tags import CALL_ID_SIZE, CALL_TAG
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.stepped_writing import write_in_steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.common.clock import Clock
    from barnabas.metadata.loader import CommittedBatch
    from barnabas.protocol.schema import Message

__all__ = ["AppliedCall", "AppliedCalls"]

T = TypeVar("T")

Call = tuple[bytes, int]
"""The call's id, and the version of its API."""

KEEP_MS: Final = 180_000
"""Three times as long as a broker retries."""
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Half of a batch of the metadata log: larger than the answer to the most changes of one call."""
_TOTAL_BYTES_MAX: Final = 16 * 1024 * 1024
_ENTRY_BYTES: Final = 200

_MARK_BYTES: Final = 64
"""The size of a mark without its body."""

_HEAD = Struct(">16sh")


class AppliedCall(NamedTuple):
    """``body`` is the answer without its header, in that version of the API; None where it was not kept."""

    api_version: int
    body: bytes | None


class AppliedCalls:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls: OrderedDict[bytes, tuple[int, AppliedCall]] = OrderedDict()
        self._bytes = 0
        self.deciding: Call | None = None
        """The call that current decisions belong to."""

    def find(self, call_id: bytes) -> AppliedCall | None:
        """The known state of a committed call."""
        found = self._calls.get(call_id)
        return None if found is None else found[1]

    # --- deciding

    def begin(self, call_id: bytes, api_version: int) -> None:
        """Assign decisions until ``end`` to this call."""
        self.deciding = (call_id, api_version)

    def end(self) -> None:
        self.deciding = None

    @contextmanager
    def deciding_for(self, call: Call | None) -> Iterator[None]:
        """Assign decisions in this context to that call, or to no call."""
        before, self.deciding = self.deciding, call
        try:
            yield
        finally:
            self.deciding = before

    def marked(self, result: ControllerResult[T], *, room_bytes: int) -> Steps[ControllerResult[T]]:
        """Return the same result, with the call in its last record, which may have ``room_bytes``."""
        deciding = self.deciding
        room_bytes -= _MARK_BYTES
        if deciding is None or not result.records or room_bytes < 0:
            return result
        call_id, api_version = deciding
        body = yield from _body(result, api_version, min(room_bytes, BODY_BYTES_MAX))
        mark = NoOpRecord(unknown_tags=[(CALL_TAG, _HEAD.pack(call_id, api_version) + body)])
        records = (*result.records, ApiMessageAndVersion(mark, 0))
        return ControllerResult(records, result.response, is_atomic=result.is_atomic)

    # --- following the log

    def replay(self, batches: Iterable[CommittedBatch]) -> None:
        for batch in batches:
            for record in batch.records:
                if type(record) is NoOpRecord and record.unknown_tags:
                    self._replay(record.unknown_tags)

    def _replay(self, tags: Iterable[tuple[int, bytes]]) -> None:
        for tag, data in tags:
            if tag == CALL_TAG and len(data) >= _HEAD.size:
                call_id, api_version = _HEAD.unpack_from(data)
                self._add(call_id, AppliedCall(api_version, data[_HEAD.size :] or None))

    def _add(self, call_id: bytes, call: AppliedCall) -> None:
        now_ms = self._clock.monotonic_ms()
        if call_id not in self._calls:
            self._bytes += _size(call)
            self._calls[call_id] = (now_ms, call)
        while self._calls:
            oldest = next(iter(self._calls))
            added_ms, known = self._calls[oldest]
            if now_ms - added_ms < KEEP_MS and self._bytes <= _TOTAL_BYTES_MAX:
                break
            del self._calls[oldest]
            self._bytes -= _size(known)


def _size(call: AppliedCall) -> int:
    return _ENTRY_BYTES + CALL_ID_SIZE + len(call.body or b"")


def _body(result: ControllerResult[Any], api_version: int, bytes_max: int) -> Steps[bytes]:
    """Return nothing for an answer that must not be kept."""
    fields = getattr(type(result.response), "FIELDS", None)
    if fields is None or any(field.secret for field in fields):
        return b""
    response = yield from _without_configs(result.response)
    chunks: list[bytes] = []
    yield from write_in_steps(response, api_version, chunks)
    body = b"".join(chunks)
    return body if len(body) <= bytes_max else b""


def _without_configs(response: Message) -> Steps[Message]:
    if not isinstance(response, CreateTopicsResponse):
        return response
    topics = []
    pace = Pace(decision_steps.VALUES_A_STEP)
    for described in response.topics:
        topic = copy(described)
        topic.configs = None
        topics.append(topic)
        if pace.is_reached():
            yield
    return CreateTopicsResponse(throttle_time_ms=response.throttle_time_ms, topics=topics)
