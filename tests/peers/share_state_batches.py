"""Random state batches of share-partitions, and what Kafka's combiner makes of them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from barnabas.coordinator.share.persister import StateBatch
from tests.peers.java import run_source

__all__ = ["Question", "combined_by_kafka", "questions", "read_batches", "shown"]

_STATES = (0, 2, 4)
"""Available, acknowledged, archived: the states that leaders store."""


class Question(NamedTuple):
    start_offset: int
    stored: tuple[StateBatch, ...]
    written: tuple[StateBatch, ...]

    def __str__(self) -> str:
        return f"{self.start_offset}|{shown(self.stored)}|{shown(self.written)}"


def shown(batches: tuple[StateBatch, ...]) -> str:
    return ";".join(",".join(map(str, batch)) for batch in batches)


def read_batches(text: str) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(*map(int, batch.split(","))) for batch in text.split(";") if batch)


def questions(seed: int, count: int) -> list[Question]:
    """Return questions about few offsets, so that many batches touch, and some about many batches."""
    random = Random(seed)
    return [_question(random, 400 if number % 10 == 0 else 30) for number in range(count)]


def _question(random: Random, offsets: int) -> Question:
    density = random.choice((0.1, 0.3, 0.7))
    return Question(
        random.choice((-1, 0, random.randrange(offsets))),
        _disjoint(random, offsets, density),
        tuple(_batch(random, offsets) for _ in range(random.choice((0, 1, 1, 2, 4, 9)))),
    )


def _disjoint(random: Random, offsets: int, density: float) -> tuple[StateBatch, ...]:
    batches = []
    first = random.randrange(3)
    while first < offsets:
        last = first + random.choice((0, 0, 1, 2, 5))
        if random.random() < density:
            batches.append(StateBatch(first, last, random.choice(_STATES), random.randrange(1, 4)))
        first = last + 1
    return tuple(batches)


def _batch(random: Random, offsets: int) -> StateBatch:
    first = random.randrange(offsets)
    return StateBatch(first, first + random.choice((0, 0, 1, 3, 8)), random.choice(_STATES), random.randrange(1, 4))


def combined_by_kafka(asked: list[Question], folder: Path) -> list[tuple[StateBatch, ...]]:
    file = folder / "questions"
    file.write_text("".join(f"{question}\n" for question in asked))
    answers = run_source("ShareStateBatches", str(file)).split("\n")[: len(asked)]
    return [read_batches(answer) for answer in answers]
