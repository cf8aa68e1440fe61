"""The audit counts equal decisions, reports denials immediately, and stays within its limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.acl import AclOperation
from barnabas.common.resource import PatternType, ResourceType
from barnabas.network.api_handler import Access, AclRule
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.audit import OTHERS, OTHERS_MAX, RULE_LOOKUPS_MAX, TEXT_MAX, AccessAudit, AuditLimits
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer, Authorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext

ALICE = Principal("User", "alice")
LIMITS = AuditLimits(window_ms=1000, denials_per_window=2, kinds_max=5, queue_max=6)
RULES = frozenset(
    AclRule(ResourceType.TOPIC, operation)
    for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
)


class OneTopic(Authorizer):
    """Allows ``orders``."""

    def authorize(self, context: Any, operation: Any, resource_type: Any, resource_name: str, **flags: bool) -> bool:
        return resource_name == "orders"


class World:
    def __init__(self, authorizer: Authorizer | None = None, *, wants_allowed: bool = True) -> None:
        self.now_ms = 5000
        self.calls = 0
        self.audit = AccessAudit(
            LIMITS, now_ns=lambda: self.now_ms * 1_000_000, on_event=self._called, wants_allowed=wants_allowed
        )
        self.authorizer = authorizer or OneTopic()
        self.authorizer.audit = self.audit

    def _called(self) -> None:
        self.calls += 1

    def ask(self, name: str, operation: AclOperation = AclOperation.WRITE, **flags: Any) -> bool:
        return self.access().allows(ResourceType.TOPIC, operation, name, **flags)

    def access(self, **fields: Any) -> Access:
        context = RequestContext(
            api_key=ApiKey.PRODUCE,
            api_version=9,
            **{"correlation_id": 7, "client_id": "app", "principal": ALICE, "client_host": "10.0.0.1", **fields},
        )
        return Access(self.authorizer, context, RULES)


def test_allowed_decisions_become_one_event_at_the_end_of_the_window() -> None:
    world = World()
    for _ in range(3):
        world.ask("orders", references=4)
        world.now_ms += 100
    assert world.audit.take(world.now_ms) == []
    assert world.audit.window_end_ms == 6000
    (event,) = world.audit.take(6000)
    assert (event.decisions, event.references, event.first_ms, event.last_ms) == (3, 12, 5000, 5200)
    assert (event.allowed, event.principal, event.host, event.resource_name) == (True, ALICE, "10.0.0.1", "orders")
    assert (event.api_key, event.request.client_id, event.request.correlation_id) == (ApiKey.PRODUCE, "app", 7)
    assert event.pattern_type is PatternType.LITERAL
    assert world.audit.take(9000) == []
    assert world.audit.window_end_ms is None


def test_the_first_denials_are_reported_immediately_and_a_flood_is_counted() -> None:
    world = World()
    for _ in range(5):
        assert not world.ask("secrets")
    first, second = world.audit.take(world.now_ms)
    assert (first.decisions, second.decisions, first.allowed) == (1, 1, False)
    (rest,) = world.audit.take(6000)
    assert rest.decisions == 3
    assert world.audit.denied_count == 5
    assert world.audit.dropped == 0


@pytest.mark.parametrize("different", [{"principal": Principal("User", "bob")}, {"client_host": "10.0.0.2"}])
def test_decisions_of_other_callers_are_counted_separately(different: dict[str, Any]) -> None:
    world = World()
    world.ask("orders")
    world.access(**different).allows(ResourceType.TOPIC, AclOperation.WRITE, "orders")
    world.access(forwarding_principal=ALICE, **different).allows(ResourceType.TOPIC, AclOperation.WRITE, "orders")
    world.ask("orders", AclOperation.READ)
    assert [event.decisions for event in world.audit.take(6000)] == [1, 1, 1, 1]


def test_unwanted_decisions_are_not_counted() -> None:
    world = World(wants_allowed=False)
    world.ask("orders")
    world.ask("secrets", log_if_denied=False)
    assert world.audit.take(10_000) == []
    world.audit.wants_allowed = True
    world.ask("orders", log_if_allowed=False)
    assert world.audit.take(10_000) == []
    assert world.calls == 0


def test_a_listing_is_one_access_and_its_names_are_not_audited() -> None:
    world = World()
    names = world.access().allowed_in_order(
        ResourceType.TOPIC, AclOperation.DESCRIBE, ["orders", "secrets"], is_listing=True
    )
    assert names == ["orders"]
    (event,) = world.audit.take(6000)
    assert (event.pattern_type, event.resource_name, event.references) == (PatternType.ANY, "*", 1)


def test_kinds_and_queued_events_are_limited_and_lost_ones_are_counted() -> None:
    for world in (World(AllowAllAuthorizer()), World()):
        for number in range(9):
            world.ask(f"topic-{number}")
        *kinds, others = world.audit.take(6000)
        assert [event.resource_name for event in kinds] == [f"topic-{number}" for number in range(5)]
        assert (others.resource_name, others.pattern_type, others.decisions) == (OTHERS, PatternType.ANY, 4)
        assert (others.principal, others.rule.kind) == (ALICE, "NotLookedUp")
        assert world.audit.dropped == 0

    many = World()
    for number in range(LIMITS.kinds_max + OTHERS_MAX + 7):
        many.access(client_host=f"h{number}").allows(ResourceType.TOPIC, AclOperation.WRITE, f"t{number}")
    assert many.audit.dropped == 7

    full = World()
    for number in range(5):
        full.ask(f"secret-{number}")
        full.ask(f"secret-{number}")
    assert len(full.audit.take(full.now_ms)) == LIMITS.queue_max
    assert full.audit.dropped == 10 - LIMITS.queue_max


def test_the_acl_is_looked_up_once_per_kind_and_window_up_to_a_limit() -> None:
    class Explaining(OneTopic):
        def __init__(self) -> None:
            self.lookup_count = 0

        def explain(self, *question: Any) -> Any:
            self.lookup_count += 1
            assert question == (ALICE, "10.0.0.1", AclOperation.WRITE, ResourceType.TOPIC, question[-1])
            return SimpleNamespace(
                allowed=question[-1] == "orders", rule="MatchingAcl", acl_id="id-1", acl_text="ALLOW User:alice"
            )

    authorizer = Explaining()
    world = World(authorizer)
    for _ in range(4):
        world.ask("orders")
    (event,) = world.audit.take(6000)
    assert (event.rule.kind, event.rule.id, authorizer.lookup_count) == ("MatchingAcl", "id-1", 1)
    world.now_ms = 6000
    world.ask("orders")
    assert authorizer.lookup_count == 2

    many = Explaining()
    limits = LIMITS._replace(kinds_max=10_000, queue_max=10_000, denials_of_caller_max=10_000)
    audit = AccessAudit(limits, now_ns=lambda: 0, wants_allowed=True)
    world = World(many)
    many.audit = audit
    for number in range(RULE_LOOKUPS_MAX + 1):
        world.ask(f"t{number}")
    assert many.lookup_count == RULE_LOOKUPS_MAX
    assert audit.take(0)[-1].rule.kind == "NotLookedUp"


def test_long_look_ups_are_given_up_for_the_window() -> None:
    class Slow(OneTopic):
        def __init__(self) -> None:
            self.lookup_count = 0

        def explain(self, *question: Any) -> Any:
            self.lookup_count += 1
            seconds[0] += 0.06
            return SimpleNamespace(allowed=False, rule="DefaultDeny", acl_id=None, acl_text=None)

    seconds = [0.0]
    slow = Slow()
    world = World(slow)
    slow.audit = AccessAudit(LIMITS, now_ns=lambda: 0, timer=lambda: seconds[0])
    for number in range(4):
        world.ask(f"secret-{number}")
    assert slow.lookup_count == 2
    assert [event.rule.kind for event in slow.audit.take(0)] == ["DefaultDeny"] * 2 + ["NotLookedUp"] * 2


def test_an_authorizer_that_cannot_explain_is_still_audited() -> None:
    class Failing(OneTopic):
        def explain(self, *question: Any) -> Any:
            raise ValueError("no idea")

    for authorizer, rule in ((OneTopic(), "Unknown"), (Failing(), "Unknown"), (AllowAllAuthorizer(), "NoAuthorizer")):
        world = World(authorizer)
        world.ask("orders")
        assert world.audit.take(6000)[0].rule.kind == rule


def test_names_of_any_length_are_clipped() -> None:
    world = World()
    world.access(client_id="c" * 30_000).allows(ResourceType.TOPIC, AclOperation.WRITE, "n" * 30_000)
    (event,) = world.audit.take(0)
    assert len(event.resource_name) < TEXT_MAX + 50
    assert len(event.request.client_id or "") < TEXT_MAX + 50


def test_a_clock_that_is_set_back_ends_the_window() -> None:
    world = World()
    world.ask("orders")
    assert len(world.audit.take(100)) == 1


def test_the_owner_is_called_when_events_need_to_be_collected() -> None:
    world = World()
    world.ask("orders")
    assert world.calls == 1
    world.ask("orders")
    assert world.calls == 1
    world.ask("secrets")
    assert world.calls == 2
    world.audit.take(0)
    world.ask("secrets")
    assert world.calls >= 3


def test_many_names_of_one_caller_are_counted_together_and_leave_room_for_others() -> None:
    audit = AccessAudit(LIMITS._replace(kinds_max=1000, queue_max=1000, denials_of_caller_max=7), now_ns=lambda: 0)
    world = World()
    world.authorizer.audit = audit
    for number in range(500):
        world.ask(f"t{number}")
    first = audit.take(0)
    assert len(first) == 7
    rest = audit.take(0, is_last=True)
    assert [(event.resource_name, event.decisions) for event in rest] == [(OTHERS, 493)]
