"""Every API requires the rights that Kafka 4.3.1 requires, and answers as it does: the recorded table against our node.

``tests/vectors/acl_matrix`` has a real Kafka's answers (``python -m tests.peers.record_acl_matrix``). Error texts are
our own: a denied client learns which right it lacks on which resource.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from tests.peers.acl_matrix import DENIALS, Case, cases_of, malformed_denials
from tests.peers.acl_stage import Stage, all_rows, secure_settings
from tests.peers.command_node import CommandNode
from tests.peers.record_acl_matrix import read_recorded

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

RECORDED = read_recorded(Path(__file__).parent.parent / "vectors" / "acl_matrix" / "answers.json")

NOT_SUPPORTED_YET = {
    "IncrementalAlterConfigs of a logger",  # Our loggers have other names.
}
"""Served, but a request of an allowed client is refused here with a text that says so."""

OVERLOOKED_BY_KAFKA = "DescribeGroups with an asterisk before the name"
"""Kafka's scan does not reach the ACLs of ``*`` for such a name, neither grants nor denials. Ours applies them."""

WITHOUT_RESOURCE = {
    "Transactional records need a transactional id.",  # The request names none.
    "The group has described topic(s) that the client is not authorized to describe.",  # It may not learn their names.
    "The described group uses topics that the client is not authorized to describe.",  # Nor those of a topology.
}
"""Denials that name no resource."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    node = CommandNode(tmp_path_factory.mktemp("acl-matrix"))
    node.change_settings(secure_settings(node, (case.me for case in cases_of(all_rows()))))
    node.start()
    stage = Stage(node, all_rows())
    yield stage
    stage.close()
    assert node.stop() == 0
    assert "Traceback" not in node.printed()


@pytest.mark.parametrize("row", dict.fromkeys(row.name for row in all_rows()))
def test_a_row_of_the_acl_table_matches(row: str, stage: Stage) -> None:
    cases = [case for case in stage.cases if case.row.name == row]
    assert all(map(stage.serves, cases))
    differences = [difference for case in cases for difference in differences_in(case, stage)]
    assert not differences, f"{len(differences)} in {len(cases)} cases\n" + "\n".join(differences[:8])


def differences_in(case: Case, stage: Stage) -> list[str]:
    expected = RECORDED[case.row.name, case.version, case.rights]
    answer = stage.ask(case)
    seen = stage.comparable(case, answer)
    if case.row.name == OVERLOOKED_BY_KAFKA and "GROUP *;" in f"{case.rights};":
        may_describe = "deny ALL" not in case.rights
        assert (seen["groups"][0]["errorCode"] != ErrorCode.GROUP_AUTHORIZATION_FAILED) == may_describe
        return []
    badly = [text for text in malformed_denials(answer, case) if text not in WITHOUT_RESOURCE]
    found = [f"{case}: a denial says {text!r}" for text in badly]
    is_missing = case.row.name in NOT_SUPPORTED_YET and is_unsupported(expected, seen)
    if seen != expected and not is_missing:
        found.append(f"{case}\n    kafka: {expected}\n     ours: {seen}")
    return found


def is_unsupported(expected: Any, seen: Any) -> bool:
    """Return whether the answers are equal, except for an error where Kafka did what we don't yet. Denials must still
    match."""
    if isinstance(expected, list) and isinstance(seen, list):
        return len(expected) == len(seen) and all(map(is_unsupported, expected, seen))
    if not isinstance(expected, dict) or not isinstance(seen, dict):
        return bool(expected == seen)
    refused = (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION)
    if seen.get("errorCode") in refused and expected.get("errorCode") not in DENIALS:
        return True
    if (expected.get("errorCode"), seen.get("errorCode")) == (ErrorCode.INVALID_CONFIG, ErrorCode.NONE):
        return True  # A package that has no logger in that Kafka is accepted as a logger here.
    if seen.get("errorCode") == expected.get("errorCode") == ErrorCode.INVALID_CONFIG:
        return True  # The text is our own.
    return expected.keys() == seen.keys() and all(is_unsupported(expected[key], seen[key]) for key in expected)


def test_the_recorded_table_has_the_rows_of_this_one() -> None:
    assert RECORDED.keys() == {(case.row.name, case.version, case.rights) for case in cases_of(all_rows())}
