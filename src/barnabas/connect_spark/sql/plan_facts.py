"""What a query's plan says about its state: its inputs in the order of Spark's offsets, and what Spark keeps for it.

Spark checks little when a query with another plan meets an old state. So the parts of the plan that the state depends
on are described as JSON, kept beside the state, and compared before it is used (``query_state``):

- the inputs in their order, because Spark's checkpoint knows them by their number;
- event times and watermarks;
- each operator with state: what groups, joins or deduplicates, what is aggregated, and the types;
- the number of partitions of the state.

Columns that an operator uses are replaced by the expressions that define them, so a window of another length is seen.
Expressions that only follow an operator, and conditions, are not parts of its state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.sql.input_frames import INPUT_OPTION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["PlanFacts", "plan_facts"]

_REFERENCE = re.compile(r"([A-Za-z_][\w.$]*)?#(\d+)L?(-T\d+ms)?")
_DEPTH_MAX = 20
_NUMBERS = re.compile(r"#\d+L?(-T\d+ms)?")


@dataclass(frozen=True, slots=True)
class PlanFacts:
    sources: tuple[str, ...]
    """The input of each streaming source, in the order of Spark's offsets."""
    operators: tuple[dict[str, Any], ...]
    """Operators with state, from the output to the inputs."""
    watermarks: tuple[str, ...]
    filters: tuple[str, ...]
    """Conditions below operators with state: a changed one keeps the state, which then has rows of both."""

    @property
    def is_stateful(self) -> bool:
        return bool(self.operators)

    def as_json(self, partitions: int) -> dict[str, Any]:
        """Return the description that is kept beside the state."""
        return {
            "sources": list(self.sources),
            "operators": list(self.operators),
            "watermarks": list(self.watermarks),
            "filters": list(self.filters),
            "partitions": partitions,
        }


def plan_facts(rows: DataFrame, outline: DataFrame) -> PlanFacts:
    """Describe the plan of a query. ``outline`` is the result of the same query on outlines of its inputs
    (``input_outline``), so that a new version of a converter changes nothing."""
    plan: Any = rows._jdf.queryExecution().analyzed()
    sources = tuple(_sources(plan))
    java: Any = outline.sparkSession._jsparkSession
    analyzed: Any = outline._jdf.queryExecution().analyzed()
    reader = _Reader(java.sessionState().optimizer().execute(analyzed.clone()))
    reader.read()
    return PlanFacts(sources, tuple(reader.operators), tuple(reader.watermarks), tuple(reader.filters))


def _sources(plan: Any) -> Iterator[str]:
    """Yield the inputs of the streaming sources."""
    for node in _nodes(plan):
        if not node.isStreaming():
            continue
        if str(node.nodeName()) == "StreamingRelationV2":
            yield str(node.extraOptions().get(INPUT_OPTION))


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield a node and those below it, in the order in which Spark finds sources."""
    yield plan
    for child in _items(plan.children()):
        yield from _nodes(child)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


@dataclass(slots=True)
class _Reader:
    plan: Any
    operators: list[dict[str, Any]] = field(default_factory=list)
    watermarks: list[str] = field(default_factory=list)
    filters: list[str] = field(default_factory=list)
    _definitions: dict[str, str] = field(default_factory=dict)
    """The text of the expression that defines a column, by the column's number."""

    def read(self) -> None:
        for node in _nodes(self.plan):
            self._define(node)
        for node in _nodes(self.plan):
            if node.isStreaming():
                self._read_node(str(node.nodeName()), node)

    def _define(self, node: Any) -> None:
        name = str(node.nodeName())
        columns = (
            node.projectList() if name == "Project" else node.aggregateExpressions() if name == "Aggregate" else None
        )
        for column in _items(columns) if columns is not None else []:
            if str(column.nodeName()) == "Alias":
                self._definitions[str(column.exprId().id())] = str(column.child().toString())

    def _read_node(self, name: str, node: Any) -> None:
        if name == "Aggregate":
            self._read_aggregate(node)
        elif name == "Join" and all(child.isStreaming() for child in _items(node.children())):
            self._read_join(node)
        elif name in ("Deduplicate", "DeduplicateWithinWatermark"):
            self.operators.append({"kind": "deduplication", "columns": self._typed(_items(node.keys()))})
        elif name in ("GlobalLimit", "Offset"):
            self.operators.append({"kind": "limit"})
        elif name == "EventTimeWatermark":
            self.watermarks.append(f"{self._text(node.eventTime())} {node.delay()}")
        elif name == "Filter" and self.operators:
            self._read_filter(self._text(node.condition()))

    def _read_filter(self, condition: str) -> None:
        if not condition.startswith("isnotnull("):  # Spark adds these below joins.
            self.filters.append(condition)

    def _read_aggregate(self, node: Any) -> None:
        functions: list[str] = []
        for expression in _items(node.aggregateExpressions()):
            for function in _expressions(expression):
                if str(function.getClass().getSimpleName()) == "AggregateExpression":
                    text = self._typed([function])[0]
                    inputs = [str(child.dataType().catalogString()) for child in _items(function.children())]
                    text += f" of {', '.join(inputs)}"
                    functions += [] if text in functions else [text]
        keys = self._typed(_items(node.groupingExpressions()))
        self.operators.append({"kind": "aggregation", "keys": keys, "aggregates": functions})

    def _read_join(self, node: Any) -> None:
        condition = node.condition()
        left, right = _items(node.children())
        self.operators.append(
            {
                "kind": "join",
                "type": str(node.joinType().sql()).lower(),
                "condition": self._text(condition.get()) if condition.isDefined() else "none",
                "left side": self._typed(_items(left.output())),
                "right side": self._typed(_items(right.output())),
            }
        )

    def _typed(self, expressions: list[Any]) -> list[str]:
        return [f"{self._text(expression)}: {expression.dataType().catalogString()}" for expression in expressions]

    def _text(self, expression: Any) -> str:
        """Return the text of an expression on columns of the inputs, without the numbers of columns."""
        return self._resolved(str(expression.toString()), _DEPTH_MAX)

    def _resolved(self, text: str, depth: int) -> str:
        def definition(found: re.Match[str]) -> str:
            known = self._definitions.get(found[2])
            return found[1] or "" if known is None or depth == 0 else self._resolved(known, depth - 1)

        return _NUMBERS.sub("", _REFERENCE.sub(definition, text))


def _expressions(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _items(expression.children()):
        yield from _expressions(child)
