"""Mistakes in ``super.users`` that are valid settings: they name a user that no login can have.

Only a warning is possible. Kafka takes any text behind the first colon for a name, and a name may contain commas and
spaces (``User:CN=alice,O=example``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["super_user_warnings"]

_LOGIN_TYPE = "User"

# A second Type:name inside a name. "=" in between means that it is part of a certificate's name.
_SEVERAL = re.compile(r"(?:\s*,\s*|\s+)(?=[A-Za-z]+:[^/\s])")


def super_user_warnings(text: str, *, only_users_log_in: bool = True) -> Iterator[str]:
    """Yield a sentence for each part of the setting that is probably a mistake.

    ``only_users_log_in`` is False if the operator's principal builder may create other types than ``User``.
    """
    for part in text.split(";"):
        user = part.strip()
        kind, _, name = user.partition(":")
        several = _SEVERAL.split(user)
        if len(several) > 1:
            yield (
                f"{user!r} is one user with a long name, not {len(several)} users: "
                f"separate users with semicolons, as in {';'.join(several)}"
            )
        elif name == "*":
            yield f"{user!r} is a user whose name is an asterisk, not all users: name each super user"
        elif user and not name:
            yield f"{user!r} lacks a name: write Type:name, as in User:admin"
        elif user and kind != _LOGIN_TYPE and only_users_log_in:
            yield (
                f"{user!r} has the type {kind!r}, and every login has the type {_LOGIN_TYPE!r} "
                f"(capital letters count): write {_LOGIN_TYPE}:{name}"
            )
