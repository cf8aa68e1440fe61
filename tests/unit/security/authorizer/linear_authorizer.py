"""Kafka's authorization rules implemented as directly as possible, as a reference for the index.

Every decision reads every ACL. The reference shares no code with the code under test.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.acl import AclBinding

__all__ = ["LinearAuthorizer"]

DENY, ALLOW = 2, 3
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11


def covers_resource(rule: AclBinding, resource_type: int, name: str) -> bool:
    if rule.resource_type != resource_type:
        return False
    if rule.pattern_type == LITERAL:
        return rule.name in (name, "*")
    return rule.pattern_type == PREFIXED and name.startswith(rule.name)


def covers_caller(rule: AclBinding, principal: str, host: str) -> bool:
    return rule.principal in (principal, "User:*") and rule.host in (host, "*")


def covers_operation(rule: AclBinding, operation: int) -> bool:
    if rule.operation in (operation, ALL):
        return True
    if rule.permission == ALLOW and operation == DESCRIBE:
        return rule.operation in (READ, WRITE, DELETE, ALTER)
    return rule.permission == ALLOW and operation == DESCRIBE_CONFIGS and rule.operation == ALTER_CONFIGS


class LinearAuthorizer:
    def __init__(self, rules: Iterable[AclBinding] = (), *, allow_if_no_rule: bool = False) -> None:
        self.rules = list(rules)
        self.allow_if_no_rule = allow_if_no_rule

    def matching(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> list[AclBinding]:
        return [
            rule
            for rule in self.rules
            if covers_resource(rule, resource_type, name)
            and covers_caller(rule, principal, host)
            and covers_operation(rule, operation)
        ]

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        permissions = {rule.permission for rule in self.matching(principal, host, operation, resource_type, name)}
        if DENY in permissions:
            return False
        if ALLOW in permissions:
            return True
        if any(covers_resource(rule, resource_type, name) for rule in self.rules):
            return False
        return self.allow_if_no_rule

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        rules = [
            rule
            for rule in self.rules
            if rule.resource_type == resource_type
            and covers_caller(rule, principal, host)
            and rule.operation in (operation, ALL)
        ]
        wildcards = {rule.permission for rule in rules if rule.pattern_type == LITERAL and rule.name == "*"}
        if wildcards:
            return DENY not in wildcards
        denied = [rule for rule in rules if rule.permission == DENY]
        return any(
            rule.permission == ALLOW and not any(self._dominates(denial, rule) for denial in denied) for rule in rules
        )

    @staticmethod
    def _dominates(denial: AclBinding, rule: AclBinding) -> bool:
        if denial.pattern_type == PREFIXED:
            return rule.name.startswith(denial.name)
        return rule.pattern_type == LITERAL and rule.name == denial.name

    def in_order(self) -> list[AclBinding]:
        """Sort in Kafka's order: names descend, by UTF-16 code units; all other fields ascend."""
        ordered = sorted(
            self.rules,
            key=lambda r: (r.pattern_type, r.operation, units(r.principal), units(r.host), r.permission),
        )
        ordered.sort(key=lambda rule: units(rule.name), reverse=True)
        ordered.sort(key=lambda rule: rule.resource_type)
        return ordered


def units(text: str) -> bytes:
    return text.encode("utf-16-be")
