"""Read a file of desired state: its scope and the state that it requires. Report all its errors together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

from barnabas.access.acl_text import parse_host, resource_type_name
from barnabas.access.cluster_state import (
    GROUP,
    ClusterState,
    ConfigTarget,
    Credential,
    QuotaEntity,
    TopicState,
    entity_text,
)
from barnabas.access.desired_state_notation import ResourcePattern, Secret, operation_text
from barnabas.access.desired_state_schema import FILE
from barnabas.access.desired_state_scope import AclScope, NamePattern, QuotaScope, Scope
from barnabas.access.document_tree import Node, Problem
from barnabas.access.schema_types import is_bad, shown
from barnabas.common.acl import WILDCARD_HOST, WILDCARD_NAME, AclBinding, AclOperation, AclPermissionType
from barnabas.common.config_def import ConfigDef, ConfigException
from barnabas.common.group_config import GROUP_CONFIG_DEF
from barnabas.common.resource import CLUSTER_NAME, PatternType, ResourceType
from barnabas.common.topic_config import TOPIC_CONFIG_DEF, validate_topic_config
from barnabas.security.authorizer.authorized_operations import supported_operations

__all__ = ["DesiredState", "InvalidFile", "read_desired_state"]


class DesiredState(NamedTuple):
    scope: Scope
    state: ClusterState
    passwords: Mapping[Credential, Secret]
    warnings: tuple[Problem, ...]
    """Parts of the file that are valid, but probably unintended."""


class InvalidFile(Exception):
    """The file is invalid; ``problems`` lists all errors in the order of their lines."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))


def read_desired_state(node: Node) -> DesiredState:
    """Convert the tree of a file. Raise InvalidFile."""
    problems: list[Problem] = []
    raw = FILE.read(node, "", problems)
    if is_bad(raw):
        raise InvalidFile(problems)
    reader = _Reader(raw, problems)
    desired = reader.read()
    if problems:
        raise InvalidFile(problems)
    return desired


