"""The ACLs of an image: by id, by binding, and the changes that a delta reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.errors import InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import AclsDelta, AclsImage, acl_record, binding_of_record
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.metadata.metadata_version import LATEST_PRODUCTION
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord

ALICE = AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)
BOB = ALICE._replace(principal="User:bob")
ONE, TWO, THREE = (Uuid.from_int(number) for number in (1001, 1002, 1003))


def image_of(*acls: tuple[Uuid, AclBinding]) -> AclsImage:
    return changed(AclsImage(), *acls)


def changed(image: AclsImage, *steps: tuple[Uuid, AclBinding | None]) -> AclsImage:
    delta = AclsDelta(image)
    for acl_id, binding in steps:
        replay(delta, acl_id, binding)
    return delta.apply()


def replay(delta: AclsDelta, acl_id: Uuid, binding: AclBinding | None) -> None:
    if binding is None:
        delta.replay_remove(RemoveAccessControlEntryRecord(id=acl_id))
    else:
        delta.replay(acl_record(acl_id, binding))


def exactly(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(*binding)


def test_a_record_and_its_binding_are_equivalent() -> None:
    assert binding_of_record(acl_record(ONE, ALICE)) == ALICE


def test_a_delta_reports_changes_in_the_order_of_the_log() -> None:
    delta = AclsDelta(image_of((ONE, ALICE)))
    for acl_id, binding in ((TWO, BOB), (ONE, None), (THREE, ALICE)):
        replay(delta, acl_id, binding)
    assert list(delta.changes.items()) == [(TWO, BOB), (ONE, None), (THREE, ALICE)]


def test_an_acl_added_and_removed_in_one_delta_leaves_nothing() -> None:
    delta = AclsDelta(AclsImage())
    replay(delta, ONE, ALICE)
    replay(delta, ONE, None)
    assert delta.changes == {}
    assert delta.apply() == AclsImage()


def test_an_existing_id_is_replaced() -> None:
    image = image_of((ONE, ALICE))
    assert image.ids.get(ALICE) == ONE
    replaced = changed(image, (ONE, BOB))
    assert dict(replaced.by_id.items()) == {ONE: BOB}
    assert dict(replaced.ids.items()) == {BOB: ONE}


@pytest.mark.parametrize("steps", [[(ONE, None)], [(TWO, BOB), (TWO, None), (TWO, None)]])
def test_removing_a_missing_id_is_a_fault(steps: list[tuple[Uuid, AclBinding | None]]) -> None:
    with pytest.raises(InvariantViolated, match="no ACL has the id"):
        changed(AclsImage(), *steps)


def test_a_binding_with_two_ids_survives_the_loss_of_either() -> None:
    image = image_of((ONE, ALICE), (TWO, ALICE))
    assert len(image.ids) == 1
    for gone, left in ((ONE, TWO), (TWO, ONE)):
        assert changed(image, (gone, None)).ids.get(ALICE) == left
        assert changed(image, (gone, None), (left, None)).ids.get(ALICE) is None
    assert sorted(acl_id for acl_id, _ in image.find(exactly(ALICE))) == [ONE, TWO]


def test_the_index_of_ids_by_binding_is_built_on_first_use() -> None:
    image = changed(image_of((ONE, ALICE)), (TWO, BOB))
    assert image.known_ids is None
    assert image.ids.get(BOB) == TWO
    assert changed(image, (TWO, None)).known_ids is not None


def test_a_filter_for_one_binding_does_not_read_the_others() -> None:
    class Unread(AclsImage):
        __slots__ = ()

    image = image_of((ONE, ALICE), (TWO, BOB))
    assert list(Unread(image.by_id, image.ids).find(exactly(BOB))) == [(TWO, BOB)]
    assert list(image.find(exactly(BOB._replace(host="192.0.2.1")))) == []
    assert sorted(image.find(AclBindingFilter(name="orders"))) == [(ONE, ALICE), (TWO, BOB)]


def test_a_snapshot_removes_what_it_does_not_name() -> None:
    delta = AclsDelta(image_of((ONE, ALICE), (TWO, BOB)))
    replay(delta, TWO, BOB)
    delta.finish_snapshot()
    assert dict(delta.apply().by_id.items()) == {TWO: BOB}


def test_an_image_is_written_as_entries_only() -> None:
    writer = RecordWriter(LATEST_PRODUCTION)
    changed(image_of((TWO, BOB), (ONE, ALICE)), (TWO, None)).write(writer)
    assert [(record.message, record.version) for record in writer.records] == [(acl_record(ONE, ALICE), 0)]


STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=40)


@given(STEPS, st.integers(1, 5))
def test_ids_by_binding_equal_those_of_a_search(steps: list[tuple[int, int]], size: int) -> None:
    image = AclsImage()
    image.ids.get(ALICE)
    for start in range(0, len(steps), size):
        delta = AclsDelta(image)
        there = set(image.by_id)
        for number, what in steps[start : start + size]:
            acl_id = Uuid.from_int(2000 + number)
            if what:
                replay(delta, acl_id, ALICE._replace(operation=2 + what))
                there.add(acl_id)
            elif acl_id in there:
                replay(delta, acl_id, None)
                there.remove(acl_id)
        image = delta.apply()
        assert set(image.by_id) == there
        assert set(image.ids) == set(image.by_id.values())
        assert all(image.by_id[acl_id] == binding for binding, acl_id in image.ids.items())


TEXTS = st.sampled_from(["*", "", "o", "or", "orders", "User:alice", "User:*"])
BINDINGS = st.builds(
    AclBinding, st.integers(2, 4), TEXTS, st.sampled_from([3, 4]), TEXTS, TEXTS, st.integers(2, 5), st.integers(2, 3)
)
OPTIONAL = st.none() | TEXTS
FILTERS = st.builds(
    AclBindingFilter,
    st.integers(1, 4),
    OPTIONAL,
    st.integers(1, 4),
    OPTIONAL,
    OPTIONAL,
    st.integers(1, 5),
    st.integers(1, 3),
)


@given(st.lists(BINDINGS, max_size=20), FILTERS)
def test_a_filter_finds_the_same_as_matching_every_binding(
    bindings: list[AclBinding], wanted: AclBindingFilter
) -> None:
    image = image_of(*((Uuid.from_int(3000 + number), binding) for number, binding in enumerate(bindings)))
    expected = {(acl_id, binding) for acl_id, binding in image.by_id.items() if wanted.matches(binding)}
    assert set(image.find(wanted)) == expected
