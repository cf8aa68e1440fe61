"""``--add-scram 'SCRAM-SHA-256=[name=alice,password=secret]'``: a credential of a new cluster.

Either a password is given (then salt and iterations may be omitted), or the salted password with its salt. Values may
be in double quotes. As in Kafka's tool they can't contain commas. The messages are that tool's.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

from barnabas.common.config_value import Password
from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, ScramMechanism
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.sasl.scram import RANDOM_BYTES, random_text
from barnabas.security.scram_credentials import credential_of_salted_password, salted_password_of

__all__ = ["InvalidScramArgument", "parse_scram_argument"]


class InvalidScramArgument(ValueError):
    """The argument can't be used. The message is the reason."""


def parse_scram_argument(argument: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """Return the credential record of one argument. Raise InvalidScramArgument for an invalid one."""
    name, equals, configuration = argument.strip().partition("=")
    if not equals:
        raise InvalidScramArgument(f"Failed to find equals sign in SCRAM argument '{argument.strip()}'")
    mechanism = ScramMechanism.from_name(name)
    if mechanism is ScramMechanism.UNKNOWN:
        raise InvalidScramArgument(f"The add-scram mechanism {name} is not supported.")
    components = _components(configuration)
    user = components.pop("name", None)
    if user is None:
        raise InvalidScramArgument("You must supply 'name' to add-scram")
    salt = _base64(components, "salt")
    iterations = _iterations(components, name)
    password = components.pop("password", None)
    salted_text = components.pop("saltedpassword", None)
    if password is None and salted_text is None:
        raise InvalidScramArgument("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt is None:
        raise InvalidScramArgument("You must supply 'salt' with 'saltedpassword' to add-scram")
    if components:
        raise InvalidScramArgument(f"Unknown SCRAM configurations: {','.join(sorted(components))}")
    salt = random_text(random_bytes(RANDOM_BYTES)).encode() if salt is None else salt
    if password is not None:
        salted = salted_password_of(mechanism, password, salt, iterations)
    else:
        salted = _base64({"saltedpassword": salted_text or ""}, "saltedpassword") or b""
        if not salted:
            raise InvalidScramArgument("The value of 'saltedpassword' must not be empty")
    credential = credential_of_salted_password(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(
        name=user,
        mechanism=int(mechanism),
        salt=salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=iterations,
    )


def _components(configuration: str) -> dict[str, str]:
    if not configuration.startswith("["):
        raise InvalidScramArgument("Expected configuration string to start with [")
    if not configuration.endswith("]"):
        raise InvalidScramArgument("Expected configuration string to end with ]")
    components = {}
    for component in configuration[1:-1].split(","):
        name, equals, value = component.strip().partition("=")
        if not equals:
            raise InvalidScramArgument(f"No equals sign found in SCRAM component: {component.strip()}")
        if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
            value = value[1:-1]
        components[name] = value
    return components


def _base64(components: dict[str, str], name: str) -> bytes | None:
    text = components.pop(name, None)
    if text is None:
        return None
    try:
        return b64decode(text, validate=True)
    except ValueError:
        shown = text if name == "salt" else Password.HIDDEN
        raise InvalidScramArgument(f"Failed to decode given {name}: {shown}") from None


def _iterations(components: dict[str, str], mechanism: str) -> int:
    text = components.pop("iterations", None)
    if text is None:
        return SCRAM_ITERATIONS_MIN
    try:
        iterations = int(text)
    except ValueError:
        raise InvalidScramArgument(f"Failed to parse iterations count: {text}") from None
    java_name = mechanism.replace("-", "_")
    if iterations < SCRAM_ITERATIONS_MIN:
        raise InvalidScramArgument(
            f"The 'iterations' value must be >= {SCRAM_ITERATIONS_MIN} for add-scram using {java_name}"
        )
    if iterations > SCRAM_ITERATIONS_MAX:
        raise InvalidScramArgument(
            f"The 'iterations' value must be <= {SCRAM_ITERATIONS_MAX} for add-scram using {java_name}"
        )
    return iterations
