"""The answer to a request that comes a moment later, without a task: it waits for a write that other requests share.

Such a request does not delay the next one of the same kind on its connection, so that both can share the write. The
connection sends the answers in order. A request of another kind waits for them: it may ask for what they write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from barnabas.common.errors import invariant

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["PromisedAnswer", "PromisedAnswers"]

T = TypeVar("T")


_ANSWERS_MAX: Final = 100
"""Answers of one connection; further requests wait."""

Pieces = Sequence[bytes | memoryview] | None


class PromisedAnswer(Generic[T]):
    """A handler's response, which its maker gives. It can be awaited, as any answer that comes later."""

    __slots__ = ("_listener", "_response", "encode", "is_given")

    def __init__(self) -> None:
        self.is_given = False
        self.encode: Callable[[T], Pieces] | None = None
        """Makes the answer of the response; raises CloseConnection if that is impossible."""
        self._response: T | None = None
        self._listener: Callable[[], None] | None = None

    def give(self, response: T) -> None:
        invariant(not self.is_given, "gave the answer of a request twice")
        self._response = response
        self.is_given = True
        if self._listener is not None:
            self._listener()

    def when_given(self, listener: Callable[[], None]) -> None:
        """Call the only listener, immediately if the response was given already."""
        self._listener = listener
        if self.is_given:
            listener()

    def take(self) -> Any:
        """Return the pieces of the answer, None if there is none to send; the response if nothing encodes it.

        Raises CloseConnection.
        """
        invariant(self.is_given, "took the answer of a request before it was given")
        response = cast(T, self._response)
        return response if self.encode is None else self.encode(response)

    def __await__(self) -> Generator[object, None, Any]:
        if not self.is_given:
            given = asyncio.get_running_loop().create_future()
            self.when_given(lambda: None if given.done() else given.set_result(None))
            yield from given.__await__()
        return self.take()


class PromisedAnswers:
    """The answers of one connection that are sent after a promised one, in the order of their requests."""

    __slots__ = ("_answers", "_kind")

    def __init__(self, frame: bytearray) -> None:
        """``frame``: the first request whose answer is promised. Only requests of its API may be handled before it is
        given.
        """
        self._kind = frame[:2]
        self._answers: deque[PromisedAnswer[Any]] = deque()

    def __bool__(self) -> bool:
        return bool(self._answers)

    def delay(self, frame: bytearray) -> bool:
        """Return whether the next request must wait until these answers are given."""
        return frame[:2] != self._kind or len(self._answers) >= _ANSWERS_MAX

    def are_all_given(self) -> bool:
        return all(answer.is_given for answer in self._answers)

    def add(self, answer: PromisedAnswer[Any]) -> None:
        self._answers.append(answer)

    def add_given(self, answer: Callable[[None], Pieces]) -> None:
        """Add an answer that only waits for those before it."""
        promised: PromisedAnswer[None] = PromisedAnswer()
        promised.encode = answer
        promised.give(None)
        self.add(promised)

    def pop_given(self) -> PromisedAnswer[Any] | None:
        """Remove and return the next answer to send; None if it is not given yet."""
        return self._answers.popleft() if self._answers and self._answers[0].is_given else None
