"""Invent calls on share-partitions, and record the answers of Kafka's own class to them.

::

    python -m tests.peers.record_share_partition FILE.json.gz [STORIES] [SEED]

The calls of a story are chosen along our share-partition, so that most of them make sense. Where it differs from
Kafka's, which ``docs/kips/kip-932.md`` lists, stories keep away.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from barnabas.coordinator.share_partition.in_flight_batch import InFlightRange
from barnabas.coordinator.share_partition.record_state import RecordState
from tests.peers.java import run_source
from tests.peers.share_partition_script import ScriptedSharePartition, normalized

MEMBERS = ("a", "b", "c")
LOCK_MS = 1000
STEPS = 40


class Log:
    """Batches of random sizes; compaction removes whole ones. Some are of producers whose transactions end."""

    def __init__(self, chance: random.Random, *, size: int, has_transactions: bool) -> None:
        self.batches: list[tuple[int, int, str]] = []
        self.aborted: list[tuple[int, int]] = []
        offset, open_since = 0, -1
        while offset < 3000:
            last = offset + chance.randrange(size)
            producer = f":{7}:0" if has_transactions and chance.random() < 0.5 else ""
            if producer and open_since < 0:
                open_since = offset
            self.batches.append((offset, last, producer))
            offset = last + 1
            if open_since >= 0 and chance.random() < 0.4:
                is_abort = chance.random() < 0.6
                if is_abort:
                    self.aborted.append((7, open_since))
                self.batches.append((offset, offset, f":7:{1 if is_abort else 2}"))
                offset, open_since = offset + 1, -1

    def read(self, offset: int, count: int) -> list[tuple[int, int, str]]:
        index = next(index for index, batch in enumerate(self.batches) if batch[1] >= offset)
        return self.batches[index : index + count]

    def compact(self, chance: random.Random, first: int, last: int) -> None:
        self.batches = [
            batch for batch in self.batches if not (first <= batch[0] and batch[1] <= last and chance.random() < 0.4)
        ]


class Story:
    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.kind = chance.choice(["plain", "plain", "small", "poison", "gaps", "transactions", "compacted"])
        self.log = Log(chance, size=24 if self.kind == "poison" else 8, has_transactions=self.kind == "transactions")
        self.ours = ScriptedSharePartition()
        self.lines: list[str] = []

    def tell(self) -> list[str]:
        self._say(self._beginning())
        for _ in range(STEPS):
            self._say(self._step())
        return self.lines

    def _say(self, line: str) -> None:
        self.lines.append(line)
        self.ours.run(line)

    def _beginning(self) -> str:
        chance = self.chance
        in_flight = chance.choice([10, 15, 25]) if self.kind == "small" else chance.choice([60, 2000])
        deliveries = chance.choice([2, 3, 5, 6, 10]) if self.kind == "poison" else chance.choice([2, 5, 5])
        if self.kind in ("transactions", "compacted"):
            in_flight = 2000
        start = chance.choice(self.log.batches[:6])[0] if self.kind == "transactions" else chance.randrange(30)
        batches = self._stored(start) if self.kind == "gaps" else []
        return f"new {start} {in_flight} {deliveries} {LOCK_MS} {','.join(batches)}".rstrip()

    def _stored(self, start: int) -> list[str]:
        batches, offset = [], start + self.chance.choice([0, 0, 3])
        for _ in range(self.chance.randrange(1, 6)):
            last = offset + self.chance.randrange(6)
            state = self.chance.choice([0, 0, 2, 4])
            batches.append(f"{offset}-{last}:{state}:{self.chance.randrange(1, 3)}")
            offset = last + 1 + self.chance.choice([0, 0, 2, 5])
        return batches

    def _step(self) -> str:
        weights = {"acquire": 8, "ack": 7, "release": 1, "advance": 3, "persister": 2, "finish": 3, "start": 1}
        if self.kind == "poison":
            weights.update(release=5, ack=3, start=0)
        while True:
            name = self.chance.choices(list(weights), list(weights.values()))[0]
            line = getattr(self, f"_{name}")()
            if line is not None:
                return str(line)

    def _acquire(self) -> str | None:
        chance, partition = self.chance, self.ours.partition
        offset = partition.next_fetch_offset()
        if offset is None:
            offset = partition.end_offset + 1
        if self.kind == "compacted":
            if self.ours.waiting:
                return None  # Kafka's class may fail: it cuts a batch in transition, and finds its lock afterwards.
            self.log.compact(chance, partition.start_offset, partition.end_offset)
        batches = self.log.read(offset, chance.randrange(1, 6))
        last = batches[-1][1]
        aborted = [f"{producer}:{first}" for producer, first in self.log.aborted if first <= last]
        return (
            f"acquire {chance.choice(MEMBERS)} {int(chance.random() < 0.35)} {chance.choice([1, 3, 5, 100])} "
            f"{chance.choice([1, 3, 8, 20, 500])} {offset} "
            + ",".join(f"{first}-{last}{producer}" for first, last, producer in batches)
            + (f" {','.join(aborted)}" if aborted else "")
        )

    def _ack(self) -> str | None:
        chance = self.chance
        member = chance.choice(MEMBERS)
        held = [part for part in self._parts() if part.state is RecordState.ACQUIRED]
        if chance.random() < 0.9:
            held = [part for part in held if part.member_id == member]
        if not held:
            return None
        chosen = sorted(chance.sample(held, min(len(held), chance.randrange(1, 4))), key=lambda part: part.first_offset)
        return f"ack {member} " + ",".join(self._acknowledged(part) for part in chosen)

    def _acknowledged(self, part: InFlightRange) -> str:
        chance = self.chance
        first, last = part.first_offset, part.last_offset
        if chance.random() < 0.4:
            first = chance.randint(first, last)
            last = chance.randint(first, last)
        if chance.random() < 0.03:
            last += 1
        types = [0, 1, 1, 1, 2, 2, 3, 4]
        if chance.random() < 0.5:
            return f"{first}-{last}:{chance.choice(types)}"
        each = [str(chance.choice(types)) for _ in range(first, last + 1)]
        if chance.random() < 0.03:
            each[-1] = "7"
        return f"{first}-{last}:{'/'.join(each)}"

    def _release(self) -> str:
        return f"release {self.chance.choice(MEMBERS)}"

    def _advance(self) -> str | None:
        return None if self.ours.persister == "wait" else f"advance {self.chance.choice([100, 400, LOCK_MS])}"

    def _persister(self) -> str:
        return f"persister {self.chance.choice(['ok', 'ok', 'wait', 'wait', 'fail'])}"

    def _finish(self) -> str | None:
        if not self.ours.waiting:
            return None
        start = self.ours.partition.start_offset
        if any(part.first_offset < start for part in self.ours.waiting[0].ranges):
            return "finish ok"  # Kafka's class could make records before the start offset available.
        return f"finish {self.chance.choice(['ok', 'ok', 'fail'])}"

    def _start(self) -> str | None:
        """Kafka's class loses the transition of a batch that the log's start cuts, and the gaps before it; after a log
        start beyond all batches its start offset goes back; and it fails at an aborted batch that is cut."""
        partition = self.ours.partition
        first, last = partition.start_offset + 1, partition.end_offset
        if (
            self.kind in ("gaps", "transactions")
            or last < first
            or any(part.write is not None for part in self._parts())
        ):
            return None
        return f"start {self.chance.randint(first, last)}"

    def _parts(self) -> Iterator[InFlightRange]:
        for batch in self.ours.partition.in_flight_batches:
            yield from batch.ranges


def record(stories: Sequence[Story]) -> list[dict[str, Any]]:
    told = [(story.kind, story.tell()) for story in stories]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as script:
        script.write("".join(f"{line}\n" for _, lines in told for line in lines))
        script.flush()
        answers = iter(run_source("SharePartitionScript", script.name, timeout_s=600).splitlines())
    return [
        {"kind": kind, "steps": [[line, _compact(normalized(json.loads(next(answers))))] for line in lines]}
        for kind, lines in told
    ]


def _compact(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if value is not None}


def main() -> None:
    path, *numbers = sys.argv[1:]
    count, seed = (int(numbers[index]) if len(numbers) > index else default for index, default in ((0, 60), (1, 1)))
    recorded = record([Story(seed + index) for index in range(count)])
    data = json.dumps(recorded, separators=(",", ":")).encode()
    Path(path).write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{sum(len(story['steps']) for story in recorded)} steps")


if __name__ == "__main__":
    main()
