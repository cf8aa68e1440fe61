"""Credentials on the command line of the storage tool."""

import hashlib
import re
from base64 import b64encode

import pytest

from barnabas.server.storage_tool.scram_argument import InvalidScramArgument, parse_scram_argument

# Created by Kafka's storage tool from password "b" and this salt.
SALT = b"rwuwxspdzzaxx1aqssutn76po"
STORED_KEY = bytes.fromhex("6cfef08cfc9b66434077144acf7b78f9ccd5ffce16712f83f809dd921fe6515d")


def _no_random(count: int) -> bytes:
    raise AssertionError("the salt was given")


def test_a_password_is_hashed_as_by_kafkas_tool() -> None:
    text = f'SCRAM-SHA-256=[name=a,password=b,salt="{b64encode(SALT).decode()}"]'
    record = parse_scram_argument(text, _no_random)
    assert (record.name, record.mechanism, record.iterations, record.salt) == ("a", 1, 4096, SALT)
    assert record.stored_key == STORED_KEY


def test_a_salted_password_leads_to_the_same_keys_as_the_password() -> None:
    salt = b64encode(SALT).decode()
    salted = b64encode(hashlib.pbkdf2_hmac("sha512", b"b", SALT, 5000)).decode()
    by_password = parse_scram_argument(f"SCRAM-SHA-512=[name=a,password=b,salt={salt},iterations=5000]", _no_random)
    by_salted = parse_scram_argument(
        f"SCRAM-SHA-512=[name=a,saltedpassword={salted},salt={salt},iterations=5000]", _no_random
    )
    assert by_password == by_salted
    assert by_password.mechanism == 2


def test_without_a_salt_a_random_one_is_used_as_in_kafkas_tools() -> None:
    record = parse_scram_argument("SCRAM-SHA-256=[name=a,password=b]", lambda count: b"\x07" * count)
    assert re.fullmatch(b"[0-9a-z]{24,26}", record.salt)
    assert int(record.salt, 36) == int.from_bytes(b"\x07" * 17, "big") % 2**130


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("bad", "Failed to find equals sign in SCRAM argument 'bad'"),
        ("FOO=[name=a,password=b]", "The add-scram mechanism FOO is not supported."),
        ("SCRAM-SHA-256=name=a", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[name]", "No equals sign found in SCRAM component: name"),
        ("SCRAM-SHA-256=[password=b]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=YWE=]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=b,foo=c]", "Unknown SCRAM configurations: foo"),
        ("SCRAM-SHA-256=[name=a,password=b,iterations=x]", "Failed to parse iterations count: x"),
        (
            "SCRAM-SHA-256=[name=a,password=b,iterations=100]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=b,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
        ("SCRAM-SHA-256=[name=a,password=b,salt=!]", "Failed to decode given salt: !"),
        (
            "SCRAM-SHA-256=[name=a,saltedpassword=!secret!,salt=c2FsdA==]",
            "Failed to decode given saltedpassword: [hidden]",
        ),
        (
            "SCRAM-SHA-256=[name=a,saltedpassword=,salt=c2FsdA==]",
            "The value of 'saltedpassword' must not be empty",
        ),
    ],
)
def test_mistakes_are_reported_with_the_messages_of_kafkas_tool(argument: str, message: str) -> None:
    with pytest.raises(InvalidScramArgument) as raised:
        parse_scram_argument(argument, _no_random)
    assert str(raised.value) == message
