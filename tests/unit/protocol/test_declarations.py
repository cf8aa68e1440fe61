"""Every declared message is compared with Kafka 4.3.1's own specification of it, field by field."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Field, Message, Request, Struct, VersionRange, parse_versions
from tests.unit.protocol.samples import MESSAGES

SPECS_FILE = Path(__file__).parents[2] / "vectors/protocol/message-specs-4.3.1.jsonl.gz"
SPECS: dict[str, Any] = {
    spec["name"]: spec for spec in map(json.loads, gzip.decompress(SPECS_FILE.read_bytes()).decode().splitlines())
}
ZEROS = {"bool": False, "string": "", "uuid": Uuid.ZERO, "bytes": b"", "float64": 0.0, "records": None}
EMPTY = (1, 0)


def test_every_message_but_those_of_tiered_storage_is_declared() -> None:
    expected = {name for name, spec in SPECS.items() if spec["validVersions"] != "none" and "Remote" not in name}
    assert {cls.__name__ for cls in MESSAGES} == expected


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_has_the_fields_of_its_specification(cls: type[Message]) -> None:
    spec = SPECS[cls.__name__]
    versions = parse_versions(spec["validVersions"])
    assert versions == (cls.MIN_VERSION, cls.MAX_VERSION)
    assert spec.get("apiKey", -1) == cls.API_KEY
    flexible = parse_versions(spec["flexibleVersions"])
    for version in range(versions[0], versions[1] + 1):
        assert cls.is_flexible(version) == (flexible[0] <= version <= flexible[1])
    common = {struct["name"]: struct["fields"] for struct in spec.get("commonStructs", [])}
    check_struct(cls, spec.get("fields", []), common, versions, cls.__name__)


REQUESTS: list[type[Request[Message]]] = [cls for cls in MESSAGES if issubclass(cls, Request)]


def test_every_request_of_the_specification_is_declared_as_a_request() -> None:
    expected = {name for name in {cls.__name__ for cls in MESSAGES} if SPECS[name].get("type") == "request"}
    assert {cls.__name__ for cls in REQUESTS} == expected


@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
def test_a_request_names_the_response_of_its_own_api(cls: type[Request[Message]]) -> None:
    response = cls.response_type()
    assert SPECS[response.__name__]["type"] == "response"
    assert (response.API_KEY, response.MIN_VERSION, response.MAX_VERSION) == (
        cls.API_KEY,
        cls.MIN_VERSION,
        cls.MAX_VERSION,
    )


def check_struct(
    cls: type[Struct], specs: list[Any], common: dict[str, Any], versions: VersionRange, path: str
) -> None:
    assert [field.json_name.lower() for field in cls.FIELDS] == [spec["name"].lower() for spec in specs], path
    for field, spec in zip(cls.FIELDS, specs, strict=True):
        check_field(field, spec, common, versions, f"{path}.{spec['name']}")


def check_field(field: Field, spec: Any, common: dict[str, Any], versions: VersionRange, path: str) -> None:
    tagged = spec.get("taggedVersions", "none")
    declared = clipped(field.versions, versions)
    assert declared == clipped(parse_versions(spec.get("versions", tagged)), versions), path
    assert clipped(field.nullable, declared) == clipped(
        parse_versions(spec.get("nullableVersions", "none")), declared
    ), path
    assert field.tag == spec.get("tag"), path
    assert clipped(field.tagged, declared) == clipped(parse_versions(tagged), declared), path
    assert field.ignorable == bool(spec.get("ignorable", False)), path
    assert field.flexible == (spec.get("flexibleVersions") != "none"), path
    assert field.json_name == spec["name"][0].lower() + spec["name"][1:], path

    type_name = spec["type"].removeprefix("[]")
    is_array = type_name != spec["type"]
    is_struct = type_name[0].isupper()
    assert field.kind == ("array" if is_array else "struct" if is_struct else type_name), path
    if is_array:
        assert field.element == ("struct" if is_struct else type_name), path
    if is_struct:
        assert field.type is not None, path
        check_struct(field.type, spec.get("fields") or common[type_name], common, declared, path)
    check_default(field, spec, is_array, is_struct, path)


def check_default(field: Field, spec: Any, is_array: bool, is_struct: bool, path: str) -> None:
    """In a specification the text "null" is null, but a JSON null means that the field has no default."""
    text = spec.get("default")
    if text == "null":
        assert field.default is None, path
    elif is_array:
        assert field.default == [], path
    elif is_struct:
        is_absent_by_default = field.tag is not None and spec.get("nullableVersions", "none") == "none"
        assert (field.default is None) == is_absent_by_default, path
    elif text is None:
        assert field.default == ZEROS.get(field.kind, 0), path
    elif isinstance(field.default, bool):
        assert field.default == (str(text).lower() == "true"), path
    elif isinstance(field.default, int):
        assert field.default == int(str(text), 0), path
    else:
        assert field.default == text, path


def clipped(inner: VersionRange, outer: VersionRange) -> VersionRange:
    low, high = max(inner[0], outer[0]), min(inner[1], outer[1])
    return (low, high) if low <= high else EMPTY
