from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.connect.mac_algorithms import (
    KEY_GENERATORS,
    MACS,
    UnsupportedAlgorithm,
    UnusableKeySize,
    key_generator,
    key_size,
    mac,
)

TESTS = Path(__file__).parents[2]
VECTORS = TESTS / "vectors" / "connect"
JAVA: dict[str, Any] = json.loads((VECTORS / "java17_algorithms.json").read_text())
SIGNATURES: list[dict[str, str]] = json.loads((VECTORS / "signatures.json").read_text())


def recorded(family: str) -> list[dict[str, Any]]:
    with gzip.open(TESTS / "oracles/data/connect/connect-public.jsonl.gz", "rt") as lines:
        return [entry for entry in map(json.loads, lines) if entry["family"] == family]


@pytest.mark.parametrize("name", MACS)
def test_every_mac_equals_that_of_java(name: str) -> None:
    java: str = {known.upper(): value for known, value in JAVA["macs"].items()}[name.upper()]
    assert mac(name).sign(b"\1\2\3", b"abc").hex() == java


def test_signatures_of_real_workers_are_reproduced_and_accepted() -> None:
    for entry in SIGNATURES:
        algorithm = mac(entry["algorithm"])
        key, body = base64.b64decode(entry["key"]), bytes.fromhex(entry["body_hex"])
        signature = base64.b64decode(entry["signature"])
        assert algorithm.sign(key, body) == signature
        assert algorithm.is_valid(key, body, signature)
        assert not algorithm.is_valid(key, body + b" ", signature)
        assert not algorithm.is_valid(key + b"\1", body, signature)


def test_signatures_of_kafkas_own_class_are_reproduced() -> None:
    entries = recorded("request-signature")
    assert len(entries) > 50
    for entry in entries:
        signature = mac(entry["algorithm"]).sign(bytes.fromhex(entry["key"]), bytes.fromhex(entry["body"]))
        assert base64.b64encode(signature).decode() == entry["signature"]


def test_names_are_recognized_in_any_case() -> None:
    assert mac("hmacsha512/224") is mac("HMACSHA512/224") is MACS["HmacSHA512/224"]
    assert key_generator("desEDE") is key_generator("tripledes") is KEY_GENERATORS["DESede"]
    assert key_generator("rc4").name == "ARCFOUR"


@pytest.mark.parametrize("name", ["HmacFoo", "", "HmacSHA-256", "AES", "PBEWithHmacSHA256", "hmacpbesha1", "SslMacMD5"])
def test_an_unknown_or_unusable_mac_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnsupportedAlgorithm, match="HmacMD5, HmacSHA1, .*HmacSHA256"):
        mac(name)


@pytest.mark.parametrize("name", ["Nope", "", "PBEWithHmacSHA256", "SunTls12Prf", "sunTlsMasterSecret"])
def test_an_unknown_or_unusable_generator_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnsupportedAlgorithm, match="AES, ARCFOUR, .*HmacSHA256"):
        key_size(name, None)


def test_every_generator_of_java_is_known_except_those_of_tls() -> None:
    assert set(KEY_GENERATORS) == {name for name in JAVA["generators"] if not name.startswith("SunTls")}


@pytest.mark.parametrize("name", KEY_GENERATORS)
def test_keys_have_the_sizes_of_java(name: str) -> None:
    java = JAVA["generators"][name]
    assert key_size(name, None) == java["default"]
    for bits, expected in java["sizes"].items():
        if isinstance(expected, int):
            assert key_size(name, int(bits)) == expected, bits
        elif expected == "Empty key":  # Java reports this when it creates the first key.
            with pytest.raises(UnusableKeySize, match="at least 1 bit"):
                key_size(name, int(bits))
        else:
            with pytest.raises(UnusableKeySize) as caught:
                key_size(name, int(bits))
            assert str(caught.value) == (
                f"Unable to create key generator with algorithm {name} and key size {bits}: {expected}"
            )
