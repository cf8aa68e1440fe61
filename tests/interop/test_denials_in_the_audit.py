"""For every case of the ACL table our audit logs the denials that a real Kafka logs, in Kafka's words.

``tests/vectors/acl_matrix/denials.json`` was recorded with ``python -m tests.peers.record_denials``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.command_node import CommandNode
from tests.peers.record_acl_matrix import read_recorded
from tests.peers.record_denials import denials_of_all_cases

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

RECORDED = read_recorded(Path(__file__).parent.parent / "vectors" / "acl_matrix" / "denials.json")

LISTED = "DescribeTopicPartitions of all"
"""An entry that a listing omits is not an attempt. Kafka agrees for Metadata, and logs a line per topic for this
API."""

OVERLOOKED_BY_KAFKA = "DescribeGroups with an asterisk before the name"
"""Kafka denies what the ACLs of ``*`` allow for such a name."""


def test_each_case_logs_the_denials_that_kafka_logs(tmp_path: Path) -> None:
    node = CommandNode(tmp_path, settings={"barnabas.audit.denials.per.window": "1000"})
    ours = denials_of_all_cases(node)
    assert len(ours) > 1500
    differences = []
    for case, lines in ours.items():
        expected = _with_our_exceptions(case[0], RECORDED[case])
        if case[0] != OVERLOOKED_BY_KAFKA and _with_our_exceptions(case[0], lines) != expected:
            differences.append(f"{case}\n  Kafka: {expected}\n  ours:  {lines}")
    assert not differences, f"{len(differences)} of {len(ours)}\n" + "\n".join(differences[:10])


def _with_our_exceptions(row: str, lines: list[str]) -> list[str]:
    """Kafka authorizes an empty name for an unknown topic id; we report a principal that may write to no topic. The
    number of tokens of other cases depends on the time that passed.
    """
    if row == LISTED:
        return []
    left_out = (" Topic:LITERAL: ", " Topic:ANY:* InitProducerId", "<another>")
    return [line for line in lines if not any(text in line for text in left_out)]
