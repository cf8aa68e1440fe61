"""Invent lives of share groups, and record the answers, calls and records of Kafka's own group coordinator.

::

    python -m tests.peers.record_share_group_lives FILE.json.gz [LIVES] [STEPS] [SEED]

Members join, follow, lag behind, leave and fall silent; topics are created, grow and are deleted; administrators set,
delete and describe offsets, and delete groups; the persister fails, or keeps members waiting; the coordinator moves.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from barnabas.common.uuid import Uuid
from tests.peers.java import run_source

Step = dict[str, Any]

GROUPS = ("g", "h")
TOPICS = ("orders", "payments", "audit.log", "a")
PARTITIONS_MAX = 6
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"group.share.assignment.interval.ms": "0"},
    {"group.share.max.size": "3", "group.share.assignment.interval.ms": "0"},
    {"group.share.initialize.retry.interval.ms": "6000", "group.share.heartbeat.interval.ms": "7000"},
)


class Life:
    def __init__(self, seed: int, steps: int) -> None:
        self._chance = random.Random(seed)
        self._steps = steps
        self._topics: dict[str, tuple[str, int]] = {}
        """Ids and numbers of partitions."""
        self._created = 0
        self._members = [f"m{number}" for number in range(self._chance.choice((2, 4, 9)))]
        self.settings = SETTINGS[seed % len(SETTINGS)]

    def steps(self) -> list[Step]:
        kinds = {
            self._heartbeat: 55,
            self._advance: 14,
            self._topics_change: 5,
            self._persister: 4,
            self._release: 5,
            self._describe: 4,
            self._describe_offsets: 4,
            self._alter_offsets: 3,
            self._delete_offsets: 3,
            self._delete_groups: 2,
            self._list: 2,
            self._config: 1,
            self._failover: 1,
        }
        steps = [self._topics_change()]
        while len(steps) < self._steps:
            (tell,) = self._chance.choices(list(kinds), list(kinds.values()))
            steps.append(tell())
        return steps

    def _group(self) -> str:
        return self._chance.choices(GROUPS, (3, 1))[0]

    def _names(self) -> list[str]:
        return self._chance.sample(TOPICS, self._chance.choice((1, 1, 2, 3)))

    def _heartbeat(self) -> Step:
        chance = self._chance
        epoch: Any = chance.choices(
            ("current", 0, -1, "previous", chance.randrange(1, 40), chance.choice((-2, -5))), (60, 20, 8, 5, 3, 1)
        )[0]
        names: list[str] | None = None
        if epoch == 0 or chance.random() < 0.06:
            names = self._names() if chance.random() < 0.97 else []
        request = {
            "groupId": self._group(),
            "memberId": chance.choice(self._members),
            "memberEpoch": epoch,
            "rackId": chance.choices((None, "rack-1", ""), (20, 2, 1))[0],
            "subscribedTopicNames": names,
        }
        return {"kind": "heartbeat", "client": chance.choices(("c1", "c2"), (30, 1))[0], "request": request}

    def _advance(self) -> Step:
        return {"kind": "advance", "ms": self._chance.choices((100, 1000, 5000, 31_000, 46_000), (4, 8, 4, 1, 1))[0]}

    def _topics_change(self) -> Step:
        name = self._chance.choice(TOPICS)
        if name not in self._topics:
            self._created += 1
            count = self._chance.randrange(1, PARTITIONS_MAX)
            self._topics[name] = str(Uuid.from_int(0x9E3779B97F4A7C15 * self._created)), count
            return self._change("create", name, range(count))
        topic_id, count = self._topics[name]
        if count < PARTITIONS_MAX and self._chance.random() < 0.6:
            self._topics[name] = topic_id, count + 1
            return self._change("grow", name, range(count, count + 1))
        step = self._change("delete", name, range(0))
        del self._topics[name]
        return step

    def _change(self, change: str, name: str, partitions: range) -> Step:
        topic_id, _ = self._topics[name]
        return {"kind": "topics", "change": change, "topic": name, "id": topic_id, "partitions": list(partitions)}

    def _persister(self) -> Step:
        error = self._chance.choice(("COORDINATOR_NOT_AVAILABLE", "UNKNOWN_SERVER_ERROR", "FENCED_STATE_EPOCH"))
        mode = self._chance.choices(("ok", f"{self._chance.randrange(2)} {error}"), (3, 1))[0]
        return {"kind": "persister", "mode": mode, "waits": self._chance.random() < 0.3}

    def _release(self) -> Step:
        return {"kind": "release"}

    def _describe(self) -> Step:
        return {"kind": "describe", "groups": self._chance.sample((*GROUPS, "unknown"), 2)}

    def _list(self) -> Step:
        states = self._chance.choice(([], ["Empty"], ["Stable", "Dead"]))
        return {"kind": "list", "states": states, "types": self._chance.choice(([], ["share"], ["classic"]))}

    def _delete_groups(self) -> Step:
        return {"kind": "delete groups", "groups": self._chance.sample((*GROUPS, "unknown"), 2)}

    def _alter_offsets(self) -> Step:
        topics = [
            {
                "topicName": name,
                "partitions": [
                    {"partitionIndex": partition, "startOffset": self._chance.randrange(50)}
                    for partition in self._partitions()
                ],
            }
            for name in self._names()
        ]
        return {"kind": "alter offsets", "request": {"groupId": self._group(), "topics": topics}}

    def _delete_offsets(self) -> Step:
        topics = [{"topicName": name} for name in self._names()]
        return {"kind": "delete offsets", "request": {"groupId": self._group(), "topics": topics}}

    def _describe_offsets(self) -> Step:
        wanted = [{"topicName": name, "partitions": self._partitions()} for name in self._names()]
        topics = None if self._chance.random() < 0.6 else wanted
        return {"kind": "describe offsets", "request": {"groups": [{"groupId": self._group(), "topics": topics}]}}

    def _partitions(self) -> list[int]:
        return sorted(self._chance.sample(range(PARTITIONS_MAX), self._chance.choice((1, 2, 4))))

    def _config(self) -> Step:
        group, value = self._group(), self._chance.choice(("50000", "60000", "70000"))
        return {"kind": "config", "group": group, "set": {"share.session.timeout.ms": value}}

    def _failover(self) -> Step:
        return {"kind": "failover"}


def record(seed: int, steps: int) -> Step:
    life = Life(seed, steps)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "steps.jsonl")
        lines = [life.settings, *life.steps()]
        script.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        answered = run_source("ShareGroupLives", str(script)).splitlines()
    return {"settings": life.settings, "steps": [json.loads(line) for line in answered[1:]]}


def main(file: str, lives: str = "6", steps: str = "300", seed: str = "1") -> None:
    recorded = [record(int(seed) + number, int(steps)) for number in range(int(lives))]
    text = json.dumps(recorded, separators=(",", ":"), sort_keys=True)
    Path(file).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
