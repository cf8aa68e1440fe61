"""A topic with one partition in memory, and a worker's view of it."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.connect.world import World

__all__ = ["SharedTopic", "TopicView"]

_BROKERS = "brokers"


class SharedTopic:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.records: list[tuple[bytes, bytes | None]] = []
        self.refuses_writes = False
        self._views: list[TopicView] = []

    def append(self, records: list[tuple[bytes, bytes | None]]) -> None:
        self.records += records
        for view in self._views:
            view.fetch_soon()

    def open(self, worker: str, received: Callable[[bytes, bytes | None, int], None]) -> TopicView:
        view = TopicView(self, worker, received)
        self._views.append(view)
        return view

    def close(self, view: TopicView) -> None:
        self._views.remove(view)


class TopicView:
    """A worker's access to a topic. ``received`` is called with every record in order, some time after its write."""

    def __init__(self, topic: SharedTopic, worker: str, received: Callable[[bytes, bytes | None, int], None]) -> None:
        self._topic = topic
        self._world = topic.world
        self._worker = worker
        self._received = received
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._is_fetching = False
        self.position = 0
        self.is_closed = False

    @property
    def _is_connected(self) -> bool:
        return self._world.reaches(self._worker, _BROKERS)

    def fetch_soon(self) -> None:
        if not self._is_fetching and not self.is_closed and self.position < len(self._topic.records):
            self._is_fetching = True
            self._world.after(self._world.delay_ms(), self._fetch)

    def _fetch(self) -> None:
        self._is_fetching = False
        if self.is_closed:
            return
        if not self._is_connected:
            self._is_fetching = True
            self._world.after(200, self._fetch)
            return
        end = len(self._topic.records)
        while self.position < end:
            key, value = self._topic.records[self.position]
            self.position += 1
            self._received(key, value, self.position - 1)
        reached = [done for offset, done in self._waiting if offset <= self.position]
        self._waiting = [entry for entry in self._waiting if entry[0] > self.position]
        for done in reached:
            done()
        self.fetch_soon()

    def write(
        self,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[], None],
        failed: Callable[[str], None],
        is_allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        """``is_allowed`` is evaluated when the records arrive."""

        def arrive() -> None:
            if self.is_closed:
                return  # The write ended with the process.
            if not self._is_connected or self._topic.refuses_writes or not is_allowed():
                self._world.after(self._world.delay_ms() + 100, lambda: failed("the write was refused"))
                return
            self._topic.append(records)
            is_lost = self._world.random.random() < 0.01
            self._world.after(
                self._world.delay_ms(), (lambda: failed("the acknowledgement was lost")) if is_lost else done
            )

        self._world.after(self._world.delay_ms(), arrive)

    def read_to_end(self, timeout_ms: float, done: Callable[[], None], failed: Callable[[str], None]) -> None:
        is_over = False

        def finish() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                done()

        def expire() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                failed("the end of the topic was not reached in time")

        def begin() -> None:
            if self._is_connected:
                self._waiting.append((len(self._topic.records), finish))
                self._is_fetching = True
                self._fetch()

        self._world.after(timeout_ms, expire)
        self._world.after(self._world.delay_ms(), begin)
