"""ListTransactions 2: our node answers each pattern as Kafka 4.3.1 does, whose patterns are those of RE2/J."""

from __future__ import annotations

import time

import pytest

from barnabas.common.error_code import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.testing import Node
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.commands import runner

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

PREFIX = "~pattern~"
IDS = [
    "billing-1", "Billing-3", "a.b", "aXb", "ünï-1", "日本", "line\nbreak", "abc", "tab\there", "ab", "A", "-", "[x]",
    "\\d",
]  # fmt: skip
VALID = [
    "billing-.*", "billing-1", "billing", "(?i)billing-.*", ".*", ".+", r"a\.b", "a.b", "[^-]+", r"\w+", r"\pL+",
    r"\p{Han}+", "ün.*", "日.", "..", "(?s).*", "(?s)line.break", "line.break", r"line\nbreak", r"\Qa.b\E",
    "(?P<n>abc)",
    "(?<n>abc)", "(?:a|b)c?", "a{1,2}b?c?", "a|abc", "abc$", "^abc", r"\Aabc\z", r"abc\b", r"\Babc", "(?U)a+",
    "(?m)^abc$", r"\x41", r"\x{41}", r"\101", r"\d", r"\\d", r"\[x\]", "[[]x]", "a{2", "a{,2}b", "(?i:ABC)", "|", "()",
    "[[:alpha:]]+", "[]a]bc", "[^]a].*", r"tab\there", r"\s+", r"[\pL-]+", r"\p{Lu}", r"\p{^Lu}bc", "[a&&b]",
]  # fmt: skip
INVALID = [
    "(", ")", "a(?=b)", "(?!a)b", "(?<=a)b", r"\1", r"(a)\1", "[", "*", "a**", "a++", "a*+", "a{1001}", "a{2,1}", "\\",
    r"\pQ", r"\p{Foo}", "[b-a]", "[[:foo:]]", "(?P<n>a)(?P<n>b)", "(?P<n", "(?x)a b c", "(?z)a", r"\u0041", r"\e",
    r"\h",
    r"\R", r"\X", r"\G", r"\k<n>", r"\C+", r"\Aabc\Z", "(?#c)abc", r"\cA", "(?>abc)",
]  # fmt: skip


def answers(port: int) -> dict[str, tuple[str, list[str]]]:
    client = RawClient(port)
    deadline = time.monotonic() + 60
    while client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])).coordinators[0].error_code:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for name in IDS:
        request = InitProducerIdRequest(transactional_id=PREFIX + name, transaction_timeout_ms=60_000)
        while client.call(request, 4).error_code:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    found = {}
    for pattern in ["", *VALID, *INVALID]:
        wanted = f"{PREFIX}(?:{pattern})" if pattern in VALID and not pattern.startswith(("^", r"\A")) else pattern
        answer = client.call(ListTransactionsRequest(transactional_id_pattern=wanted), 2)
        names = [state.transactional_id for state in answer.transaction_states]
        found[pattern] = (ErrorCode(answer.error_code).name, sorted(name for name in names if name.startswith(PREFIX)))
    client.close()
    return found


def test_every_pattern_has_kafkas_answer(real_kafka: KafkaNode, barnabas_node: Node) -> None:
    theirs, ours = answers(real_kafka.port), answers(barnabas_node.port)
    assert ours == theirs
    assert [theirs[pattern][0] for pattern in VALID] == ["NONE"] * len(VALID)
    assert [theirs[pattern][0] for pattern in INVALID] == ["INVALID_REGULAR_EXPRESSION"] * len(INVALID)
    assert len(theirs[""][1]) == len(theirs["(?s).*"][1]) == len(IDS)


def test_an_invalid_pattern_is_answered_before_unknown_states(real_kafka: KafkaNode, barnabas_node: Node) -> None:
    for port in (real_kafka.port, barnabas_node.port):
        client = RawClient(port)
        answer = client.call(ListTransactionsRequest(transactional_id_pattern="(", state_filters=["Nope"]), 2)
        assert (answer.error_code, answer.unknown_state_filters) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
        client.close()


def test_the_command_lists_what_matches(barnabas_node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    answers(barnabas_node.port)
    run = runner(lambda protocol: barnabas_node.bootstrap_servers, capsys)
    listed = run("transactions", "list", "--transactional-id-pattern", f"{PREFIX}a.*", "-o", "json").document
    assert [found["transactional_id"] for found in listed["transactions"]] == [
        f"{PREFIX}{name}" for name in ("a.b", "aXb", "ab", "abc")
    ]
    failed = run("transactions", "list", "--transactional-id-pattern", "a(?=b)")
    assert failed.status == 1
    assert "INVALID_REGULAR_EXPRESSION" in failed.err
    assert "RE2" in failed.err
