"""Three brokers and three controllers under faults; their clients' histories prove that no guarantee was violated.

`make history` runs this for any duration, with any seed, on ours, Kafka's, or both in one cluster.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.history.run import Options, run_history

SECONDS = float(os.environ.get("BARNABAS_HISTORY_SECONDS", "30"))

pytestmark = [
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.timeout(400 + 3 * SECONDS),
    # Warnings of the client libraries are not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.mark.parametrize("seed", [1, 2])
def test_no_guarantee_is_violated_under_faults(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run_history(tmp_path, Options(seed=seed, seconds=SECONDS))
    with capsys.disabled():
        print(
            f"\nseed {seed}, {SECONDS:.0f} s: {len(report.log)} faults, {report.counts['producers: acknowledged']}"
            f" records acknowledged, {report.counts['readers: read']} read, {report.counts['commits']} commits,"
            f" {report.counts['admin: acknowledged']} admin calls, {len(report.violations)} violations"
        )
    assert [str(violation) for violation in report.violations][:10] == [], "\n".join(report.log)
    assert report.counts["producers: acknowledged"] > 1000