class _Reader:
    def __init__(self, raw: dict[str, Any], problems: list[Problem]) -> None:
        self._raw = raw
        self._problems = problems
        self._warnings: list[Problem] = []
        self._passwords: dict[Credential, Secret] = {}
        # If the scope is invalid, all entries would seem to be outside of it.
        self._is_scope_known = "scope" in raw and not any(p.path.startswith("scope") for p in problems)
        self._scope = _scope(raw["scope"], problems) if "scope" in raw else Scope()

    def read(self) -> DesiredState:
        state = ClusterState(self._topics(), self._configs(), self._acls(), self._users(), self._quotas())
        return DesiredState(self._scope, state, self._passwords, tuple(sorted(self._warnings)))

    def _complain(self, line: int, path: str, message: str) -> None:
        self._problems.append(Problem(line, path, message))

    def _must_own(self, line: int, path: str, what: str, section: str, *, is_owned: bool) -> None:
        if self._is_scope_known and not is_owned:
            text = f"{what} is outside the scope of this file; add it to scope.{section}"
            self._complain(line, path, text)

    def _topics(self) -> dict[str, TopicState]:
        topics = {}
        for name, (line, topic) in self._raw.get("topics", {}).items():
            path = f"topics.{name}"
            self._must_own(line, path, f"topic {shown(name)}", "topics", is_owned=self._scope.has_topic(name))
            configs = self._settings(topic.get("configs", {}), f"{path}.configs", TOPIC_CONFIG_DEF)
            try:
                validate_topic_config({key: value for key, value in configs.items() if key in TOPIC_CONFIG_DEF})
            except ConfigException as error:
                if not any(problem.path.startswith(f"{path}.configs") for problem in self._problems):
                    self._complain(line, f"{path}.configs", str(error))
            topics[name] = TopicState(topic.get("partitions"), topic.get("replication-factor"), configs)
        return topics

    def _configs(self) -> dict[ConfigTarget, dict[str, str | None]]:
        found = {}
        for target, (line, settings) in self._raw.get("configs", {}).items():
            path = f"configs.{target}"
            self._must_own(line, path, str(target), "configs", is_owned=self._scope.has_config(target))
            known = GROUP_CONFIG_DEF if target.type == GROUP else None
            found[target] = self._settings(settings, path, known)
        return found

    def _settings(
        self, settings: Mapping[str, tuple[int, str]], path: str, known: ConfigDef | None
    ) -> dict[str, str | None]:
        """Check the values of known settings. The cluster checks others, because it may be of a newer release."""
        values: dict[str, str | None] = {}
        for name, (line, text) in settings.items():
            values[name] = text
            key = known.get(name) if known is not None else None
            if key is not None:
                try:
                    key.parse(text)
                except ConfigException as error:
                    self._complain(line, f"{path}.{name}", str(error))
            elif known is not None:
                nearest = known.nearest_name(name)
                hint = f"; did you mean {nearest}?" if nearest else ""
                self._warnings.append(Problem(line, f"{path}.{name}", f"unknown to this release of barnabas{hint}"))
        return values

    def _acls(self) -> frozenset[AclBinding]:
        bindings: set[AclBinding] = set()
        for index, entry in enumerate(self._raw.get("acls", ())):
            path = f"acls[{index}]"
            hosts = [self._host(host, entry["line"], path) for host in entry.get("host", [WILDCARD_HOST])]
            patterns = [
                found
                for resource in entry["resources"]
                if (found := self._pattern(resource, entry["line"], path)) is not None
            ]
            permission = entry.get("permission", int(AclPermissionType.ALLOW))
            for pattern, operation in product(patterns, entry["operations"]):
                self._check_operation(entry["line"], path, pattern.resource_type, operation)
            for principal, host, operation, pattern in product(
                entry["principal"], hosts, entry["operations"], patterns
            ):
                bindings.add(AclBinding(*_resource(pattern), principal, host, int(operation), permission))
            self._check_acl_scope(entry, path, patterns, hosts[0], permission)
        return frozenset(bindings)

    def _check_acl_scope(
        self, entry: dict[str, Any], path: str, patterns: list[ResourcePattern], host: str, permission: int
    ) -> None:
        for principal, pattern in product(entry["principal"], patterns):
            binding = AclBinding(*_resource(pattern), principal, host, AclOperation.READ, permission)
            is_owned = self._scope.has_acl(binding)
            kind = "names that begin with " if pattern.pattern_type == PatternType.PREFIXED else ""
            what = f"an ACL for {principal} on {resource_type_name(pattern.resource_type)} {kind}{shown(pattern.name)}"
            self._must_own(entry["line"], path, what, "acls", is_owned=is_owned)

    def _host(self, host: str, line: int, path: str) -> str:
        try:
            form = parse_host(host)
        except ValueError:
            text = f"{shown(host)} matches no client: ACLs match IP addresses"
            self._warnings.append(Problem(line, path, text))
            return host
        if form != host:
            text = f"{shown(host)} matches no client: nodes compare addresses in the form {form}"
            self._warnings.append(Problem(line, path, text))
        return host

    def _pattern(self, raw: Any, line: int, path: str) -> ResourcePattern | None:
        if isinstance(raw, ResourcePattern):
            return raw
        pattern = ResourcePattern(raw["type"], raw["name"], raw.get("pattern", int(PatternType.LITERAL)))
        if not pattern.name:
            self._complain(raw["line"], f"{path}.resources", "the name is empty; an ACL needs a name")
            return None
        if pattern.resource_type == ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
            self._complain(raw["line"], f"{path}.resources", f"the only Cluster resource is {CLUSTER_NAME}")
            return None
        return pattern

    def _check_operation(self, line: int, path: str, resource_type: int, operation: int) -> None:
        supported = supported_operations(resource_type)
        if operation not in (AclOperation.ALL, *supported):
            words = ", ".join(map(operation_text, supported))
            kind = resource_type_name(resource_type)
            text = f"{operation_text(operation)} does not apply to {kind}; valid are All, {words}"
            problem = Problem(line, path, text)
            if problem not in self._warnings:
                self._warnings.append(problem)

    def _users(self) -> dict[Credential, int | None]:
        found: dict[Credential, int | None] = {}
        for user, (line, mechanisms) in self._raw.get("users", {}).items():
            path = f"users.{user}"
            self._must_own(line, path, f"user {shown(user)}", "users", is_owned=self._scope.has_user(user))
            if not mechanisms and not any(problem.path.startswith(path) for problem in self._problems):
                self._complain(line, path, "the mechanism is missing; valid are SCRAM-SHA-256, SCRAM-SHA-512")
            for mechanism, (_, credential) in mechanisms.items():
                key = Credential(user, mechanism)
                found[key] = credential.get("iterations")
                password = credential.get("password")
                if password is not None:
                    self._passwords[key] = password if isinstance(password, Secret) else password["clear"]
        return found

    def _quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        found: dict[QuotaEntity, dict[str, float]] = {}
        for index, entry in enumerate(self._raw.get("quotas", ())):
            line, path = entry["line"], f"quotas[{index}]"
            entity = _entity(entry["entity"])
            limits = {name: value for name, (_, value) in entry["limits"].items()}
            mistake = _entity_mistake(entity, limits)
            if mistake is not None:
                self._complain(line, path, mistake)
                continue
            if entity in found:
                self._complain(line, path, f"{entity_text(entity)} is listed twice")
            self._must_own(line, path, entity_text(entity), "quotas", is_owned=self._scope.has_quota(entity))
            found[entity] = limits
        return found


