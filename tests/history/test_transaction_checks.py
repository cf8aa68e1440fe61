"""The checks of transactions find every defect that is inserted into a correct history, and none in a correct one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.history.bank_check import check_balance
from tests.history.copies_check import check_copies, source_note
from tests.history.dependency_check import check_cycles
from tests.history.payload import RecordId
from tests.history.transaction_history import Outcome, Passed, Seen
from tests.history.transactional_model import COPIES, LEDGER, Model, honest
from tests.history.transactions_check import check_producers, check_session
from tests.history.violations import Broken


def broken(model: Model) -> set[Broken]:
    """Return what all checks find."""
    logs = model.topic_logs()
    found = [violation for log in logs.values() for violation in log.violations]
    found += check_producers(model.history, logs)
    for session in model.history.sessions:
        found += check_session(session, logs[session.topic])
        found += check_balance(session, logs[session.topic])[1]
    found += check_copies(logs[LEDGER], logs[COPIES], model.offsets)
    found += check_cycles(list(model.history.transactions.values()), logs)
    return {violation.broken for violation in found}


@pytest.mark.parametrize("seed", range(40))
def test_a_correct_history_has_no_violations(seed: int) -> None:
    assert broken(honest(seed)) == set()


def transfer(model: Model, amount: int = 5, *, commit: bool = True, between: tuple[int, int] = (0, 1)) -> None:
    transaction = model.begin("bank")
    for partition, signed in zip(between, (-amount, amount), strict=True):
        model.append(transaction, partition, b"%d" % signed)
    model.end(transaction, commit=commit)


def small() -> Model:
    """Two transfers, one that is aborted between them, and a reader of everything."""
    model = Model()
    for commit in (True, False, True):
        transfer(model, commit=commit)
    model.begin_reading("reader", {0: 0, 1: 0})
    for _ in range(10):
        model.read("reader")
    return model


def is_seen(event: Seen | Passed) -> bool:
    return isinstance(event, Seen)


def miss_a_record(model: Model) -> None:
    events = model.history.sessions[0].events
    events.remove(next(filter(is_seen, events)))


def receive_an_aborted_record(model: Model) -> None:
    events = model.history.sessions[0].events
    [aborted] = [item for item in model.history.places if str(item[0].record) == "bank.2#0"]
    place = next(index for index, event in enumerate(events) if event.partition == 0 and event.offset > aborted[1])
    events.insert(place, Seen(0, aborted[1], aborted[0].record, aborted[0].note))


def receive_a_record_twice(model: Model) -> None:
    events = model.history.sessions[0].events
    events.append(next(filter(is_seen, events)))


def receive_another_record(model: Model) -> None:
    events = model.history.sessions[0].events
    index = next(index for index, event in enumerate(events) if is_seen(event))
    events[index] = events[index]._replace(record=RecordId("bank.1", 7))  # type: ignore[call-arg]


def receive_another_amount(model: Model) -> None:
    events = model.history.sessions[0].events
    index = next(index for index, event in enumerate(events) if is_seen(event))
    events[index] = events[index]._replace(note=b"6")  # type: ignore[call-arg]


def receive_what_the_log_lost(model: Model) -> None:
    model.history.sessions[0].events.append(Seen(0, 99, RecordId("bank.9", 0), b"1"))


def lose_a_committed_transaction(model: Model) -> None:
    model.history.sessions.clear()
    for log in model.logs.values():
        for offset in sorted(log.batches)[-2:]:
            del log.batches[offset]


def learn_that_an_aborted_one_was_committed(model: Model) -> None:
    model.history.transactions["bank.2"].outcome = Outcome.COMMITTED


def commit_what_was_aborted(model: Model) -> None:
    model.history.transactions["bank.1"].outcome = Outcome.NOT_COMMITTED


def commit_in_one_partition_only(model: Model) -> None:
    transaction = model.begin("bank-2")
    for partition in range(2):
        model.append(transaction, partition, b"%d" % (2 * partition - 1))
    model.mark(transaction, LEDGER, 0, commit=True)
    model.mark(transaction, LEDGER, 1, commit=False)
    model.learn(transaction, commit=True, is_known=False)


def leave_one_open(model: Model) -> None:
    model.append(model.begin("bank-2"), 0, b"1")


def end_two_with_one_marker(model: Model) -> None:
    """A record that arrives after its transaction has ended becomes part of the next one."""
    late, following = model.begin("bank-2"), model.begin("bank-2")
    model.append(late, 0)
    model.append(following, 0)
    model.end(following, commit=True)


def write_a_record_twice(model: Model) -> None:
    transaction = model.begin("bank-2")
    model.append(transaction, 0)
    transaction.appended.clear()
    model.append(transaction, 0)
    model.end(transaction, commit=True)


def write_in_another_order(model: Model) -> None:
    transaction = model.begin("bank-2")
    model.append(transaction, 0)
    model.append(transaction, 0)
    transaction.appended.reverse()
    model.end(transaction, commit=True)


def acknowledge_at_another_offset(model: Model) -> None:
    appended, offset = model.history.places[0]
    model.history.places[0] = appended, offset + 1


def acknowledge_what_is_missing(model: Model) -> None:
    appended, _ = model.history.places[0]
    model.history.places.append((appended._replace(record=RecordId("bank.1", 5)), 1))


def show_a_record_that_no_client_sent(model: Model) -> None:
    del model.history.transactions["bank.2"]


def commit_for_a_zombie(model: Model) -> None:
    model.history.zombies.append("zombie.1")


@pytest.mark.parametrize(
    ("defect", "expected"),
    [
        (miss_a_record, {Broken.SKIPPED_READ, Broken.SUM}),
        (receive_an_aborted_record, {Broken.ABORTED_READ, Broken.SUM}),
        (receive_a_record_twice, {Broken.SEEN_TWICE, Broken.SUM}),
        (receive_another_record, {Broken.CHANGED}),
        (receive_another_amount, {Broken.CHANGED, Broken.SUM}),
        (receive_what_the_log_lost, {Broken.LOST, Broken.SUM}),
        (lose_a_committed_transaction, {Broken.LOST}),
        (learn_that_an_aborted_one_was_committed, {Broken.LOST}),
        (commit_what_was_aborted, {Broken.COMMITTED_ANYWAY}),
        (commit_in_one_partition_only, {Broken.PARTIAL}),
        (leave_one_open, {Broken.HANGING}),
        (end_two_with_one_marker, {Broken.MERGED, Broken.COMMITTED_ANYWAY}),
        (write_a_record_twice, {Broken.DOUBLED}),
        (write_in_another_order, {Broken.REORDERED}),
        (acknowledge_at_another_offset, {Broken.MOVED}),
        (acknowledge_what_is_missing, {Broken.LOST}),
        (show_a_record_that_no_client_sent, {Broken.NEVER_SENT}),
        (commit_for_a_zombie, {Broken.ZOMBIE}),
    ],
)
def test_a_defect_is_found(defect: Callable[[Model], None], expected: set[Broken]) -> None:
    model = small()
    assert broken(model) == set()
    defect(model)
    assert broken(model) == expected


def test_a_transaction_of_unknown_outcome_may_be_committed_or_aborted() -> None:
    model = Model()
    for commit in (True, False):
        transaction = model.begin("bank")
        model.append(transaction, 0)
        model.end(transaction, commit=commit, is_known=False)
    assert broken(model) == set()


def test_the_last_stable_offset_may_split_a_committed_transaction() -> None:
    """The bank's check must not count it: its second record is invisible while another transaction is open."""
    model = Model()
    split, blocking = model.begin("bank"), model.begin("bank-2")
    model.append(split, 0, b"-5")
    model.append(blocking, 0, b"1")
    model.append(split, 0, b"5")
    model.end(split, commit=True)
    session = model.begin_reading("reader", {0: 0})
    assert [seen.note for seen in model.read("reader")] == [b"-5"]
    model.end(blocking, commit=False)
    model.read("reader")
    assert check_balance(session, model.topic_logs()[LEDGER]) == (4, [])


