"""Pure steps from ACLs to the decisions of an authorizer, without looking at each principal and resource.

Rules divide names into classes (decision 12): a literal, or a prefix without the narrower patterns in it. A principal's
access changes only at patterns of its own rules and, within these, of rules for ``User:*``. All other names are like
those of ``*``, which stands for principals without rules of their own. So the size of the answer depends on the rules,
not on how many topics and principals exist, and each join has an equality on names: a name is compared with the
prefixes of the lengths that occur.

Within a class the rules of the class and of wider patterns decide: the first DENY, from the nearest pattern; otherwise
the last ALLOW, as Kafka names it in its audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.access.rule_set import IMPLIED_BY
from barnabas.common.acl import WILDCARD_HOST, WILDCARD_NAME, WILDCARD_PRINCIPAL, AclOperation
from barnabas.common.resource import ResourceType
from barnabas.pipelines.effective_permissions.schema import ANY, NO_ACL, OTHERS, PERMISSIONS, RESOURCE_PERMISSIONS
from barnabas.security.authorizer.authorized_operations import SUPPORTED_OPERATIONS

__all__ = ["effective_permissions", "permissions_of_resources"]

_LITERAL_DEPTH: Final = 1 << 30
"""How near a pattern is to a name: a prefix's length, above all for the name itself, below all for all names."""

_KNOWN_OPERATIONS: Final = tuple(operation.name for operation in AclOperation if operation >= AclOperation.ALL)
_PLACE: Final = ("resource_type", "name", "pattern_type")
_IMPLIES: Final[Mapping[str, tuple[str, ...]]] = {
    operation: tuple(AclOperation(implied).name for implied, by in IMPLIED_BY.items() if AclOperation[operation] in by)
    for operation in _KNOWN_OPERATIONS
}


def effective_permissions(
    rules: DataFrame, *, super_users: Sequence[str] = (), allow_everyone: bool = False, by: Sequence[str] = ()
) -> DataFrame:
    """Return the decisions as ``PERMISSIONS``, for each set of rules that the columns ``by`` tell apart.

    ``rules`` has the rule columns of the ACL history. Sets may be clusters, or points in time.
    """
    every_rule = _known_rules(rules, by)
    known = every_rule.where(~F.col("rule_principal").isin(*super_users) if super_users else F.lit(True))
    lengths = F.broadcast(_prefix_lengths(known, by))
    places = _places(known, lengths, by)
    matching = _matching_rules(known, places, lengths, by)
    decided = _decisions(matching, F.broadcast(_domains(every_rule, by)), by)
    for user in super_users:
        decided = decided.unionByName(_one_row(rules, by, user, ANY, "SuperUser"))
    if allow_everyone:
        decided = decided.unionByName(_one_row(rules, by, OTHERS, NO_ACL, "DefaultAllow"))
    return decided.select(*by, *PERMISSIONS.fieldNames())


def permissions_of_resources(
    permissions: DataFrame, rules: DataFrame, resources: DataFrame, *, by: Sequence[str] = ()
) -> DataFrame:
    """Return the decisions about each of ``resources`` (``resource_type``, ``resource_name``), sparse.

    ``rules`` are those of ``permissions``: names that none of them matches are open if the default is to allow.
    """
    known = _known_rules(rules, by)
    resource = (*by, "resource_type", "resource_name")
    named = resources.select(*resource).distinct()
    as_places = named.select(*resource, F.col("resource_name").alias("name"), F.lit("LITERAL").alias("pattern_type"))
    candidates = _wider_patterns(as_places, F.broadcast(_prefix_lengths(known, by)), by, keep=("resource_name",))
    placed = permissions.where(F.col("rule") == "MatchingAcl")
    place = (*by, "resource_type", "wider_name", "wider_type")
    its_places = placed.select(
        *by, "principal", "resource_type", F.col("name").alias("wider_name"), F.col("pattern_type").alias("wider_type")
    ).distinct()
    nearest = (
        candidates.join(its_places, on=list(place), how="inner")
        .groupBy(*resource, "principal")
        .agg(F.max_by(F.struct("wider_name", "wider_type"), "depth").alias("nearest"))
        .select(
            *resource,
            "principal",
            F.col("nearest.wider_name").alias("name"),
            F.col("nearest.wider_type").alias("pattern_type"),
        )
    )
    columns = [*by, *RESOURCE_PERMISSIONS.fieldNames()]
    decided = nearest.join(placed, on=[*by, "principal", *_PLACE], how="inner").select(*columns)
    with_rules = candidates.join(
        known.select(
            *by, "resource_type", F.col("name").alias("wider_name"), F.col("pattern_type").alias("wider_type")
        ),
        on=list(place),
        how="left_semi",
    )
    open_names = named.join(with_rules, on=list(resource), how="left_anti")
    default = permissions.where(F.col("rule") == "DefaultAllow").drop("resource_type")
    by_default = open_names.join(default, on=list(by), how="inner") if by else open_names.crossJoin(default)
    everything = permissions.where(F.col("rule") == "SuperUser")
    for_super_users = everything.select(*by, *_with_name(everything), *columns[len(by) + 3 :])
    return decided.unionByName(by_default.select(*columns)).unionByName(for_super_users).select(*columns)


