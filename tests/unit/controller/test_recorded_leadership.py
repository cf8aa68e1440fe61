"""For the same events of brokers and partitions, our controller writes the records that a real Kafka 4.3.1 wrote."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.metadata.bootstrap import bootstrap_records
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.protocol.api_keys import ApiKey
from tests.peers.leadership_scribe import LeadershipScribe, Versioned
from tests.peers.leadership_story import LeadershipStory, Pause, StepResult
from tests.unit.controller.controller_harness import CLUSTER_ID, ControllerHarness

RECORDED = Path(__file__).parents[2] / "vectors" / "controller"
SESSION_MS = 2_500
KNOWS_DYNAMIC_QUORUMS = 21


class Recording(NamedTuple):
    seed: int
    steps: int
    metadata_version: int = 30
    features: dict[str, int] | None = None
    changes_features: bool = False

    @property
    def path(self) -> Path:
        return RECORDED / f"leadership-{self.seed}-4.3.1.jsonl.gz"


RECORDINGS = [
    Recording(1, 400),
    Recording(2, 400, features={"eligible.leader.replicas.version": 0}),
    Recording(3, 300, metadata_version=10),
    Recording(4, 400),
    Recording(5, 400),
    Recording(6, 400),
    Recording(7, 400),
    Recording(8, 400),
    Recording(12, 400),
    Recording(21, 400, changes_features=True),
    Recording(22, 400, changes_features=True),
]


class RecordingHarness(ControllerHarness):
    """Keeps the appended records, with their versions."""

    def __init__(self, recording: Recording) -> None:
        bootstrap = bootstrap_records(MetadataVersion(recording.metadata_version), recording.features)
        super().__init__(node_id=3000, broker_session_timeout_ms=SESSION_MS, bootstrap=bootstrap)
        self.written: list[Versioned] = []

    def append(self) -> None:
        self.written.extend(record for append in self.controller._appends for record in append.records)
        super().append()

    def taken(self) -> list[Versioned]:
        written, self.written = self.written, []
        return written


def steps_of(recording: Recording) -> Iterator[dict[str, Any]]:
    harness = RecordingHarness(recording)
    harness.controller.features.kraft_version = 1 if recording.metadata_version >= KNOWS_DYNAMIC_QUORUMS else 0
    story = LeadershipStory(CLUSTER_ID, recording.seed, recording.steps, changes_features=recording.changes_features)
    scribe = LeadershipScribe(story)
    harness.activate()
    yield scribe.entry("the beginning", None, 0, harness.taken())
    following = story.steps()
    step = next(following)
    while True:
        answer, version = None, 0
        if isinstance(step, Pause):
            pause(harness, story)
        else:
            version = step.version
            answer = call(harness, step.request, version)
        records = harness.taken()
        yield scribe.entry(step.name, answer, version, records)
        try:
            step = following.send(StepResult(answer, [record for record, _ in records]))
        except StopIteration:
            assert harness.faults == []
            return


def pause(harness: ControllerHarness, story: LeadershipStory) -> None:
    for _ in range(SESSION_MS // 250 + 3):
        harness.clock.ms += 250
        for broker in list(story.sessions):
            call(harness, story.heartbeat(broker), 1)
        harness.controller.tick(harness.clock.ms)
        harness.settle()


def call(harness: ControllerHarness, request: Any, version: int) -> Any:
    module = import_module(f"barnabas.controller.apis.{ApiKey(request.API_KEY).name.lower()}")
    return harness.call(module.handle, request, version)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda record: str(record.seed))
def test_responses_and_records_are_kafkas(recording: Recording) -> None:
    with gzip.open(recording.path, "rt", encoding="utf-8") as lines:
        recorded = [json.loads(line) for line in lines]
    for number, (kafkas, ours) in enumerate(zip(recorded, steps_of(recording), strict=True)):
        assert ours == kafkas, f"step {number}"
