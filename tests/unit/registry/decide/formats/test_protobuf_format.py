"""Protobuf schemas: what is stored, and which changes readers understand. Google's compiler reads the texts."""

from __future__ import annotations

import base64
import re
from functools import cache

import pytest

from barnabas.registry.decide.formats.parsed_schema import ReferencedText, UnreadableSchema
from barnabas.registry.decide.formats.protobuf_format import ParsedProtobuf, ProtobufFormat
from barnabas.registry.run.protobuf_compiler import compile_protobuf

FORMAT = ProtobufFormat(compile_protobuf)

RICH = """\
syntax = "proto2";
package shop;
import public "google/protobuf/any.proto";
option java_package = "com.shop";
option optimize_for = SPEED;

message Order {
  option deprecated = true;
  reserved 10 to 12;
  reserved 20 to max;
  reserved "old", "older";
  required int64 id = 1;
  optional string note = 2 [default = "a\\"b", json_name = "N"];
  repeated int32 numbers = 3 [packed = true];
  map<string, .shop.Order.Item> items = 4;
  oneof how {
    string card = 5;
    bytes cash = 6;
  }
  optional .shop.Order.Kind kind = 7 [default = BIG];
  message Item {
    optional .google.protobuf.Any any = 1;
  }
  enum Kind {
    reserved 9;
    SMALL = 0;
    BIG = -1 [deprecated = true];
  }
}

service Orders {
  rpc Watch (stream .shop.Order) returns (stream .shop.Order.Item) {
    option idempotency_level = IDEMPOTENT;
  }
}
"""
CUSTOM = """\
syntax = "proto3";
import "google/protobuf/descriptor.proto";
extend google.protobuf.FieldOptions { string unit = 50000; }
message A { int32 a = 1 [(unit) = "m"]; }
"""


@cache
def parsed(text: str, *references: ReferencedText) -> ParsedProtobuf:
    return FORMAT.parse(text, references)


@pytest.fixture(scope="module")
def rich() -> ParsedProtobuf:
    return parsed(RICH)


def test_a_printed_file_means_what_was_given(rich: ParsedProtobuf) -> None:
    assert rich.canonical == RICH


def test_a_compiled_file_has_the_same_text(rich: ParsedProtobuf) -> None:
    assert parsed(rich.serialized).canonical == rich.canonical
    assert base64.b64decode(rich.serialized) == rich.file.SerializeToString(deterministic=True)


def test_a_file_with_custom_options_is_stored_as_it_came() -> None:
    assert parsed(CUSTOM).canonical == CUSTOM.strip()


def test_a_schema_may_import_its_references() -> None:
    item = ReferencedText("shop/item.proto", 'syntax = "proto3"; package shop; message Item {}')
    text = 'syntax = "proto3"; package shop; import "shop/item.proto"; message Order { Item item = 1; }'
    assert ".shop.Item item = 1;" in parsed(text, item).canonical
    with pytest.raises(UnreadableSchema, match=re.escape("shop/item.proto: File not found")):
        parsed(text)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a//b", "default", ""])
def test_the_name_of_a_reference_stays_inside(name: str) -> None:
    with pytest.raises(UnreadableSchema, match="is not the name of a file"):
        parsed("", ReferencedText(name, ""))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
        ("nothing;", "not valid"),
        ("QUJD", "neither a .proto file nor a compiled one"),
    ],
)
def test_an_invalid_schema_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnreadableSchema, match=reason):
        parsed(text)


