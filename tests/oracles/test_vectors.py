"""Small functions, each compared with the answers of Kafka's function."""

from __future__ import annotations

import math
from typing import Any

import pytest

from barnabas.clients.admin.protocol_codes import authorized_operations
from barnabas.common.acl import AclOperation
from barnabas.common.config_validators import (
    CaseInsensitiveString,
    ListSize,
    NonEmptyString,
    NonEmptyWithoutControlCharacters,
    NonNull,
    Range,
    ValidList,
    ValidString,
)
from barnabas.common.config_value import (
    ConfigException,
    ConfigType,
    Long,
    Password,
    Short,
    parse_value,
    value_to_string,
)
from barnabas.common.errors import ErrorCode
from barnabas.common.host_address import host_address_bytes, host_address_text
from barnabas.common.murmur2 import murmur2, partition_for_key
from barnabas.common.resource import ResourceType
from barnabas.common.topic_config import TOPIC_CONFIG_DEF, validate_topic_config
from barnabas.common.topic_name import (
    INTERNAL_TOPIC_NAMES,
    has_collision_characters,
    topic_name_problem,
    unified_topic_name,
)
from barnabas.common.uuid import Uuid
from barnabas.coordinator.partitioner import coordinator_partition, java_string_hash
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.varint import read_uvarint, read_varlong, write_uvarint, write_varint, write_varlong
from barnabas.security.authorizer.authorized_operations import supported_mask, supported_operations
from barnabas.security.authorizer.denial import denial_error
from barnabas.security.principal import Principal, parse_principal
from barnabas.security.principal_serde import InvalidPrincipalBytes, deserialize_principal, serialize_principal
from barnabas.security.request_context import RequestContext
from barnabas.security.ssl_principal_mapper import InvalidMappingRule, SslPrincipalMapper
from tests.oracles.corpus import check_all, grouped
from tests.oracles.scram_checks import SCRAM_CHECKS
from tests.oracles.token_checks import check_token_hmac, check_token_lifecycle

pytestmark = pytest.mark.oracle

GROUPS = grouped("vectors", lambda data: data["family"])


@pytest.mark.parametrize("family", GROUPS)
def test_functions_return_what_kafkas_functions_return(family: str) -> None:
    check_all(GROUPS[family], CHECKS[family])


def check_varint(data: dict[str, Any]) -> None:
    value, zigzag = data["value"], bytes.fromhex(data["zigzag"])
    assert write_varlong(value) == zigzag
    assert read_varlong(zigzag, 0) == (value, len(zigzag))
    if "unsigned" in data:
        unsigned = bytes.fromhex(data["unsigned"])
        assert write_varint(value) == zigzag
        assert write_uvarint(value) == unsigned
        assert read_uvarint(unsigned, 0) == (value & 0xFFFFFFFF, len(unsigned))


def check_murmur2(data: dict[str, Any]) -> None:
    key = bytes.fromhex(data["key"])
    assert murmur2(key) == data["murmur2"]
    assert partition_for_key(key, data["partitions"]) == data["partition"]


def check_uuid(data: dict[str, Any]) -> None:
    uuid = Uuid(bytes.fromhex(data["hex"]))
    assert str(uuid) == data["text"]
    assert Uuid.from_string(data["text"]) == uuid


def check_uuid_parse(data: dict[str, Any]) -> None:
    if data["ok"]:
        assert str(Uuid.from_string(data["text"])) == data["canonical"]
    else:
        with pytest.raises(ValueError):
            Uuid.from_string(data["text"])


def check_topic_name(data: dict[str, Any]) -> None:
    name = data["name"]
    problem = topic_name_problem(name)
    assert (problem is None) == data["ok"] == data["isValid"]
    assert problem == data.get("message")
    assert (name in INTERNAL_TOPIC_NAMES) == data["internal"]
    assert has_collision_characters(name) == data["hasCollisionChars"]
    assert unified_topic_name(name) == data["unified"]


