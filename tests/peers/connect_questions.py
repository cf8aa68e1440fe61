"""The questions for Kafka's own converters, transforms and predicates, to compare ours with their answers.

A question names a class, its settings and either bytes (``to``, ``header-to``), data (``from``, ``header-from``) or a
record (``transform``, ``predicate``). Data is {"envelope": JSON} with a schema, {"text": JSON} without, or null.
"""
# Tables are easier to read in long lines.
# ruff: noqa: E501

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

__all__ = ["converter_questions", "questions", "transform_questions"]

JSON = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
NUMBERS = "org.apache.kafka.connect.converters"
TRANSFORMS = "org.apache.kafka.connect.transforms"
DATA = "org.apache.kafka.connect.data"

Question = dict[str, Any]
Schema = dict[str, Any]


def questions() -> list[Question]:
    return [*converter_questions(), *transform_questions()]


# ---- Schemas and data -----------------------------------------------------------------------------------------------


def schema(kind: str, *, optional: bool = True, **more: Any) -> Schema:
    return {"type": kind, "optional": optional, **more}


def logical(name: str, **more: Any) -> Schema:
    kind = {"Decimal": "bytes", "Date": "int32", "Time": "int32", "Timestamp": "int64"}[name]
    return schema(kind, name=f"{DATA}.{name}", version=1, **more)


def decimal(scale: int, **more: Any) -> Schema:
    return logical("Decimal", parameters={"scale": str(scale)}, **more)


def struct(optional: bool = True, name: str | None = None, /, **fields: Schema) -> Schema:
    named = {} if name is None else {"name": name, "version": 3}
    members = [{**member, "field": field} for field, member in fields.items()]
    return schema("struct", optional=optional, fields=members, **named)


