"""The page of replication's figures: higher is better for rates, lower is better for everything else."""

from __future__ import annotations

from bench.replication import ReplicationSizes
from bench.replication_report import replication_page

KAFKA = [{"produce with acks=all, MB/s": 30.0, "1,000 leaders move, killed broker, s": 4.0, "memory, KiB": 0.0}]
OURS = [{"produce with acks=all, MB/s": 15.0, "1,000 leaders move, killed broker, s": 3.0, "memory, KiB": 0.0}]


def test_each_figure_has_a_ratio_and_a_verdict() -> None:
    page = replication_page({"kafka": KAFKA, "barnabas": OURS}, ReplicationSizes())
    assert "| produce with acks=all, MB/s | 30 | 15 | 0.5 |" in page
    assert "- **does not hold yet**: produce with acks=all, MB/s (ratio 0.5)" in page
    assert "- holds: 1,000 leaders move, killed broker, s (ratio 1.33)" in page
    assert "- holds: memory, KiB (ratio 1)" in page


def test_the_page_states_how_much_was_measured() -> None:
    page = replication_page({"kafka": KAFKA, "barnabas": OURS}, ReplicationSizes(moved_mb=77, partitions=1_234))
    assert "77 MB in all" in page
    assert "1,234 partitions" in page
