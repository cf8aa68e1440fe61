"""ACLs reach the authorizer as in the log: a snapshot in one call, later ACLs one by one and in order."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import acl_record
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.security.authorizer import acl_rules
from barnabas.security.authorizer.acl_publisher import AclPublisher
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer

PROVENANCE = MetadataProvenance(1, 1, 0)
DENY = AclBinding(2, "a", 3, "User:bob", "*", 3, 2)
ALLOW = AclBinding(2, "a", 3, "User:bob", "*", 3, 3)
OTHER = AclBinding(2, "b", 3, "User:bob", "*", 3, 3)


class Recorder(StandardAuthorizer):
    """Records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def load_snapshot(self, acls_by_id: Any) -> None:
        self.calls.append(("load", len(acls_by_id)))
        super().load_snapshot(acls_by_id)

    def add_acl(self, acl_id: Uuid, binding: AclBinding) -> None:
        self.calls.append(("add", acl_id.to_int()))
        super().add_acl(acl_id, binding)

    def remove_acl(self, acl_id: Uuid) -> None:
        self.calls.append(("remove", acl_id.to_int()))
        super().remove_acl(acl_id)


class Log:
    """A publisher with an authorizer, and the image that results from its log."""

    def __init__(self) -> None:
        self.authorizer = Recorder()
        self.publisher = AclPublisher(self.authorizer)
        self.image = MetadataImage.EMPTY

    def publish(self, *records: Any, is_snapshot: bool = False) -> list[tuple[Any, ...]]:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        if is_snapshot:
            delta.finish_snapshot()
        self.image = delta.apply(PROVENANCE)
        self.authorizer.calls.clear()
        self.publisher.publish(delta, self.image, LoaderManifest(PROVENANCE, is_snapshot))
        held = dict(self.authorizer.acls(AclBindingFilter()))
        assert held == dict(self.image.acls.by_id.items())
        return self.authorizer.calls


def put(number: int, binding: AclBinding) -> Any:
    return acl_record(Uuid.from_int(number), binding)


def removed(number: int) -> Any:
    return RemoveAccessControlEntryRecord(id=Uuid.from_int(number))


def test_a_snapshot_is_loaded_and_later_ones_replace_it() -> None:
    log = Log()
    assert log.publish(put(1, DENY), put(2, OTHER), is_snapshot=True) == [("load", 2)]
    assert log.publish(put(3, OTHER), is_snapshot=True) == [("load", 1)]


def test_changes_are_passed_one_by_one_in_the_order_of_the_log() -> None:
    log = Log()
    log.publish(is_snapshot=True)
    assert log.publish(put(9, DENY), put(1, ALLOW), put(5, OTHER)) == [("add", 9), ("add", 1), ("add", 5)]
    assert log.publish(removed(1), removed(9), put(2, ALLOW)) == [("remove", 1), ("remove", 9), ("add", 2)]
    assert log.publish() == []


def test_an_acl_added_and_removed_in_between_is_never_passed() -> None:
    log = Log()
    log.publish(is_snapshot=True)
    assert log.publish(put(1, DENY), put(2, OTHER), removed(1)) == [("add", 2)]


def test_an_acl_replaced_under_its_id_is_removed_first() -> None:
    log = Log()
    log.publish(put(1, DENY), is_snapshot=True)
    assert log.publish(put(1, OTHER)) == [("remove", 1), ("add", 1)]


def test_an_acl_that_receives_a_new_id_in_one_batch_is_not_a_fault() -> None:
    log = Log()
    log.publish(put(1, DENY), is_snapshot=True)
    assert log.publish(removed(1), put(2, DENY)) == [("remove", 1), ("add", 2)]


def test_earlier_acls_are_in_force_until_the_last_step_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_rules, "RULES_A_STEP", 2)
    authorizer = StandardAuthorizer()
    authorizer.add_acl(Uuid.from_int(1), DENY)
    publisher = AclPublisher(authorizer)
    delta = MetadataDelta(MetadataImage.EMPTY)
    names = [f"t{number}" for number in range(5)]
    for number, name in enumerate(names):
        delta.replay(acl_record(Uuid.from_int(10 + number), ALLOW._replace(name=name)))
    image = delta.apply(PROVENANCE)
    steps = 0
    for _ in publisher.publish_in_steps(delta, image, LoaderManifest(PROVENANCE, is_snapshot=True)):
        steps += 1
        assert [binding for _, binding in authorizer.acls(AclBindingFilter())] == [DENY]
    assert steps == 2
    assert sorted(binding.name for _, binding in authorizer.acls(AclBindingFilter())) == names
