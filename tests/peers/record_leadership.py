"""Run a ``LeadershipStory`` on a real Kafka's controller, and record its answers and its log records.

::

    python -m tests.peers.record_leadership FOLDER SEED STEPS [--static] [--changes-features] [FORMAT-OPTION ...]

It starts a controller without a broker, in an empty folder. The options are those of ``barnabas storage format``;
``--static`` is for levels that only support static quorums; with ``--changes-features`` ELR is enabled and disabled.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.record_serde import decode_metadata_record
from tests.interop.raw_client import RawClient
from tests.peers.leadership_scribe import LeadershipScribe, Versioned
from tests.peers.leadership_story import LeadershipStory, Pause, StepResult
from tests.peers.quorums import RealController, new_quorum

SESSION_MS = 2_500
SETTINGS = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "auto.leader.rebalance.enable": "false",
    "unclean.leader.election.interval.ms": "100000000",
    "metadata.log.max.record.bytes.between.snapshots": "1000000000",
}
FIRST_ENOUGH_S = 1.0


class LogTail:
    """Reads what was appended to the first segment of a controller's log since the last read."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "data" / "__cluster_metadata-0" / f"{0:020}.log"
        self._position = 0

    def records(self) -> Iterator[Versioned]:
        with self._path.open("rb") as log:
            log.seek(self._position)
            data = log.read()
        try:
            for batch in iter_batches(data):
                self._position += batch.size
                if not batch.is_control:
                    for record in batch.records():
                        yield decode_metadata_record(record.value or b"")
        except DecodeError:
            return  # The batch is not complete yet.


class Kafka:
    """A controller under a story, with the heartbeats of the story's brokers in between."""

    def __init__(self, port: int, story: LeadershipStory) -> None:
        self._client = RawClient(port)
        self._story = story
        self._last: dict[int, float] = {}

    def call(self, request: Any, version: int) -> Any:
        # A broker that has sent nothing since it was unfenced keeps a leaving broker from leaving.
        leaves = isinstance(request, BrokerHeartbeatRequest) and request.want_shut_down
        self.keep_in_touch(0 if leaves else FIRST_ENOUGH_S, leaving=request.broker_id if leaves else -1)
        answer = self._client.call(request, version)
        for broker in self._story.sessions:
            self._last.setdefault(broker, time.monotonic())
        return answer

    def keep_in_touch(self, idle_s: float, *, leaving: int = -1) -> None:
        for broker in list(self._story.sessions):
            if broker != leaving and time.monotonic() - self._last.get(broker, 0) > idle_s:
                self._client.call(self._story.heartbeat(broker), 1)
                self._last[broker] = time.monotonic()
        for gone in set(self._last) - set(self._story.sessions):
            del self._last[gone]

    def pause(self) -> None:
        end = time.monotonic() + SESSION_MS / 1000 + 0.8
        while time.monotonic() < end:
            self.keep_in_touch(0.3)
            time.sleep(0.1)


def recorded(folder: Path, port: int, story: LeadershipStory) -> Iterator[dict[str, Any]]:
    scribe, tail, kafka = LeadershipScribe(story), LogTail(folder), Kafka(port, story)
    yield scribe.entry("the beginning", None, 0, tail.records())
    following = story.steps()
    step = next(following)
    while True:
        answer, version = None, 0
        if isinstance(step, Pause):
            kafka.pause()
        else:
            version = step.version
            answer = kafka.call(step.request, version)
        records = list(tail.records())
        yield scribe.entry(step.name, answer, version, records)
        try:
            step = following.send(StepResult(answer, [record for record, _ in records]))
        except StopIteration:
            return


def main(folder: Path, seed: int, steps: int, *options: str) -> None:
    is_static, changes_features = "--static" in options, "--changes-features" in options
    options = tuple(option for option in options if option not in ("--static", "--changes-features"))
    quorum = new_quorum(folder, [RealController], is_static=is_static, settings=SETTINGS, options=options)
    try:
        quorum.start()
        controller = quorum.controllers[0]
        time.sleep(2)
        story = LeadershipStory(quorum.cluster_id, seed, steps, changes_features=changes_features)
        for line in recorded(controller.folder, controller.controller_port, story):
            print(json.dumps(line, sort_keys=True), flush=True)
    finally:
        quorum.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
