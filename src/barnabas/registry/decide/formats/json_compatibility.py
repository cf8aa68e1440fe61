"""Whether a reader with a JSON Schema accepts all values that a writer with another one may write.

The rules and the names of problems are those of Confluent's registry, for drafts 4 to 2020-12. Their heart is the
content model of an object (and, with positions for names, of a list):

- **open**: it accepts properties that it does not declare. A property may be removed. One that is declared later is an
  error, because writers may have used the name for other values, unless its new schema accepts everything.
- **closed** (``additionalProperties: false``): a property may be declared later if it is optional or has a default. One
  that is removed is an error.
- **partially open** (``patternProperties``, or a schema for ``additionalProperties``): an undeclared property has that
  schema, which is compared with the declared one.

A keyword that limits values may be relaxed or removed. Where a keyword can't be compared (``if``, ``contains``,
``propertyNames``), any change except its removal is a problem. ``format`` and annotations never are.

Schemas are compared as pairs of a document and the resolver of its references. A pair that is being compared already
counts as compatible, so schemas may be recursive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.registry.decide.formats.bipartite_matching import matching_size

__all__ = ["problems"]

Node = tuple[Any, Any]
"""A schema and the resolver of its references."""

_TYPES = frozenset(("null", "boolean", "number", "string", "array", "object"))
_UPPER = {
    "string": ("maxLength",),
    "number": ("maximum", "exclusiveMaximum"),
    "array": ("maxItems",),
    "object": ("maxProperties",),
}
_LOWER = {
    "string": ("minLength",),
    "number": ("minimum", "exclusiveMinimum"),
    "array": ("minItems",),
    "object": ("minProperties",),
}
_NOT_COMPARED = ("if", "then", "else", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems")
_ANNOTATIONS = frozenset(
    (
        *("$schema", "$id", "id", "$comment", "title", "description", "default", "examples", "readOnly", "writeOnly"),
        *("deprecated", "format", "definitions", "$defs", "contentEncoding", "contentMediaType", "$anchor"),
    )
)
_FOLLOWED_MAX = 100
"""References that lead only to other references."""


class _Problem(NamedTuple):
    kind: str
    path: str

    def __str__(self) -> str:
        words = self.kind.lower().replace("_", " ")
        description = f"The new schema has this change at path '{self.path}': {words}"
        return f'{{errorType:"{self.kind}", description:"{description}"}}'


def problems(writer: Node, reader: Node) -> list[str]:
    """Return what the reader does not accept; an empty list if it accepts all that the writer may write."""
    return [str(problem) for problem in _Comparison().compare(writer, reader, "#/")]


class _Comparison:
    def __init__(self) -> None:
        self._open: set[tuple[int, int]] = set()

    def compare(self, original: Node, update: Node, path: str) -> list[_Problem]:
        original, update = _followed(original), _followed(update)
        pair = (id(original[0]), id(update[0]))
        if original[0] is False or _accepts_all(update[0]) or pair in self._open:
            return []
        if not isinstance(update[0], Mapping):
            return [_Problem("TYPE_CHANGED", path)]
        if not isinstance(original[0], Mapping):
            original = ({}, original[1])
        self._open.add(pair)
        try:
            return self._compare_objects(original, update, path)
        finally:
            self._open.discard(pair)

    def _is_compatible(self, original: Node, update: Node, path: str) -> bool:
        return not self.compare(original, update, path)

    def _compare_objects(self, original: Node, update: Node, path: str) -> list[_Problem]:
        found = self._sums(original, update, path)
        if found is not None:
            return found
        before, after = original[0], update[0]
        types = _types(before)
        found = [*_type_problems(types, _types(after), path), *_enum_problems(before, after, path)]
        if found:
            return found
        for kind in ("string", "number", "array", "object"):
            if kind in types or (kind == "number" and "integer" in types):
                found += _limit_problems(before, after, kind, path)
        if "array" in types:
            found += self._arrays(original, update, path)
        if "object" in types:
            found += self._objects(original, update, path)
        return [*found, *self._products(original, update, path), *_other_problems(before, after, path)]

    # ---- anyOf, oneOf, allOf, not

    def _sums(self, original: Node, update: Node, path: str) -> list[_Problem] | None:
        """Compare the alternatives of either side; None if neither has any."""
        before, after = _sum_keyword(original[0]), _sum_keyword(update[0])
        if before is None and after is None:
            return None
        if before is not None and after is not None:
            return self._both_sums(original, update, before, after, path)
        if after is not None:
            branches = [self._merged(update, branch, after) for branch in _nodes(update, after)]
            if any(self._is_compatible(original, branch, path) for branch in branches):
                return []
            return [_Problem("TYPE_CHANGED", path)]
        assert before is not None
        branches = [self._merged(original, branch, before) for branch in _nodes(original, before)]
        if len(branches) == 1:
            return self.compare(branches[0], update, path)
        if all(self._is_compatible(branch, update, path) for branch in branches):
            return []
        return [_Problem("TYPE_CHANGED", path)]

    def _both_sums(self, original: Node, update: Node, before: str, after: str, path: str) -> list[_Problem]:
        writers, readers = list(_nodes(original, before)), list(_nodes(update, after))
        if before == "anyOf" and after == "oneOf" and len(writers) > 1:
            return [_Problem("COMBINED_TYPE_CHANGED", path)]
        found = []
        if len(writers) > len(readers):
            found.append(_Problem("SUM_TYPE_NARROWED", path))
        edges = [
            {place for place, reader in enumerate(readers) if self._is_compatible(writer, reader, path)}
            for writer in writers
        ]
        if matching_size(edges) < min(len(writers), len(readers)):
            found.append(_Problem("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path))
        return [*found, *self._compare_objects(_without(original, before), _without(update, after), path)]

    def _merged(self, outer: Node, branch: Node, keyword: str) -> Node:
        """Return a branch with the keywords beside its list."""
        rest = _without(outer, keyword)
        if _accepts_all(rest[0]):
            return branch
        return {"allOf": [rest[0], branch[0]], **_flattened(rest[0], _followed(branch)[0])}, outer[1]

    def _products(self, original: Node, update: Node, path: str) -> list[_Problem]:
        found = []
        writers, readers = list(_nodes(original, "allOf")), list(_nodes(update, "allOf"))
        without = _without(original, "allOf")
        candidates = [*writers, *([] if _accepts_all(without[0]) else [without])]
        for reader in readers:
            if not any(self._is_compatible(writer, reader, path) for writer in candidates):
                kind = "PRODUCT_TYPE_EXTENDED" if len(readers) > len(writers) else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
                found.append(_Problem(kind, f"{path}allOf"))
        if "not" in update[0]:
            refused = (original[0].get("not", False), original[1])
            if not self._is_compatible((update[0]["not"], update[1]), refused, path):
                found.append(_Problem("NOT_TYPE_EXTENDED", f"{path}not"))
        return found

    # ---- objects

    def _objects(self, original: Node, update: Node, path: str) -> list[_Problem]:
        return [
            *_required_problems(original[0], update[0], path),
            *self._properties(original, update, path),
            *self._pattern_properties(original, update, path),
            *self._dependencies(original, update, path),
            *self._rest(original, update, "additionalProperties", f"{path}additionalProperties"),
        ]

    def _properties(self, original: Node, update: Node, path: str) -> list[_Problem]:
        found = []
        before, after = _properties(original), _properties(update)
        for name in {**before, **after}:
            place = f"{path}properties/{name}"
            if name in before and name in after:
                found += self.compare(before[name], after[name], f"{place}/")
            elif name in before:
                found += self._removed(before[name], update, name, place)
            else:
                found += self._added(original, update, name, after[name], place)
        return found

    def _removed(self, before: Node, update: Node, name: str, path: str) -> list[_Problem]:
        if _is_open(update[0]):
            return []
        covering = _covering(update, name)
        if covering is not None:
            found = self.compare(before, covering, f"{path}/")
            kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, _Problem(kind, path)] if found else []
        return [] if before[0] is False else [_Problem("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]

    def _added(self, original: Node, update: Node, name: str, after: Node, path: str) -> list[_Problem]:
        if _is_open(original[0]):
            return [] if _accepts_all(after[0]) else [_Problem("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path)]
        found = []
        covering = _covering(original, name)
        if covering is not None:
            found = self.compare(covering, after, f"{path}/")
            if found:
                found.append(_Problem("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path))
        if name in _names(update[0], "required") and not _has_default(after):
            found.append(_Problem("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path))
        return found

    def _pattern_properties(self, original: Node, update: Node, path: str) -> list[_Problem]:
        before, after = original[0].get("patternProperties", {}), update[0].get("patternProperties", {})
        return [
            problem
            for pattern in before
            if pattern in after
            for problem in self.compare(
                (before[pattern], original[1]), (after[pattern], update[1]), f"{path}patternProperties/{pattern}/"
            )
        ]

    def _dependencies(self, original: Node, update: Node, path: str) -> list[_Problem]:
        found = []
        before, after = _dependencies(original[0]), _dependencies(update[0])
        for name, needed in after.items():
            place = f"{path}dependencies/{name}"
            known = before.get(name)
            if known is None:
                kind = "DEPENDENCY_ARRAY_ADDED" if isinstance(needed, list) else "DEPENDENCY_SCHEMA_ADDED"
                found.append(_Problem(kind, place))
            elif isinstance(needed, list) and isinstance(known, list):
                if not set(needed) <= set(known):
                    found.append(_Problem("DEPENDENCY_ARRAY_EXTENDED", place))
            else:
                found += self.compare((_as_schema(known), original[1]), (_as_schema(needed), update[1]), f"{place}/")
        return found

    def _rest(self, original: Node, update: Node, keyword: str, path: str) -> list[_Problem]:
        """Compare the schemas of what is not declared: ``additionalProperties``, ``additionalItems``."""
        before, after = original[0].get(keyword, True), update[0].get(keyword, True)
        kind = "ADDITIONAL_PROPERTIES" if keyword == "additionalProperties" else "ADDITIONAL_ITEMS"
        if before is False or _accepts_all(after):
            return []
        if after is False:
            return [_Problem(f"{kind}_REMOVED", path)]
        if _accepts_all(before):
            return [_Problem(f"{kind}_NARROWED", path)]
        return self.compare((before, original[1]), (after, update[1]), f"{path}/")

    # ---- lists

    def _arrays(self, original: Node, update: Node, path: str) -> list[_Problem]:
        before, after = _items(original), _items(update)
        found = []
        if update[0].get("uniqueItems") and not original[0].get("uniqueItems"):
            found.append(_Problem("UNIQUE_ITEMS_ADDED", f"{path}uniqueItems"))
        for place in range(max(len(before.first), len(after.first))):
            found += self._item(before, after, place, f"{path}items/{place}")
        if before.rest[0] is False or _accepts_all(after.rest[0]):
            return found
        if before.first or after.first:
            wrapped = (
                ({"additionalItems": before.rest[0]}, original[1]),
                ({"additionalItems": after.rest[0]}, update[1]),
            )
            return [*found, *self._rest(*wrapped, "additionalItems", f"{path}additionalItems")]
        return [*found, *self.compare(before.rest, after.rest, f"{path}items/")]

    def _item(self, before: _Items, after: _Items, place: int, path: str) -> list[_Problem]:
        if place < len(before.first) and place < len(after.first):
            return self.compare(before.first[place], after.first[place], f"{path}/")
        if place < len(before.first):
            if after.rest[0] is False:
                is_unused = before.first[place][0] is False
                return [] if is_unused else [_Problem("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]
            found = self.compare(before.first[place], after.rest, f"{path}/")
            return [*found, _Problem("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)] if found else []
        if before.rest[0] is False or _accepts_all(after.first[place][0]):
            return []
        if _accepts_all(before.rest[0]):
            return [_Problem("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path)]
        found = self.compare(before.rest, after.first[place], f"{path}/")
        return [*found, _Problem("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)] if found else []


class _Items(NamedTuple):
    """The schemas of a list's first items, and of all others."""

    first: Sequence[Node]
    rest: Node