def _with_name(frame: DataFrame) -> tuple[Column, ...]:
    return F.col("principal"), frame["resource_type"], F.lit(OTHERS).alias("resource_name")


def _known_rules(rules: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return the rules that can have an effect. Codes of a newer Kafka have none."""
    return rules.where(
        F.col("pattern_type").isin("LITERAL", "PREFIXED")
        & F.col("permission").isin("ALLOW", "DENY")
        & F.col("operation").isin(*_KNOWN_OPERATIONS)
    ).select(
        *by,
        "acl_id",
        "resource_type",
        F.col("resource_name").alias("name"),
        "pattern_type",
        F.col("principal").alias("rule_principal"),
        F.col("host").alias("rule_host"),
        F.col("operation").alias("rule_operation"),
        "permission",
    )


def _prefix_lengths(known: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return the lengths of prefixes that occur for each type."""
    return (
        known.where(F.col("pattern_type") == "PREFIXED")
        .groupBy(*by, "resource_type")
        .agg(F.sort_array(F.collect_set(F.length("name"))).alias("lengths"))
        .select(*by, "resource_type", "lengths")
    )


def _is_wildcard(name: str = "name", pattern_type: str = "pattern_type") -> Column:
    return (F.col(pattern_type) == "LITERAL") & (F.col(name) == WILDCARD_NAME)


def _wider_patterns(places: DataFrame, lengths: DataFrame, by: Sequence[str], *, keep: Sequence[str] = ()) -> DataFrame:
    """Return all patterns that match every name of a place: itself, prefixes of its name, and all names.

    They are candidates: whether a rule has such a pattern is for the caller to find out.
    """
    prefixes = F.transform(
        F.filter(F.coalesce("lengths", F.array().cast("array<int>")), lambda length: length <= F.length("name")),
        lambda length: _pattern(F.substring(F.col("name"), F.lit(1), length), "PREFIXED", length),
    )
    all_names = F.array(_pattern(F.lit(WILDCARD_NAME), "LITERAL", F.lit(-1)))
    itself = F.array(_pattern(F.col("name"), "LITERAL", F.lit(_LITERAL_DEPTH)))
    is_name = (F.col("pattern_type") == "LITERAL") & (F.col("name") != WILDCARD_NAME)
    is_resource_called_wildcard = F.lit("resource_name" in keep)
    candidates = (
        F.when(is_name, F.concat(itself, prefixes, all_names))
        .when(_is_wildcard() & ~is_resource_called_wildcard, all_names)
        .otherwise(F.concat(prefixes, all_names))
    )
    kept = [*by, *_PLACE, *keep]
    return (
        places.join(lengths, on=[*by, "resource_type"], how="left")
        .select(*kept, F.explode(candidates).alias("wider"))
        .select(*kept, "wider.wider_name", "wider.wider_type", "wider.depth")
    )


def _pattern(name: Column, pattern_type: str, depth: Column) -> Column:
    return F.struct(name.alias("wider_name"), F.lit(pattern_type).alias("wider_type"), depth.cast("int").alias("depth"))


def _places(known: DataFrame, lengths: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return the patterns at which each principal's access may change."""
    place = [*by, *_PLACE]
    patterns = known.select(*place, F.col("rule_principal").alias("principal")).distinct()
    shared = patterns.where(F.col("principal") == WILDCARD_PRINCIPAL).select(*place)
    own = patterns.where(F.col("principal") != WILDCARD_PRINCIPAL)
    inside = shared.where(~_is_wildcard())
    wider = _wider_patterns(inside, lengths, by).where(F.col("depth") != _LITERAL_DEPTH)
    around = own.select(
        *by,
        "resource_type",
        F.col("name").alias("wider_name"),
        F.col("pattern_type").alias("wider_type"),
        "principal",
    )
    nested = wider.join(around, on=[*by, "resource_type", "wider_name", "wider_type"], how="inner").select(
        *place, "principal"
    )
    others = shared.select(*place, F.lit(OTHERS).alias("principal"))
    return (
        own.select(*place, "principal").unionByName(nested).distinct().unionByName(others).select(*place, "principal")
    )


def _matching_rules(known: DataFrame, places: DataFrame, lengths: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return, for each principal and place, the rules that apply to all its names, with their depth."""
    place = [*by, *_PLACE]
    pattern = [*by, "resource_type", "wider_name", "wider_type"]
    by_pattern = known.withColumnsRenamed({"name": "wider_name", "pattern_type": "wider_type"})
    patterns = by_pattern.select(*pattern).distinct()
    wider = (
        _wider_patterns(places.select(*place).distinct(), lengths, by)
        .join(patterns, on=pattern, how="left_semi")
        .select(*place, "wider_name", "wider_type", "depth")
    )
    around = places.join(wider, on=place, how="inner")
    shared_rules = by_pattern.where(F.col("rule_principal") == WILDCARD_PRINCIPAL)
    own_rules = by_pattern.where(F.col("rule_principal") != WILDCARD_PRINCIPAL)
    own = around.join(
        own_rules.withColumn("principal", F.col("rule_principal")), on=[*pattern, "principal"], how="inner"
    )
    shared = around.join(shared_rules, on=pattern, how="inner")
    columns = [*place, "principal", "depth", "acl_id", "rule_principal", "rule_host", "rule_operation", "permission"]
    return own.select(*columns).unionByName(shared.select(*columns)).select(*columns)


def _domains(known: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return the operations to decide for each type: those that it supports, and others that its rules name."""
    supported = _text_map(
        {ResourceType(code).name: _names(operations) for code, operations in SUPPORTED_OPERATIONS.items()}
    )
    named = known.where(F.col("rule_operation") != "ALL").select(
        *by, "resource_type", F.explode(_covered(F.lit("ALLOW"), F.col("rule_operation"))).alias("operation")
    )
    types = known.select(*by, "resource_type").distinct()
    all_named = named.groupBy(*by, "resource_type").agg(F.collect_set("operation").alias("named"))
    nothing = F.array().cast("array<string>")
    return types.join(all_named, on=[*by, "resource_type"], how="left").select(
        *by,
        "resource_type",
        F.array_union(
            F.coalesce(supported[F.col("resource_type")], nothing), F.coalesce(F.col("named"), nothing)
        ).alias("domain"),
    )


def _decisions(matching: DataFrame, domains: DataFrame, by: Sequence[str]) -> DataFrame:
    """Decide for each host that a rule of the place names, and for all others; and for each operation."""
    place = [*by, "principal", *_PLACE]
    hosts = matching.groupBy(*place).agg(F.collect_set("rule_host").alias("hosts"))
    every_host = F.array_union(F.col("hosts"), F.array(F.lit(WILDCARD_HOST)))
    is_for_all_hosts = F.col("rule_host") == WILDCARD_HOST
    is_for_all_operations = F.col("rule_operation") == "ALL"
    operations = F.when(is_for_all_operations, F.col("domain")).otherwise(
        _covered(F.col("permission"), F.col("rule_operation"))
    )
    order = F.struct(
        (-F.col("depth")).alias("depth"),
        _code(F.col("rule_operation")).alias("code"),
        F.encode("rule_principal", "UTF-16BE").alias("principal_units"),
        F.encode("rule_host", "UTF-16BE").alias("host_units"),
        F.col("acl_id"),
    )
    outcome = (
        matching.join(hosts, on=place, how="inner")
        .join(domains, on=[*by, "resource_type"], how="inner")
        .select(
            *place,
            F.explode(F.when(is_for_all_hosts, every_host).otherwise(F.array("rule_host"))).alias("host"),
            operations.alias("operations"),
            "permission",
            order.alias("order"),
        )
        .select(*place, "host", F.explode("operations").alias("operation"), "permission", "order")
        .groupBy(*place, "host", "operation")
        .agg(
            F.min(F.when(F.col("permission") == "DENY", F.col("order"))).alias("denial"),
            F.max(F.when(F.col("permission") == "ALLOW", F.col("order"))).alias("grant"),
        )
    )
    return outcome.select(
        *place,
        "host",
        "operation",
        F.col("denial").isNull().alias("allowed"),
        F.lit("MatchingAcl").alias("rule"),
        F.coalesce("denial.acl_id", "grant.acl_id").alias("acl_id"),
    ).select(*by, *PERMISSIONS.fieldNames())


def _covered(permission: Column, operation: Column) -> Column:
    """Return the operations that a rule for one operation applies to. Only an ALLOW implies others."""
    implied = _text_map({name: (name, *others) for name, others in _IMPLIES.items()})
    return F.when(permission == "ALLOW", implied[operation]).otherwise(F.array(operation))


def _code(operation: Column) -> Column:
    pairs = [F.lit(part) for name in _KNOWN_OPERATIONS for part in (name, int(AclOperation[name]))]
    return F.create_map(*pairs)[operation]


def _text_map(values: Mapping[str, Sequence[str]]) -> Column:
    pairs = [part for name, texts in values.items() for part in (F.lit(name), F.array(*map(F.lit, texts)))]
    return F.create_map(*pairs)


def _names(operations: Sequence[AclOperation]) -> tuple[str, ...]:
    return tuple(operation.name for operation in operations)


def _one_row(rules: DataFrame, by: Sequence[str], principal: str, pattern_type: str, rule: str) -> DataFrame:
    """Return a row for each set of rules: for one principal, and every operation."""
    sets = rules.select(*by).distinct() if by else rules.sparkSession.range(1)
    return sets.select(
        *by,
        F.lit(principal).alias("principal"),
        F.lit(ANY).alias("resource_type"),
        F.lit(WILDCARD_NAME).alias("name"),
        F.lit(pattern_type).alias("pattern_type"),
        F.lit(WILDCARD_HOST).alias("host"),
        F.lit("ALL").alias("operation"),
        F.lit(True).alias("allowed"),
        F.lit(rule).alias("rule"),
        F.lit(None).cast("string").alias("acl_id"),
    )