def check_topic_collision(data: dict[str, Any]) -> None:
    assert (unified_topic_name(data["a"]) == unified_topic_name(data["b"])) == data["collides"]


def check_coordinator_partition(data: dict[str, Any]) -> None:
    assert java_string_hash(data["id"]) == data["javaHashCode"]
    assert coordinator_partition(data["id"], data["partitions"]) == data["partition"]


def check_host_address(data: dict[str, Any]) -> None:
    address = bytes.fromhex(data["hex"])
    assert host_address_text(address) == data["text"]
    assert host_address_text(host_address_bytes(data["text"])) == data["text"]


def check_bit_field(data: dict[str, Any]) -> None:
    """As the admin client reads them; the lowest value means that a node did not answer."""
    known = {operation for operation in AclOperation if operation > AclOperation.ALL and operation in data["bits"]}
    assert authorized_operations(data["value"]) == (None if data["bits"] == [31] else known)


def check_authorized_operations(data: dict[str, Any]) -> None:
    code = data["code"]
    supported = {operation.name for operation in supported_operations(code)}
    assert supported == set(data.get("supported", ()))
    assert supported_mask(code) == data.get("allBits", 0)
    if "authorizationError" in data:
        context = RequestContext(api_key=ApiKey.METADATA, api_version=12)
        error = denial_error(context, AclOperation.DESCRIBE, ResourceType(code), "name")
        assert error.code.name == data["authorizationError"]


def check_error_code(data: dict[str, Any]) -> None:
    error = ErrorCode(data["code"])
    assert error.name == data["name"]
    assert error.retriable == data["retriable"]


def check_config_parse(data: dict[str, Any]) -> None:
    type_ = ConfigType[data["type"]]
    if type_ is ConfigType.CLASS and "inputType" in data and data["inputType"] == "String":
        return check_class_name(data)
    value = typed(data["input"], data["inputType"])
    if not data["ok"]:
        with pytest.raises(ConfigException) as caught:
            parse_value(type_, value, "some.name")
        assert str(caught.value) == data["message"]
        return None
    parsed = parse_value(type_, value, "some.name")
    assert same(parsed, typed(data["value"], data["valueType"]))
    assert value_to_string(type_, parsed) == data["asString"]
    return None


def check_class_name(data: dict[str, Any]) -> None:
    """Which classes exist depends on Kafka's class path, not on the text: dotted names are accepted here."""
    if data["ok"]:
        assert parse_value(ConfigType.CLASS, data["input"], "some.name") == data["value"]["class"]


def check_config_validate(data: dict[str, Any]) -> None:
    validator = VALIDATORS[data["validator"]]
    assert str(validator) == data["describe"]
    value = typed(data["value"], data["valueType"])
    if data["ok"]:
        validator.ensure_valid("some.name", value)
    else:
        with pytest.raises(ConfigException) as caught:
            validator.ensure_valid("some.name", value)
        assert str(caught.value) == data["message"]


def check_topic_config(data: dict[str, Any]) -> None:
    if data["ok"]:
        validate_topic_config(data["configs"])
    else:
        with pytest.raises(ConfigException) as caught:
            validate_topic_config(data["configs"])
        assert str(caught.value).partition(" (did you mean ")[0] == data["message"]


def check_topic_config_defaults(data: dict[str, Any]) -> None:
    for name, expected in data["configs"].items():
        key = TOPIC_CONFIG_DEF[name]
        assert key.type.name == expected["type"], name
        assert key.importance.name == expected["importance"], name
        assert key.internal == expected["internal"], name
        assert key.required != expected["hasDefault"], name
        assert key.default == expected.get("default"), name
        assert (None if key.validator is None else str(key.validator)) == expected.get("validator"), name


def check_principal_serde(data: dict[str, Any]) -> None:
    principal = Principal(data["type"], data["name"], data["tokenAuthenticated"])
    assert serialize_principal(principal).hex() == data["hex"]
    assert deserialize_principal(bytes.fromhex(data["hex"])) == principal
    assert str(principal) == data["toString"]


