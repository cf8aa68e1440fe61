"""Read the passwords that a file of desired state refers to. They are read only when needed, and never shown."""

from __future__ import annotations

import os
from collections.abc import Iterable

from barnabas.access.cluster_state import Credential
from barnabas.access.desired_state_notation import Secret
from barnabas.access.plan import Step, UserChange
from barnabas.cli.output.answer import Problem

__all__ = ["resolve_passwords"]


def resolve_passwords(steps: Iterable[Step]) -> tuple[dict[Credential, str], list[Problem]]:
    """Read the passwords of all steps, so that a missing one is found before anything changes."""
    found: dict[Credential, str] = {}
    problems: list[Problem] = []
    for step in steps:
        for change in step.changes:
            if isinstance(change, UserChange) and change.password is not None:
                try:
                    found[change.credential] = _value(change.password)
                except ValueError as error:
                    problems.append(Problem(str(error), f"user {change.credential}: password"))
    return found, problems


def _value(secret: Secret) -> str:
    if secret.source == "clear":
        value = secret.value
    elif secret.source == "env":
        if secret.value not in os.environ:
            raise ValueError(f"the environment variable {secret.value} is not set")
        value = os.environ[secret.value]
    else:
        try:
            with open(secret.value, encoding="utf-8") as file:
                value = file.read().rstrip("\r\n")
        except OSError as error:
            raise ValueError(f"can't read {secret.value}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{secret.value} is not UTF-8") from error
    if not value:
        raise ValueError(f"{secret!r} is empty")
    return value
