"""Our transforms and predicates compared with the answers of Kafka 4.3.1's own."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect_spark.converters.json_converter import JsonConverter
from barnabas.connect_spark.converters.record_converter import RecordConverter
from barnabas.connect_spark.converters.simple_header_converter import SimpleHeaderConverter
from barnabas.connect_spark.transforms.transform_chain import TransformChain
from tests.spark.connect_answers import (
    Held,
    answers,
    as_number,
    by_class,
    described,
    header_described,
    raw_frame,
    typed_rows,
)
from tests.spark.connect_differences import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect_spark.converters.record_batch import RecordBatch
    from tests.spark.connect_answers import Answered

pytestmark = pytest.mark.spark


def _chain(name: str, config: tuple[tuple[str, str], ...]) -> TransformChain:
    if "predicates" not in name:
        settings = {f"transforms.t.{key}": value for key, value in config}
        return TransformChain.of({"transforms": "t", "transforms.t.type": name, **settings})
    settings = {f"predicates.p.{key}": value for key, value in config}
    filtered = {"transforms": "t", "transforms.t.type": "Filter", "transforms.t.predicate": "p"}
    return TransformChain.of({**filtered, "predicates": "p", "predicates.p.type": name, **settings})


def _form(datum: dict[str, str] | None) -> str:
    return next(iter(datum)) if datum else "text"


def _text(datum: dict[str, str] | None) -> bytes | None:
    return datum[_form(datum)].encode() if datum else None


def _row(line: int, record: dict[str, Any]) -> dict[str, Any]:
    headers = [{"key": name, "value": None if text is None else text.encode()} for name, text in record["headers"]]
    time = record["timestamp"]
    return {
        **{name: record[name] for name in ("topic", "partition")},
        "offset": line,
        "timestamp": None if time is None else time * 1000,
        "key": _text(record["key"]),
        "value": _text(record["value"]),
        "headers": headers,
    }


def _decoded(spark: SparkSession, answered: list[Answered]) -> Held:
    by_form: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line, question, _ in answered:
        record = question["record"]
        by_form[_form(record["key"]), _form(record["value"])].append(_row(line, record))
    batches: list[RecordBatch] = []
    for forms, rows in by_form.items():
        key, value = (JsonConverter(schemas=form == "envelope", replace_null_with_default=False) for form in forms)
        batches += RecordConverter(key, value, SimpleHeaderConverter()).to_connect(raw_frame(spark, rows))
    return Held.of(batches)


def _ours(chain: TransformChain, batches: list[RecordBatch]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for line, (batch, row) in typed_rows(chain.apply(batches)).items():
        if row["failure"]:
            found[line] = {"error": row["failure"]["exception_class"], "message": row["failure"]["message"]}
            continue
        moment = row["timestamp"]
        found[line] = {
            "topic": row["topic"],
            "timestamp": None if moment is None else round(moment.timestamp() * 1000),
            "key": described(batch.key_schema, row["key"]),
            "value": described(batch.value_schema, row["value"]),
            "headers": [header_described(header) for header in row["headers"]],
        }
    return found


def _at_offset(line: int, question: dict[str, Any], theirs: Any) -> Any:
    """Our record has the offset of its line; Kafka's had the one in the question. InsertField shows which."""
    field = question["config"].get("offset.field", "").rstrip("!?")
    side = question["class"].rpartition("$")[2].lower()
    if not field or "error" in theirs or field not in (theirs[side]["value"] or ()):
        return theirs
    assert theirs[side]["value"][field] == question["record"]["offset"]
    return {**theirs, side: {**theirs[side], "value": {**theirs[side]["value"], field: line}}}


@pytest.mark.long
def test_records_are_changed_as_kafkas_transforms_change_them(spark: SparkSession) -> None:
    wrong, count = [], 0
    cases = answers("transform", "predicate")
    decoded = _decoded(spark, cases)
    for (name, config), group in by_class(cases).items():
        found = _ours(_chain(name, config), decoded.of_lines(line for line, _, _ in group))
        for line, question, theirs in group:
            ours = line not in found if question["ask"] == "predicate" else found.get(line)
            count += 1
            theirs = _at_offset(line, question, theirs)
            if as_number(theirs) != as_number(ours) and reason_of(question, theirs, ours) is None:
                wrong.append(f"line {line}: {question}\n  Kafka: {theirs}\n  ours:  {ours}")
    assert count > 500
    assert wrong == [], f"{len(wrong)} differ:\n" + "\n".join(wrong)


CHAIN = {
    "transforms": "stamp,drop,mask,route",
    "transforms.stamp.type": "InsertField$Value",
    "transforms.stamp.topic.field": "came_from",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.drop.exclude": "secret",
    "transforms.mask.type": "MaskField$Value",
    "transforms.mask.fields": "card",
    "transforms.route.type": "RegexRouter",
    "transforms.route.regex": "(.*)",
    "transforms.route.replacement": "out-$1",
}


def test_a_chain_is_one_projection_and_no_python(spark: SparkSession) -> None:
    source = spark.range(3).selectExpr(
        "'orders' AS topic", "named_struct('id', id, 'card', 'x', 'secret', 'y') AS value"
    )
    converter = RecordConverter(JsonConverter(), JsonConverter(), SimpleHeaderConverter())
    given = converter.from_source(source)
    [batch] = TransformChain.of(CHAIN).apply([given])
    plans = [records.frame._jdf.queryExecution().analyzed().toString() for records in (given, batch)]
    assert plans[1].count("Project [") == plans[0].count("Project [") + 1
    assert "Python" not in plans[1]
    assert [tuple(row) for row in batch.frame.select("topic", "value.*").collect()] == [
        ("out-orders", at, "", "orders") for at in range(3)
    ]


def test_where_a_predicate_holds_for_some_rows_and_the_schema_changes_the_batch_is_split(spark: SparkSession) -> None:
    config = {
        "transforms": "hoist",
        "transforms.hoist.type": "HoistField$Value",
        "transforms.hoist.field": "up",
        "transforms.hoist.predicate": "p",
        "transforms.hoist.negate": "true",
        "predicates": "p",
        "predicates.p.type": "TopicNameMatches",
        "predicates.p.pattern": "t0",
    }
    source = spark.range(2).selectExpr("concat('t', id) AS topic", "id AS value")
    converter = RecordConverter(JsonConverter(), JsonConverter(), SimpleHeaderConverter())
    batches = TransformChain.of(config).apply([converter.from_source(source)])
    found = sorted((row["topic"], str(row["value"])) for batch in batches for row in batch.frame.collect())
    assert found == [("t0", "0"), ("t1", "Row(up=1)")]