def _scope(raw: dict[str, Any], problems: list[Problem]) -> Scope:
    quotas = []
    for index, entry in enumerate(raw.get("quotas", ())):
        entity = _entity(entry)
        mistake = _entity_mistake(entity, {})
        if mistake is not None:
            problems.append(Problem(entry["line"], f"scope.quotas[{index}]", mistake))
        parts = tuple((kind, None if name is None else NamePattern.parse(name)) for kind, name in entity)
        quotas.append(QuotaScope(parts))
    acls = []
    for index, entry in enumerate(raw.get("acls", ())):
        resource, principal = entry.get("resource"), entry.get("principal")
        if resource is None and principal is None:
            text = "has neither resource nor principal; write principal: '*' to own all ACLs"
            problems.append(Problem(entry["line"], f"scope.acls[{index}]", text))
        acls.append(_acl_scope(resource, principal))
    return Scope(
        tuple(raw.get("topics", ())), tuple(raw.get("configs", ())), tuple(acls), tuple(raw.get("users", ())),
        tuple(quotas),
    )  # fmt: skip


def _resource(pattern: ResourcePattern) -> tuple[int, str, int]:
    return int(pattern.resource_type), pattern.name, int(pattern.pattern_type)


def _acl_scope(resource: ResourcePattern | None, principal: NamePattern | None) -> AclScope:
    if resource is None:
        return AclScope(None, None, principal)
    if resource.pattern_type == PatternType.PREFIXED:
        return AclScope(resource.resource_type, NamePattern(resource.name, True), principal)
    if resource.name == WILDCARD_NAME:
        return AclScope(resource.resource_type, NamePattern("", True), principal)
    return AclScope(resource.resource_type, NamePattern(resource.name), principal)


def _entity(raw: dict[str, Any]) -> QuotaEntity:
    return tuple(sorted((kind, raw[kind]) for kind in ("client-id", "ip", "user") if kind in raw))


def _entity_mistake(entity: QuotaEntity, limits: Mapping[str, float]) -> str | None:
    kinds = [kind for kind, _ in entity]
    if not kinds:
        return "the entity is empty; it needs user, client-id or both, or ip"
    if "ip" in kinds and len(kinds) > 1:
        return "the entity has ip and another key; ip must be the only one"
    of_ip = {"connection_creation_rate"}
    wrong = sorted(set(limits) - of_ip if "ip" in kinds else set(limits) & of_ip)
    if wrong:
        where = (
            "does not apply to an ip, which only has connection_creation_rate"
            if "ip" in kinds
            else "applies to an ip only"
        )
        return f"{', '.join(wrong)} {where}"
    return None
