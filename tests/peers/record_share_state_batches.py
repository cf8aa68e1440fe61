"""Record what Kafka's share coordinator makes of random state batches.

::

    python -m tests.peers.record_share_state_batches > batches.txt

Each line has a start offset, the stored batches, the written batches, and the result.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.peers.share_state_batches import combined_by_kafka, questions, shown

_SEED, _COUNT = 932, 600


def main() -> None:
    asked = questions(_SEED, _COUNT)
    with tempfile.TemporaryDirectory() as folder:
        for question, combined in zip(asked, combined_by_kafka(asked, Path(folder)), strict=True):
            sys.stdout.write(f"{question}|{shown(combined)}\n")


if __name__ == "__main__":
    main()
