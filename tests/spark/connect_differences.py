"""The differences between our converters and transforms and Kafka's, with reasons. Every other difference is a failure.
Each entry is a reason and a predicate on the question, Kafka's answer and ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.spark.connect_answers import as_number

__all__ = ["DIFFERENCES", "reason_of"]

Question = dict[str, Any]
Predicate = Callable[[Question, Any, Any], bool]


def _says(ours: Any, *beginnings: str) -> bool:
    message = ours.get("message", "") if isinstance(ours, dict) and "error" in ours else ""
    return any(beginning in message for beginning in beginnings)


def _asks(question: Question, name: str) -> bool:
    return str(question["class"]).split(".")[-1].startswith(name)


def _wrong_json(question: Question, theirs: Any, ours: Any) -> bool:
    return _says(ours, "Invalid type for", "Arrays should be encoded", "not Base64")


def _both_refuse(question: Question, theirs: Any, ours: Any) -> bool:
    return isinstance(theirs, dict) and "error" in theirs and isinstance(ours, dict) and "error" in ours


def _null(question: Question, theirs: Any, ours: Any) -> bool:
    return question["ask"] == "from" and ours == {"data": None}


def _decimal_scale(question: Question, theirs: Any, ours: Any) -> bool:
    return isinstance(theirs, dict) and "mismatching scale" in str(theirs.get("message"))


def _structured_header(question: Question, theirs: Any, ours: Any) -> bool:
    value = ours.get("value") if isinstance(ours, dict) else None
    return question["ask"] == "header-to" and isinstance(value, list | dict) and ours.get("schema") is None


def _null_header(question: Question, theirs: Any, ours: Any) -> bool:
    return question["ask"] == "header-to" and "NullPointerException" in str(theirs)


def _lenient_date(question: Question, theirs: Any, ours: Any) -> bool:
    return question["ask"] == "header-to" and "-13-" in bytes.fromhex(question["data"] or "").decode()


def _nan(question: Question, theirs: Any, ours: Any) -> bool:
    return "NaN" in json.dumps(question) or '"nan"' in json.dumps(ours)


def _odd_utf16(question: Question, theirs: Any, ours: Any) -> bool:
    return _says(ours, "the bytes are not valid UTF-16")


def _numeric_default(question: Question, theirs: Any, ours: Any) -> bool:
    return question.get("config", {}).get("decimal.format") == "NUMERIC" and '\\"default\\"' in json.dumps(question)


def _cast_logical(question: Question, theirs: Any, ours: Any) -> bool:
    return _asks(question, "Cast") and "org.apache.kafka.connect.data.Date" in json.dumps(question["record"]["value"])


def _null_of_batch(question: Question, theirs: Any, ours: Any) -> bool:
    """Only schemas of nulls differ."""
    if question["ask"] != "transform" or not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    if "error" in theirs or "error" in ours:
        return False
    return all(
        theirs[field] == ours[field]
        or (field in ("key", "value") and theirs[field]["value"] is None and ours[field]["value"] is None)
        for field in ("topic", "timestamp", "key", "value", "headers")
    )


def _name_on_non_struct(question: Question, theirs: Any, ours: Any) -> bool:
    return _asks(question, "SetSchemaMetadata") and "Cannot list fields on non-struct type" in str(theirs)


def _required_time(question: Question, theirs: Any, ours: Any) -> bool:
    lacks = question["ask"] == "transform" and question["record"]["timestamp"] is None
    return lacks and _asks(question, "InsertField") and _says(ours, "null used for required field")


def _renamed_twice(question: Question, theirs: Any, ours: Any) -> bool:
    """Return whether two fields receive one name, or one receives the name of a field that stays."""
    return (
        _asks(question, "ReplaceField")
        and ":" in question["config"].get("renames", "")
        and ("is not a valid field name" in str(theirs.get("message")))
    )


def _schemaless_time(question: Question, theirs: Any, ours: Any) -> bool:
    """Return whether the answers differ only in that ours is a number."""
    return (
        _asks(question, "TimestampConverter")
        and question["config"]["target.type"] == "Time"
        and ours["value"]["schema"] is None
        and _plain_dates(as_number(theirs)) == as_number(ours)
    )


def _plain_dates(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            value["$date"] if set(value) == {"$date"} else {key: _plain_dates(member) for key, member in value.items()}
        )
    return [_plain_dates(item) for item in value] if isinstance(value, list) else value


def _out_of_range(question: Question, theirs: Any, ours: Any) -> bool:
    return _asks(question, "TimestampConverter") and _says(ours, "the timestamp is out of the range of Spark's")


DIFFERENCES: tuple[tuple[str, Predicate], ...] = (
    ("a null has the schema of the other records of its batch after the transform", _null_of_batch),
    ("a schema that is not a struct receives its name and version too; Java's fails on it", _name_on_non_struct),
    ("both refuse with different texts: ours name the fix or the exact error", _both_refuse),
    (
        "JSON of a type other than its schema's is a bad record; Jackson converts it to 0, false, null or a part",
        _wrong_json,
    ),
    ("a null is a tombstone whatever its schema: Spark rows cannot express a tombstone otherwise", _null),
    ("a decimal is written with the scale of its schema; Java refuses one that was read with another", _decimal_scale),
    ("NaN and the infinities, which JsonConverter writes as text, are read back", _nan),
    ("a nested array or map in a header stays schemaless", _structured_header),
    ("the header `null` is null; Java's converter returns null where a value with a schema is expected", _null_header),
    ("dates are parsed strictly; Java's calendar accepts a thirteenth month as the next January", _lenient_date),
    ("invalid UTF-16 is a bad record, not a replacement character", _odd_utf16),
    (
        "the default of a Decimal stays Base64 in the schema, whatever decimal.format says of the payload",
        _numeric_default,
    ),
    (
        "a cast of a whole Date drops the name of the logical type; Java keeps it on a type that it does not fit",
        _cast_logical,
    ),
    (
        "a record without a required timestamp is immediately bad; after Java's transform the converter refuses it",
        _required_time,
    ),
    (
        "a rename changes only existing fields; Java's looks for the value under a name that the record lacks",
        _renamed_twice,
    ),
    ("without a schema a Time is its milliseconds: VARIANT has no type for it, nor JSON", _schemaless_time),
    ("times that Spark's 64 bits of microseconds cannot represent are bad records", _out_of_range),
)


def reason_of(question: Question, theirs: Any, ours: Any) -> str | None:
    return next((reason for reason, applies in DIFFERENCES if applies(question, theirs, ours)), None)
