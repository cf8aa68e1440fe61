"""State batches are combined as Kafka's share coordinator combines them."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.coordinator.share.state_batches import CombinedBatches, combine
from tests.interop.walks import walk_seeds
from tests.peers.share_state_batches import combined_by_kafka, questions

pytestmark = pytest.mark.interop

SEED = walk_seeds(19)[0]
COUNT = 3_000


def test_batches_are_combined_as_kafka_does(kafka_peer: Path, tmp_path: Path) -> None:
    asked = questions(SEED, COUNT)
    for question, expected in zip(asked, combined_by_kafka(asked, tmp_path), strict=True):
        seen = combine(CombinedBatches(question.stored, is_joined=False), question.written, question.start_offset)
        assert seen.batches == expected, f"seed {SEED}: {question}"