def _items(node: Node) -> _Items:
    schema, resolver = node
    if "prefixItems" in schema:
        first, rest = schema["prefixItems"], schema.get("items", True)
    elif isinstance(schema.get("items"), list):
        first, rest = schema["items"], schema.get("additionalItems", True)
    else:
        first, rest = [], schema.get("items", True)
    return _Items([(item, resolver) for item in first], (rest, resolver))


# ---- single schemas


def _followed(node: Node) -> Node:
    """Return the schema that a reference leads to."""
    for _ in range(_FOLLOWED_MAX):
        schema, resolver = node
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            return node
        found = resolver.lookup(schema["$ref"])
        node = (found.contents, found.resolver)
    return True, node[1]


def _accepts_all(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        return _ANNOTATIONS.issuperset(schema)
    return schema is True


def _types(schema: Any) -> frozenset[str]:
    """Return the types of values that the schema may accept."""
    named = schema.get("type")
    if named is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        return _TYPES if values is None else frozenset(map(_type_of, values))
    return frozenset([named] if isinstance(named, str) else named)


def _type_of(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object"


def _type_problems(before: frozenset[str], after: frozenset[str], path: str) -> list[_Problem]:
    wide = after | {"integer"} if "number" in after else after
    if before <= wide:
        return []
    is_narrowed = before & wide or ("number" in before and "integer" in after)
    return [_Problem("TYPE_NARROWED" if is_narrowed else "TYPE_CHANGED", path)]


def _enum_problems(before: Any, after: Any, path: str) -> list[_Problem]:
    wanted, allowed = _values(before), _values(after)
    if allowed is None:
        return []
    if wanted is None:
        return [_Problem("ENUM_ARRAY_NARROWED", f"{path}enum")]
    missing = [value for value in wanted if not _contains(allowed, value)]
    if not missing:
        return []
    kind = "ENUM_ARRAY_NARROWED" if all(_contains(wanted, value) for value in allowed) else "ENUM_ARRAY_CHANGED"
    return [_Problem(kind, f"{path}enum")]


def _values(schema: Any) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return list(found) if isinstance(found, list) else None


def _contains(values: Sequence[Any], value: Any) -> bool:
    """Like ``in``, but true is not 1."""
    return any(other == value and isinstance(other, bool) == isinstance(value, bool) for other in values)


def _limit_problems(before: Any, after: Any, kind: str, path: str) -> list[_Problem]:
    found = []
    for keywords, word, sign in ((_UPPER, "DECREASED", 1), (_LOWER, "INCREASED", -1)):
        for keyword in keywords[kind]:
            known, limit = before.get(keyword), after.get(keyword)
            if type(limit) not in (int, float):  # In draft 4 exclusiveMaximum is true or false.
                if limit is True and known is not True:
                    found.append(_Problem(f"{_upper(keyword)}_ADDED", path + keyword))
            elif type(known) not in (int, float):
                found.append(_Problem(f"{_upper(keyword)}_ADDED", path + keyword))
            elif sign * limit < sign * known:
                found.append(_Problem(f"{_upper(keyword)}_{word}", path + keyword))
    if kind == "string" and after.get("pattern", before.get("pattern")) != before.get("pattern"):
        found.append(_Problem("PATTERN_CHANGED" if "pattern" in before else "PATTERN_ADDED", f"{path}pattern"))
    if kind == "number" and "multipleOf" in after:
        found += _multiple_problems(before.get("multipleOf"), after["multipleOf"], f"{path}multipleOf")
    return found


def _multiple_problems(before: Any, after: Any, path: str) -> list[_Problem]:
    if before is None:
        return [_Problem("MULTIPLE_OF_ADDED", path)]
    quotient = before / after
    if abs(quotient - round(quotient)) < 1e-9:
        return []
    is_expanded = abs(after / before - round(after / before)) < 1e-9
    return [_Problem("MULTIPLE_OF_EXPANDED" if is_expanded else "MULTIPLE_OF_CHANGED", path)]


def _other_problems(before: Any, after: Any, path: str) -> list[_Problem]:
    return [
        _Problem(f"{_upper(keyword)}_CHANGED", path + keyword)
        for keyword in _NOT_COMPARED
        if keyword in after and before.get(keyword) != after[keyword]
    ]


def _required_problems(before: Any, after: Any, path: str) -> list[_Problem]:
    """Report properties that become required. One that is declared only now is reported with its content model."""
    known = before.get("properties", {})
    declared = after.get("properties", {})
    return [
        _Problem("REQUIRED_ATTRIBUTE_ADDED", f"{path}required/{name}")
        for name in _names(after, "required")
        if name not in _names(before, "required")
        and (name in known or name not in declared)
        and not (isinstance(declared.get(name), Mapping) and "default" in declared[name])
    ]


def _names(schema: Any, keyword: str) -> list[str]:
    found = schema.get(keyword, [])
    return found if isinstance(found, list) else []


def _properties(node: Node) -> dict[str, Node]:
    return {name: (schema, node[1]) for name, schema in node[0].get("properties", {}).items()}


def _dependencies(schema: Any) -> dict[str, Any]:
    return {
        **schema.get("dependencies", {}),
        **schema.get("dependentRequired", {}),
        **schema.get("dependentSchemas", {}),
    }


def _as_schema(dependency: Any) -> Any:
    return {"required": dependency} if isinstance(dependency, list) else dependency


def _has_default(node: Node) -> bool:
    schema = _followed(node)[0]
    return isinstance(schema, Mapping) and "default" in schema


def _is_open(schema: Any) -> bool:
    return not schema.get("patternProperties") and _accepts_all(schema.get("additionalProperties", True))


def _covering(node: Node, name: str) -> Node | None:
    """Return the schema of a property that is not declared; None if it is not accepted."""
    schema, resolver = node
    for pattern, found in schema.get("patternProperties", {}).items():
        if _matches(pattern, name):
            return found, resolver
    rest = schema.get("additionalProperties", True)
    return None if rest is False else (rest, resolver)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


def _sum_keyword(schema: Any) -> str | None:
    return next((keyword for keyword in ("oneOf", "anyOf") if isinstance(schema.get(keyword), list)), None)


def _nodes(node: Node, keyword: str) -> list[Node]:
    return [(schema, node[1]) for schema in node[0].get(keyword, ())]


def _without(node: Node, keyword: str) -> Node:
    return {name: value for name, value in node[0].items() if name != keyword}, node[1]


def _flattened(outer: Any, branch: Any) -> dict[str, Any]:
    """Return the keywords of both, where they have none in common; otherwise only those of the branch."""
    if not isinstance(branch, Mapping):
        return {}
    return {**{name: value for name, value in outer.items() if name not in branch}, **branch}


def _upper(keyword: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", keyword).upper()