def test_a_reader_that_starts_within_a_transaction_is_not_blamed_for_its_sum() -> None:
    model = small()
    session = model.begin_reading("late", {0: 1, 1: 0})
    for _ in range(10):
        model.read("late")
    assert check_session(session, model.topic_logs()[LEDGER]) == []
    assert check_balance(session, model.topic_logs()[LEDGER])[1] == []


class TestCopies:
    @staticmethod
    def copied() -> Model:
        model = small()
        for seen in model.logs[LEDGER, 0].read(0):
            transaction = model.begin("copier")
            model.append(transaction, 1, source_note(0, seen.offset), COPIES)
            transaction.offsets[0] = model.offsets[0], seen.offset + 1
            model.end(transaction, commit=True)
        assert broken(model) == set()
        return model

    def test_offsets_without_their_copies(self) -> None:
        model = self.copied()
        model.offsets[1] = 1
        assert broken(model) == {Broken.WITHOUT_RECORDS}

    def test_copies_without_their_offsets(self) -> None:
        model = self.copied()
        model.offsets[0] = 1
        assert broken(model) == {Broken.WITHOUT_RECORDS}

    def test_a_record_that_is_copied_twice(self) -> None:
        model = self.copied()
        transaction = model.begin("copier")
        model.append(transaction, 0, source_note(0, 0), COPIES)
        model.end(transaction, commit=True)
        assert broken(model) == {Broken.DOUBLED}

    def test_a_copy_of_an_aborted_record(self) -> None:
        model = self.copied()
        transaction = model.begin("copier")
        model.append(transaction, 0, source_note(0, 2), COPIES)
        model.end(transaction, commit=True)
        assert broken(model) == {Broken.ABORTED_READ}

    def test_an_aborted_copy_does_not_count(self) -> None:
        model = self.copied()
        transaction = model.begin("copier")
        model.append(transaction, 0, source_note(0, 0), COPIES)
        model.end(transaction, commit=False)
        assert broken(model) == set()

    def test_equal_copies_name_their_sources_by_themselves(self) -> None:
        model = small()
        log = model.topic_logs()[LEDGER]
        assert check_copies(log, log, {0: 99, 1: 99}, are_equal=True) == []
        found = check_copies(log, log, {0: 99}, are_equal=True)
        assert {violation.broken for violation in found} == {Broken.WITHOUT_RECORDS}