def check_principal_bytes(data: dict[str, Any]) -> None:
    if data["ok"]:
        principal = Principal(data["type"], data["name"], data["tokenAuthenticated"])
        assert deserialize_principal(bytes.fromhex(data["hex"])) == principal
    else:
        with pytest.raises(InvalidPrincipalBytes):
            deserialize_principal(bytes.fromhex(data["hex"]))


def check_principal_parse(data: dict[str, Any]) -> None:
    if data["ok"]:
        assert parse_principal(data["text"]) == Principal(data["type"], data["name"])
    else:
        with pytest.raises(ValueError) as caught:
            parse_principal(data["text"])
        assert str(caught.value) == data["message"]


def check_ssl_mapping(data: dict[str, Any]) -> None:
    if not data["ok"]:
        with pytest.raises(InvalidMappingRule) as invalid:
            SslPrincipalMapper(data["rules"])
        if data["exception"].endswith("IllegalArgumentException"):
            assert str(invalid.value) == data["message"]
        return
    mapper = SslPrincipalMapper(data["rules"])
    assert str(mapper) == data["toString"]
    for name in data["names"]:
        if "name" in name:
            assert mapper.name_of(name["dn"]) == name["name"]
            continue
        with pytest.raises(ValueError) as caught:
            mapper.name_of(name["dn"])
        if name["exception"].endswith("$NoMatchingRule"):
            assert str(caught.value) == name["message"]


VALIDATORS: dict[str, Any] = {
    "atLeast(0)": Range(0),
    "between(1,10)": Range(1, 10),
    "between(0,1) double": Range(0.0, 1.0),
    "ValidString(a,b)": ValidString(["a", "b"]),
    "CaseInsensitive(a,b)": CaseInsensitiveString(["A", "B"]),
    "NonEmpty": NonEmptyString(),
    "NonNull": NonNull(),
    "NonEmptyWithoutControlChars": NonEmptyWithoutControlCharacters(),
    "ValidList.in(x,y)": ValidList(["x", "y"]),
    "ValidList.in(false,x,y)": ValidList(["x", "y"], empty_allowed=False),
    "anyNonDuplicate(true,true)": ValidList(null_allowed=True),
    "anyNonDuplicate(false,false)": ValidList(empty_allowed=False),
    "ListSize(2)": ListSize(2),
}


def typed(value: Any, java_type: str) -> Any:
    """Return a value of the corpus as the Python type for its Java type."""
    if value is None:
        return None
    if java_type == "Short":
        return Short(value)
    if java_type == "Long":
        return Long(value)
    if java_type == "Double":
        return float(str(value).removeprefix("double:"))  # Values that JSON numbers cannot express are spelled out.
    if java_type == "Password":
        return Password(value["password"])
    if java_type == "Class":
        return JAVA_CLASSES.get(value["class"], value["class"])
    return value


class String:
    __module__ = "java.lang"
    __qualname__ = "String"


JAVA_CLASSES: dict[str, Any] = {"java.lang.String": String}


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


CHECKS = {
    "varint": check_varint,
    "murmur2": check_murmur2,
    "uuid": check_uuid,
    "uuid-parse": check_uuid_parse,
    "topic-name": check_topic_name,
    "topic-collision": check_topic_collision,
    "coordinator-partition": check_coordinator_partition,
    "host-address": check_host_address,
    "bitfield": check_bit_field,
    "authorized-operations": check_authorized_operations,
    "error-codes": check_error_code,
    "config-parse": check_config_parse,
    "config-validate": check_config_validate,
    "topic-config": check_topic_config,
    "topic-config-defaults": check_topic_config_defaults,
    **SCRAM_CHECKS,
    "token-hmac": check_token_hmac,
    "token-lifecycle": check_token_lifecycle,
    "principal-serde": check_principal_serde,
    "principal-bad": check_principal_bytes,
    "principal-parse": check_principal_parse,
    "ssl-mapping": check_ssl_mapping,
}
