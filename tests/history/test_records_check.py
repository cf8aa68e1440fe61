"""The check of records finds every defect that is inserted into a correct history, and none in a correct one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError

from tests.history.clients import broker_whose_log_ends_before
from tests.history.payload import RecordId, Spoilt, decode, encode
from tests.history.records_check import RecordsCheck
from tests.history.violations import Broken


@dataclass
class History:
    """The observations of the clients of one partition of a correct cluster. A defect changes them."""

    sent: list[RecordId] = field(default_factory=list)
    acknowledged: dict[RecordId, int | None] = field(default_factory=dict)
    seen: dict[str, list[tuple[int, RecordId]]] = field(default_factory=dict)
    final: list[RecordId] = field(default_factory=list)

    def check(self) -> set[Broken]:
        check = RecordsCheck()
        for record in self.sent:
            check.sent(record, 0)
        for record, place in self.acknowledged.items():
            check.acknowledged(record, 0, place)
        for reader, seen in self.seen.items():
            check.reader_begins(reader, 0, seen[0][0])
            for offset, record in seen:
                check.seen(reader, 0, offset, record)
        check.final_range(0, 0, len(self.final))
        for offset, record in enumerate(self.final):
            check.final(0, offset, record)
        return {violation.broken for violation in check.violations()}


def honest(seed: int) -> History:
    """Two producers, some of whose records are not acknowledged or not written; two readers, one of which stopped."""
    rng, history = random.Random(seed), History()
    numbers = {"p": 0, "q": 0}
    for _ in range(60):
        producer = rng.choice("pq")
        numbers[producer] += 1
        record = RecordId(producer, numbers[producer])
        history.sent.append(record)
        fate = rng.random()
        if fate < 0.1:
            continue
        history.final.append(record)
        if fate > 0.2:
            history.acknowledged[record] = len(history.final) - 1 if rng.random() < 0.9 else None
    start = rng.randrange(10)
    history.seen["late"] = list(enumerate(history.final))[start:]
    history.seen["gone"] = list(enumerate(history.final))[:30]
    return history


@pytest.mark.parametrize("seed", range(20))
def test_a_correct_history_has_no_violations(seed: int) -> None:
    assert honest(seed).check() == set()


def lose_the_newest(history: History) -> None:
    history.acknowledged[history.final.pop()] = None
    history.seen.clear()


def lose_what_only_a_reader_saw(history: History) -> None:
    record = history.final.pop()
    history.acknowledged.pop(record, None)
    history.seen = {"late": [(len(history.final), record)]}


def lose_in_the_middle(history: History) -> None:
    """All later records move up: the offsets show it."""
    history.acknowledged.setdefault(history.final[20], None)
    del history.final[20]


def replace(history: History) -> None:
    history.final[25] = RecordId("p", 1000)
    history.sent.append(RecordId("p", 1000))


def acknowledge_elsewhere(history: History) -> None:
    history.seen.clear()
    history.acknowledged = {history.final[-1]: 3}


def give_two_readers_different_records(history: History) -> None:
    offset, _ = history.seen["gone"][-1]
    history.seen["gone"][-1] = (offset, history.final[0])


def write_twice(history: History) -> None:
    history.final.append(history.final[30])


def write_twice_a_record_that_failed(history: History) -> None:
    history.acknowledged.pop(history.final[-1], None)
    history.final.append(history.final[-1])


def exchange_two(history: History) -> None:
    """No reader saw them and no acknowledgement named their offsets: only the producer knows the order."""
    history.seen.clear()
    history.acknowledged = dict.fromkeys(history.acknowledged)
    first, second = [place for place, record in enumerate(history.final) if record.producer == "p"][4:6]
    history.final[first], history.final[second] = history.final[second], history.final[first]


def invent(history: History) -> None:
    history.final.append(RecordId("nobody", 1))


def skip_for_a_reader(history: History) -> None:
    del history.seen["late"][5]


def turn_a_reader_back(history: History) -> None:
    history.seen["late"][7:7] = history.seen["late"][3:7]


LIES: list[tuple[Callable[[History], None], Broken]] = [
    (lose_the_newest, Broken.LOST),
    (lose_what_only_a_reader_saw, Broken.LOST),
    (lose_in_the_middle, Broken.LOST),
    (lose_in_the_middle, Broken.MOVED),
    (replace, Broken.CHANGED),
    (acknowledge_elsewhere, Broken.MOVED),
    (give_two_readers_different_records, Broken.CHANGED),
    (write_twice, Broken.DOUBLED),
    (write_twice_a_record_that_failed, Broken.DOUBLED),
    (exchange_two, Broken.REORDERED),
    (invent, Broken.NEVER_SENT),
    (skip_for_a_reader, Broken.GAP),
    (turn_a_reader_back, Broken.SEEN_TWICE),
]


@pytest.mark.parametrize(("lie", "broken"), LIES, ids=[f"{lie.__name__}-{broken.name}" for lie, broken in LIES])
@pytest.mark.parametrize("seed", range(5))
def test_every_defect_of_a_history_is_found(lie: Callable[[History], None], broken: Broken, seed: int) -> None:
    history = honest(seed)
    lie(history)
    assert broken in history.check()


def test_both_places_of_a_doubled_record_are_reported() -> None:
    history = honest(1)
    write_twice(history)
    check = RecordsCheck()
    for record in history.sent:
        check.sent(record, 0)
    for offset, record in enumerate(history.final):
        check.final(0, offset, record)
    [doubled] = [violation for violation in check.violations() if violation.broken is Broken.DOUBLED]
    assert doubled.places == ((0, 30), (0, len(history.final) - 1))


def test_a_producer_that_gave_up_is_excused_only_for_duplicates() -> None:
    history, check = honest(1), RecordsCheck()
    write_twice(history)
    for record in history.sent:
        check.sent(record, 0)
        check.gave_up(record.producer)
    for offset, record in enumerate(history.final):
        check.final(0, offset, record)
    check.acknowledged(history.final[3], 0, 4)
    check.final_range(0, 0, len(history.final))
    assert {violation.broken for violation in check.violations()} == {Broken.CHANGED, Broken.MOVED}


def test_a_final_gap_is_found_even_without_a_claim() -> None:
    check = RecordsCheck()
    check.final_range(0, 0, 2)
    check.sent(RecordId("p", 1), 0)
    check.final(0, 1, RecordId("p", 1))
    assert [violation.broken for violation in check.violations()] == [Broken.GAP]


def test_a_partition_that_cannot_be_read_in_the_end_is_lost() -> None:
    check = RecordsCheck()
    check.sent(RecordId("p", 1), 0)
    assert [violation.broken for violation in check.violations()] == [Broken.LOST]


def test_a_refused_offset_and_changed_bytes_are_violations() -> None:
    check = RecordsCheck()
    check.refused_offset("r", 3, 7, "OFFSET_OUT_OF_RANGE", broker=1)
    check.seen_spoilt("r", 3, 7, "b'x'")
    assert {violation.broken for violation in check.violations()} == {Broken.NO_SUCH_OFFSET, Broken.SPOILT}


@pytest.mark.parametrize(
    ("offset", "broker", "is_excused"),
    [
        pytest.param(1, 2, True, id="an existing offset, reported by Kafka"),
        pytest.param(2, 2, True, id="the end, reported by Kafka"),
        pytest.param(3, 2, False, id="a lost offset, reported by Kafka"),
        pytest.param(1, 1, False, id="an existing offset, reported by ours"),
        pytest.param(1, None, False, id="an unknown broker"),
    ],
)
def test_only_kafkas_brokers_may_call_an_existing_offset_out_of_range(
    offset: int, broker: int | None, is_excused: bool
) -> None:
    check = RecordsCheck(kafka_brokers=[2])
    for number in range(2):
        check.sent(RecordId("p", number), 0)
        check.acknowledged(RecordId("p", number), 0, number)
        check.final(0, number, RecordId("p", number))
    check.final_range(0, 0, 2)
    check.refused_offset("r", 0, offset, "OFFSET_OUT_OF_RANGE", broker=broker)
    assert len(check.refused_by_stale_leaders()) == is_excused
    assert [violation.broken for violation in check.violations()] == [Broken.NO_SUCH_OFFSET] * (not is_excused)


def test_the_broker_of_an_out_of_range_error_is_parsed_from_its_text() -> None:
    text = "fetch failed due to requested offset not available on the broker: Broker: Offset out of range (broker 2)"
    assert broker_whose_log_ends_before(KafkaError(KafkaError._AUTO_OFFSET_RESET, text)) == 2
    assert broker_whose_log_ends_before(KafkaError(KafkaError._LOG_TRUNCATION, "truncated (broker 2)")) is None


def test_a_reader_may_start_again_at_any_offset() -> None:
    check = RecordsCheck()
    record = RecordId("p", 1)
    for begin in (5, 2, None):
        check.reader_begins("r", 0, begin)
        check.seen("r", 0, 5 if begin is None else begin, record)
    assert not [violation for violation in check._found if violation.broken in (Broken.GAP, Broken.SEEN_TWICE)]


@pytest.mark.parametrize("size", [1, 64, 500])
def test_a_value_names_its_record(size: int) -> None:
    value = encode(RecordId("p-1.2", 17), 3, size)
    assert decode(value) == (RecordId("p-1.2", 17), 3)
    assert len(value) >= size


def test_every_changed_byte_and_every_truncation_is_detected() -> None:
    value = encode(RecordId("p", 17), 3, 100)
    for place in range(len(value)):
        for spoilt in (value[:place], value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]):
            with pytest.raises(Spoilt):
                decode(spoilt)