BASE = """
message A {
  int32 n = 1; string t = 2; B b = 3; oneof o { int32 x = 4; int32 y = 5; } map<string, int32> m = 6; sint32 s = 7;
  repeated int32 r = 8; E e = 9; int32 free1 = 10; int32 free2 = 11;
}
message B { int32 n = 1; }
enum E { ZERO = 0; }
"""
CHANGES = [
    ("int32 n = 1; string", "int64 renamed = 1; string", []),
    ("int32 n = 1; string", "string n = 1; string", ["FIELD_SCALAR_KIND_CHANGED"]),
    ("int32 n = 1; string", "B n = 1; string", ["FIELD_KIND_CHANGED"]),
    ("int32 n = 1; string", "repeated int32 n = 1; string", ["FIELD_NUMERIC_LABEL_CHANGED"]),
    ("int32 n = 1; string", "optional int32 n = 1; string", []),
    ("int32 n = 1; string", "string", []),
    ("string t = 2;", "bytes t = 2;", []),
    ("string t = 2;", "repeated string t = 2;", []),
    ("string t = 2;", "string t = 2; int32 added = 20;", []),
    ("B b = 3;", "A b = 3;", ["FIELD_NAMED_TYPE_CHANGED"]),
    (
        "message B { int32 n = 1; }",
        "message B { string n = 1; }",
        ["FIELD_NAMED_TYPE_CHANGED", *["FIELD_SCALAR_KIND_CHANGED"] * 2],
    ),
    ("message B { int32 n = 1; }", "message B { int32 n = 1; } message C {}", []),
    ("int32 y = 5; }", "}", ["ONEOF_FIELD_REMOVED"]),
    ("int32 y = 5; }", "int32 y = 5; int32 z = 21; }", []),
    ("int32 y = 5; }", "int32 y = 5; int32 free1 = 10; }", ["FIELD_MOVED_TO_EXISTING_ONEOF"]),
    ("map<string, int32>", "map<string, string>", ["FIELD_SCALAR_KIND_CHANGED"]),
    ("map<string, int32>", "map<string, uint32>", []),
    ("sint32 s = 7", "int32 s = 7", ["FIELD_SCALAR_KIND_CHANGED"]),
    ("sint32 s = 7", "sint64 s = 7", []),
    ("E e = 9", "int32 e = 9", []),
    ("enum E { ZERO = 0; }", "enum E { ZERO = 0; ONE = 1; }", []),
]


def kinds(writer: str, reader: str) -> list[str]:
    first, second = (parsed(f'syntax = "proto3"; package p;{text}') for text in (writer, reader))
    return sorted(re.findall(r'errorType:"(\w+)"', "".join(second.problems_reading(first))))


@pytest.mark.parametrize(("before", "after", "expected"), CHANGES, ids=[str(place) for place in range(len(CHANGES))])
def test_problems_of_a_reader(before: str, after: str, expected: list[str]) -> None:
    changed = BASE.replace(before, after)
    if "free1 = 10; }" in after:
        changed = changed.replace("E e = 9; int32 free1 = 10;", "E e = 9;")
    assert changed != BASE
    assert kinds(BASE, changed) == expected


def test_more_problems_of_a_reader() -> None:
    moved = BASE.replace("int32 free1 = 10; int32 free2 = 11;", "oneof f { int32 free1 = 10; int32 free2 = 11; }")
    assert kinds(BASE, moved) == ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"]
    assert kinds("message A {} message B {}", "message A {}") == ["MESSAGE_REMOVED"]
    assert kinds("message A { message B {} }", "message A {}") == ["MESSAGE_REMOVED"]
    recursive = "message A { A next = 1; int32 n = 2; }"
    assert kinds(recursive, recursive) == []


def test_required_fields_and_packages() -> None:
    def proto2(package: str, body: str) -> ParsedProtobuf:
        return parsed(f'syntax = "proto2"; package {package}; message A {{ {body} }}')

    none, required = proto2("p", ""), proto2("p", "required int32 n = 1;")
    assert "REQUIRED_FIELD_ADDED" in required.problems_reading(none)[0]
    assert "REQUIRED_FIELD_REMOVED" in none.problems_reading(required)[0]
    assert "PACKAGE_CHANGED" in proto2("q", "").problems_reading(none)[0]