def unscaled(number: int) -> str:
    size = max(1, (number.bit_length() // 8) + 1)
    while size > 1:
        try:
            number.to_bytes(size - 1, "big", signed=True)
        except OverflowError:
            break
        size -= 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def enveloped(kind: Schema | None, payload: Any) -> str:
    return json.dumps({"schema": kind, "payload": payload}, ensure_ascii=False)


def hexed(text: str | bytes) -> str:
    return (text.encode() if isinstance(text, str) else text).hex()


VALUES: list[tuple[Schema, list[Any]]] = [
    (schema("int8"), [0, 127, -128, 5.0, None, "12", 300, True]),
    (schema("int16"), [-32768, 32767, 40000]),
    (schema("int32"), [2147483647, -1, 1e3, 1.5]),
    (schema("int64"), [9223372036854775807, -9223372036854775808, 9223372036854775808]),
    (schema("float"), [1.5, 0.1, -3, "NaN", 1e30]),
    (schema("double"), [1.5, 0.1, 1e300, 12345678901234567890, -0.0]),
    (schema("boolean"), [True, False, "true", 1]),
    (schema("string"), ["", "é\u0001\u2603", "a\"b\\c", "\U0001f600", 12, {"a": 1}]),
    (schema("bytes"), ["", "AP8=", "no base64!", 12]),
    (schema("string", optional=False), ["x", None]),
    (schema("string", optional=False, default="fallback"), ["x", None]),
    (schema("int32", default=7), [None, 3]),
    (decimal(2), [unscaled(12345), unscaled(-12345), unscaled(0), unscaled(128), unscaled(-128), unscaled(10**37), 1.25, 7]),
    (decimal(0), [unscaled(10**37 + 7), unscaled(-(10**37)), unscaled(2**64), unscaled(-(2**64) - 1), unscaled(-1)]),
    (decimal(10), [unscaled(1), unscaled(-12), unscaled(2**63)]),
    (decimal(2), ["!!", True]),
    (decimal(3, optional=False, default=unscaled(1500)), [None, unscaled(1)]),
    (logical("Date"), [0, 18262, -1, "2020-01-01"]),
    (logical("Time"), [0, 86399999, 86400001, -1]),
    (logical("Timestamp"), [0, 1577836800123, -1, 253402300799000]),
    (schema("array", items=schema("int32")), [[], [1, 2, None], None, {"a": 1}, "x"]),
    (schema("array", items=schema("string", optional=False)), [["a"], ["a", None]]),
    (schema("map", keys=schema("string", optional=False), values=schema("int64")), [{}, {"a": 1, "b": None}, [["a", 1]]]),
    (schema("map", keys=schema("int32"), values=schema("string")), [[], [[1, "a"], [2, None]], [[1, "a"], [1, "b"]], {"a": "b"}]),
    (schema("map", keys=schema("string"), values=decimal(1)), [{"a": unscaled(15)}]),
    (struct(), [{}, None]),
    (
        struct(False, "shop.Order", id=schema("int64", optional=False), note=schema("string"), at=logical("Timestamp")),
        [{"id": 1, "note": "n", "at": 1577836800123}, {"id": 2}, {"note": "x"}, {"id": 3, "extra": 1}, None, "x", [1]],
    ),
    (
        struct(items=schema("array", items=struct(price=decimal(2), tags=schema("array", items=schema("string"))))),
        [{"items": [{"price": unscaled(199), "tags": ["a", None]}, None]}, {"items": []}],
    ),
    (struct(d=schema("double", default=1.5), b=schema("bytes", default="AQI="), s=struct(x=schema("int8"))),
     [{}, {"d": None, "b": None, "s": {"x": 1}}]),
]  # fmt: skip

SCHEMALESS = [
    None, True, 0, -5, 9223372036854775807, 1.5, "text", "", [], {}, [1, "a", None, {"x": [True]}],
    {"id": 1, "note": None, "deep": {"a": {"b": [1, 2.5]}}, "é": "ü"},
]  # fmt: skip

TEXTS = [
    "", " ", "text", "12", "-12", "+5", "127", "128", "32768", "2147483648", "9223372036854775807",
    "9223372036854775808", "1.5", "1.0", "-0.1", "1e5", ".5", "5.", "0012", "1.5f", "NaN", "true", "TRUE", "false", "False", "null",
    "2019-08-23", "2019-13-45", "14:34:54.346Z", "2019-08-23T14:34:54.346Z", "2019-08-23T14:34:54Z", "[1,2,3]", "[]",
    '["a","b"]', '{"a":1}', "{}", '{"a":"x","b":"y"}', '"quoted"', "a,b", "[1,", "{x", "hello world", "é", " 12 ", "true false",
]  # fmt: skip


# ---- Converters -----------------------------------------------------------------------------------------------------


def converter_questions() -> Iterator[Question]:
    yield from _json_questions()
    yield from _number_questions()
    for encoding in ("UTF-8", "ISO-8859-1", "US-ASCII", "UTF-16BE"):
        config = {"converter.encoding": encoding}
        for data in (None, "", "61", "c3a9", "ff61", "00e9", "d83dde00"):
            yield {"ask": "to", "class": STRING, "config": config, "data": data}
        for text in ("", "aé", "a☃", "\U0001f600"):
            yield {
                "ask": "from",
                "class": STRING,
                "config": config,
                "data": {"envelope": enveloped(schema("string"), text)},
            }
    for kind, payload in (
        (schema("int32"), 5),
        (schema("boolean"), True),
        (schema("double"), 1.5),
        (schema("double"), 1e10),
    ):
        yield {"ask": "from", "class": STRING, "data": {"envelope": enveloped(kind, payload)}}
    for text in TEXTS:
        yield {"ask": "header-to", "class": SIMPLE, "data": hexed(text)}
    yield {"ask": "header-to", "class": SIMPLE, "data": None}
    for kind, payload in HEADER_VALUES:
        yield {"ask": "header-from", "class": SIMPLE, "data": {"envelope": enveloped(kind, payload)}}


HEADER_VALUES: list[tuple[Schema, Any]] = [
    (schema("string"), "text"), (schema("string"), '"quoted"'), (schema("int8"), 5), (schema("int64"), -7), (schema("double"), 1.0),
    (schema("float"), 0.1), (schema("boolean"), True), (schema("bytes"), "AP8="), (decimal(2), unscaled(150)),
    (logical("Date"), 18262), (logical("Time"), 52494346), (logical("Timestamp"), 1566570894346),
    (schema("array", items=schema("int8")), [1, 2]), (schema("array", items=schema("string")), ["a", "b"]),
    (schema("map", keys=schema("string", optional=False), values=schema("string")), {"a": "b"}),
    (schema("map", keys=schema("string", optional=False), values=schema("int8")), {"a": 1, "b": 2}), (schema("string"), None),
]  # fmt: skip


def _json_questions() -> Iterator[Question]:
    with_schemas, without = {"schemas.enable": "true"}, {"schemas.enable": "false"}
    for kind, payloads in VALUES:
        for payload in payloads:
            text = enveloped(kind, payload)
            yield {"ask": "to", "class": JSON, "config": with_schemas, "data": hexed(text)}
            yield {"ask": "from", "class": JSON, "config": with_schemas, "data": {"envelope": text}}
            yield {"ask": "from", "class": JSON, "config": without, "data": {"envelope": text}}
            if "Decimal" in text:
                numeric = {**with_schemas, "decimal.format": "NUMERIC"}
                yield {"ask": "from", "class": JSON, "config": numeric, "data": {"envelope": text}}
            if '"default"' in text:
                kept = {**with_schemas, "replace.null.with.default": "false"}
                yield {"ask": "to", "class": JSON, "config": kept, "data": hexed(text)}
                yield {"ask": "from", "class": JSON, "config": kept, "data": {"envelope": text}}
    for plain in SCHEMALESS:
        yield {"ask": "to", "class": JSON, "config": without, "data": hexed(json.dumps(plain))}
        yield {"ask": "from", "class": JSON, "config": without, "data": {"text": json.dumps(plain)}}
        yield {"ask": "from", "class": JSON, "config": with_schemas, "data": {"text": json.dumps(plain)}}
        yield {"ask": "to", "class": JSON, "config": with_schemas, "data": hexed(enveloped(None, plain))}
    for broken in ("", "{", "no json", '{"a":1}', '{"schema":{"type":"string"}}', "[]", '"x"', "null",
                   '{"schema":{"type":"string"},"payload":"x","more":1}', '{"schema":{"type":"odd"},"payload":1}',
                   '{"schema":{},"payload":1}', '{"schema":{"type":"array"},"payload":[]}', '{"payload":1,"schema":null}',
                   '{"schema":{"type":"struct"},"payload":{}}', '{"schema":{"type":"map","keys":{"type":"string"}},"payload":{}}',
                   '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"},"payload":"AA=="}',
                   '{"schema":5,"payload":1}', '{"schema":{"type":"struct","fields":[{"type":"string"}]},"payload":{}}'):  # fmt: skip
        yield {"ask": "to", "class": JSON, "config": with_schemas, "data": hexed(broken)}
        yield {"ask": "to", "class": JSON, "config": without, "data": hexed(broken)}
    for config in (with_schemas, without):
        yield {"ask": "to", "class": JSON, "config": config, "data": None}
        yield {"ask": "from", "class": JSON, "config": config, "data": None}
    content = {**with_schemas, "schema.content": json.dumps(struct(a=schema("int32", optional=False)))}
    for text in ('{"a":1}', '{"b":1}', "[]"):
        yield {"ask": "to", "class": JSON, "config": content, "data": hexed(text)}


def _number_questions() -> Iterator[Question]:
    sizes = {"Boolean": 1, "Short": 2, "Integer": 4, "Long": 8, "Float": 4, "Double": 8, "ByteArray": 3}
    types = dict(zip(sizes, ("boolean", "int16", "int32", "int64", "float", "double", "bytes"), strict=True))
    samples: dict[str, list[Any]] = {
        "Boolean": [True, False], "Short": [0, -1, 32767], "Integer": [5, -2147483648], "Long": [1, -(2**63), 2**63 - 1],
        "Float": [0.1, -1.5, 1e30, 0], "Double": [0.1, -1.5, 1e300, 0], "ByteArray": ["", "AP8="],
    }  # fmt: skip
    for word, size in sizes.items():
        name = f"{NUMBERS}.{word}Converter"
        for data in (None, "", "00", "01", "02" * size, "ff" * size, "7f" + "00" * (size - 1), "7fc00000", "00" * (size + 1), "3fb999999999999a"):  # fmt: skip
            yield {"ask": "to", "class": name, "data": data}
        for payload in (*samples[word], None):
            yield {"ask": "from", "class": name, "data": {"envelope": enveloped(schema(types[word]), payload)}}
        yield {"ask": "from", "class": name, "data": {"envelope": enveloped(schema("string"), "text")}}
        yield {"ask": "from", "class": name, "data": None}


# ---- Transforms and predicates --------------------------------------------------------------------------------------


def transform_questions() -> Iterator[Question]:
    for name, config, records in _cases():
        ask = "predicate" if name.startswith("predicates.") else "transform"
        for record in records:
            yield {"ask": ask, "class": f"{TRANSFORMS}.{name}", "config": config, "record": record}


ROW = struct(
    False, "shop.Row",
    i8=schema("int8", optional=False), i16=schema("int16"), i32=schema("int32"), i64=schema("int64"), f32=schema("float"),
    f64=schema("double"), yes=schema("boolean"), text=schema("string"), raw=schema("bytes"), price=decimal(2),
    day=logical("Date"), time=logical("Time"), at=logical("Timestamp"), tags=schema("array", items=schema("string")),
    labels=schema("map", keys=schema("string", optional=False), values=schema("int32")), inner=struct(a=schema("int32"), b=schema("string")),
    late=schema("string", default="never"),
)  # fmt: skip
FULL = {
    "i8": 5, "i16": -300, "i32": 70000, "i64": 5000000000, "f32": 1.5, "f64": -2.75, "yes": True, "text": "12", "raw": "AP8=",
    "price": unscaled(1999), "day": 18262, "time": 3723004, "at": 1577836800123, "tags": ["x", "y"], "labels": {"one": 1},
    "inner": {"a": 1, "b": "c"}, "late": "soon",
}  # fmt: skip
BARE = {"i8": 0}
PLAIN = {
    "id": 7, "text": "12", "ratio": 1.5, "yes": True, "none": None, "tags": ["x", 1], "at": 1577836800123, "when": "2020-01-02 03:04:05",
    "inner": {"a": 1, "b": {"c": "deep", "d": None}},
}  # fmt: skip
PLACE = {"topic": "orders-eu", "partition": 3, "offset": 42, "timestamp": 1577836800123}


def record(value: Any = None, key: Any = None, **more: Any) -> dict[str, Any]:
    return {**PLACE, "key": key, "value": value, "headers": [["h", "1"], ["g", "text"], ["h", "true"]], **more}


def typed(kind: Schema, payload: Any) -> dict[str, str]:
    return {"envelope": enveloped(kind, payload)}


def plain(payload: Any) -> dict[str, str]:
    return {"text": json.dumps(payload)}


FULL_ROW, BARE_ROW = typed(ROW, FULL), typed(ROW, BARE)
NULL_ROW = typed({**ROW, "optional": True}, None)
NESTED = typed(
    struct(
        True, "shop.Nest", id=schema("int64", optional=False),
        a=struct(b=struct(False, c=schema("int32", optional=False), d=schema("string", default="x")), e=schema("array", items=schema("int8"))),
    ),
    {"id": 1, "a": {"b": {"c": 2, "d": None}, "e": [1]}},
)  # fmt: skip
HALF_NESTED = typed(json.loads(NESTED["envelope"])["schema"], {"id": 1, "a": None})
RECORDS = [
    record(FULL_ROW, FULL_ROW), record(BARE_ROW, BARE_ROW), record(NULL_ROW, NULL_ROW), record(plain(PLAIN), plain(PLAIN)),
    record(plain({}), plain({})), record(plain("text"), plain("text")), record(plain([1]), plain([1])), record(),
    record(typed(schema("string"), "text"), typed(schema("string"), "text")), record(NESTED, NESTED), record(HALF_NESTED, HALF_NESTED),
]  # fmt: skip


def _on(name: str, config: dict[str, str], records: list[dict[str, Any]] = RECORDS) -> list[Any]:
    """Return questions on values with all records, and on keys with the first few."""
    return [(f"{name}$Value", config, records), (f"{name}$Key", config, records[:4] + records[7:8])]


def _casts() -> Iterator[Any]:
    kinds = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
    for kind in kinds:
        fields = ["i8", "i16", "i32", "i64", "f32", "f64", "yes", "text", "day", "at", "time", "id", "ratio"]
        yield from _on(
            "Cast", {"spec": ",".join(f"{field}:{kind}" for field in fields)}, [RECORDS[0], RECORDS[1], RECORDS[3]]
        )
        yield "Cast$Value", {"spec": f"price:{kind},raw:{kind}"}, [RECORDS[0]]
        yield "Cast$Value", {"spec": kind}, [
            record(value)
            for value in (
                plain(1000), plain(-1.5), plain("77"), plain("no"), plain(True), plain(None), typed(schema("int32"), 70000), typed(schema("double"), 3e20),
                typed(schema("string"), "x"), typed(schema("string"), "TRUE"), typed(schema("boolean", optional=False), False), typed(logical("Date"), 3),
                typed(schema("int64", name="my.Type", version=2), 1), typed(schema("int32", optional=False, default=5), 6),
            )
        ]  # fmt: skip
    yield "Cast$Value", {"spec": "i32:string,late:string,missing:int8"}, RECORDS


def _stamps() -> Iterator[Any]:
    for target in ("string", "unix", "Date", "Time", "Timestamp"):
        config = {"target.type": target, "format": "yyyy-MM-dd HH:mm:ss"}
        for field in ("at", "day", "time", "i64", "when", "text"):
            yield "TimestampConverter$Value", {**config, "field": field}, [RECORDS[0], RECORDS[1], RECORDS[3]]
        yield "TimestampConverter$Value", config, [
            record(value)
            for value in (
                typed(logical("Timestamp"), 1577934245123), typed(logical("Timestamp"), -1), typed(logical("Date"), -5), typed(schema("int64"), 1577934245123),
                typed(schema("string"), "2020-01-02 03:04:05"), typed(schema("string"), "no time"), plain(1577934245123), plain("2020-01-02 03:04:05"),
                plain(True), plain(None), typed(schema("string"), None), typed(schema("int32"), 5),
            )
        ]  # fmt: skip
    for unit in ("seconds", "microseconds", "nanoseconds"):
        yield (
            "TimestampConverter$Value",
            {"target.type": "unix", "unix.precision": unit},
            [record(typed(logical("Timestamp"), ms)) for ms in (1577934245123, -1500)],
        )
        yield (
            "TimestampConverter$Value",
            {"target.type": "Timestamp", "unix.precision": unit},
            [record(typed(schema("int64"), number)) for number in (1577934245, -1500, 1577934245123456)],
        )


def _cases() -> Iterator[Any]:
    yield from _casts()
    yield "DropHeaders", {"headers": "h,x"}, [RECORDS[0], record(headers=[])]
    for field in ("i32", "late", "inner", "at", "price", "missing", "id", "none"):
        yield from _on("ExtractField", {"field": field})
    for path in ("a.b.c", "inner.b.c", "a.x", "id", "a.b.d", "inner.b.x"):
        yield "ExtractField$Value", {"field": path, "field.syntax.version": "V2"}, RECORDS
    yield "ExtractField$Value", {"field": "late", "replace.null.with.default": "false"}, RECORDS[:2]
    yield "Filter", {}, RECORDS[:2]
    yield from _on("Flatten", {})
    yield "Flatten$Value", {"delimiter": "_"}, RECORDS
    for operation in ("move", "copy"):
        yield from _on("HeaderFrom", {"fields": "i32,text", "headers": "a,h", "operation": operation})
        yield "HeaderFrom$Value", {"fields": "id,text,inner", "headers": "a,b,c", "operation": operation}, RECORDS
        yield "HeaderFrom$Value", {"fields": "at,price,late", "headers": "a,b,c", "operation": operation}, RECORDS[:4]
    yield from _on("HoistField", {"field": "up"})
    yield from _on("InsertField", {
        "topic.field": "t", "partition.field": "p!", "offset.field": "o?", "timestamp.field": "ts", "static.field": "s", "static.value": "v",
    })  # fmt: skip
    yield "InsertField$Value", {"static.field": "text", "static.value": "new"}, RECORDS
    yield (
        "InsertField$Value",
        {"timestamp.field": "ts!"},
        [record(FULL_ROW, timestamp=None), record(plain(PLAIN), timestamp=None)],
    )
    for literal in ("12", "text", "1.5", "true", ""):
        yield "InsertHeader", {"header": "new", "value.literal": literal}, RECORDS[:1]
    for fields in (
        "i32,text,f64,yes,late",
        "price,day,time,at",
        "tags,labels",
        "raw",
        "inner",
        "id,ratio,missing",
        "none,tags,inner",
    ):
        yield "MaskField$Value", {"fields": fields}, RECORDS
    for fields, replacement in (("i32,text,f64", "7"), ("text", "xxx"), ("i32", "xxx"), ("yes", "1"), ("at", "1"), ("id,ratio,text", "9"), ("tags", "1"), ("price", "1.5")):  # fmt: skip
        yield "MaskField$Value", {"fields": fields, "replacement": replacement}, RECORDS[:8]
    yield "MaskField$Key", {"fields": "text"}, RECORDS[:4]
    for regex, replacement in (("orders-(.*)", "sales.$1"), ("orders", "x"), (".*", "all"), ("(o)(.*)", "$2$1"), ("ORDERS.*", "x"), ("(?i)ORDERS-EU", "y")):  # fmt: skip
        yield "RegexRouter", {"regex": regex, "replacement": replacement}, RECORDS[:1]
    for config in ({"exclude": "i32,text"}, {"include": "i32,text,id"}, {"renames": "i32:number,id:number"}, {"renames": "text:id"},
                   {"exclude": "i32", "renames": "text:i32,tags:labels"}, {"include": "missing"}, {"include": "text,id", "exclude": "text", "renames": "id:text"}):  # fmt: skip
        yield from _on("ReplaceField", config)
    for config in ({"schema.name": "a.B"}, {"schema.version": "7"}, {"schema.name": "a.B", "schema.version": "7"}):
        yield from _on("SetSchemaMetadata", config)
    yield from _stamps()
    for config in (
        {},
        {"topic.format": "${topic}_${timestamp}", "timestamp.format": "yyyy-MM-dd'T'HH"},
        {"topic.format": "fix"},
    ):
        yield "TimestampRouter", config, [record(), record(timestamp=None)]
    yield "ValueToKey", {"fields": "i32,late"}, RECORDS
    yield "ValueToKey", {"fields": "id,none,missing"}, RECORDS
    yield "predicates.HasHeaderKey", {"name": "h"}, [record(), record(headers=[]), record(headers=[["H", "1"]])]
    yield "predicates.RecordIsTombstone", {}, RECORDS
    for pattern in ("orders-eu", "orders", "orders-.*", "eu"):
        yield "predicates.TopicNameMatches", {"pattern": pattern}, RECORDS[:1]
