"""``barnabas.connect.users.file``: the users with passwords, one a line, ``name:role:hash``.

The role is read, operate or admin; the hash is one of ``password_hash``. Empty lines and lines that begin with # are
skipped. A file with any invalid line is refused as a whole: a typing mistake does not grant or remove access.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from secrets import token_bytes

from barnabas.connect.rest.password_hash import PasswordHash, UnusableHash, hash_password
from barnabas.connect.rest.roles import Role

__all__ = ["StoredUser", "UnusableUsersFile", "main", "parse_users", "read_users"]

_SALT_BYTES = 16


class UnusableUsersFile(ValueError):
    """An invalid file. The text has the line and the expected form; it never shows a hash."""


@dataclass(frozen=True, slots=True)
class StoredUser:
    name: str
    role: Role
    password: PasswordHash


def read_users(path: Path, setting: str = "barnabas.connect.users.file") -> dict[str, StoredUser]:
    """Read the users. ``setting`` names the file. Raise UnusableUsersFile."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UnusableUsersFile(
            f"{setting}={path} can't be read: {reason}. python -m barnabas.connect.rest.users_file creates its lines"
        ) from None
    try:
        return parse_users(text)
    except UnusableUsersFile as error:
        raise UnusableUsersFile(f"{setting}={path}, {error}") from None


def parse_users(text: str) -> dict[str, StoredUser]:
    users: dict[str, StoredUser] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        user = _user(number, line.strip())
        if user.name in users:
            raise UnusableUsersFile(f"line {number}: the user {user.name} is listed twice")
        users[user.name] = user
    if not users:
        raise UnusableUsersFile("the file contains no users; write one per line: name:role:hash")
    return users


def _user(number: int, line: str) -> StoredUser:
    parts = line.split(":")
    if len(parts) != 3 or not parts[0]:
        raise UnusableUsersFile(f"line {number}: write name:role:hash, without a colon in the name")
    name, role_name, hashed = parts
    role = Role.named(role_name)
    if role is None:
        raise UnusableUsersFile(
            f"line {number}: the role of {name} is '{role_name}'; it must be read, operate or admin"
        )
    try:
        return StoredUser(name, role, PasswordHash.parse(hashed))
    except UnusableHash as error:
        raise UnusableUsersFile(f"line {number}: the hash of {name} {error}") from None


def main(arguments: list[str]) -> int:
    """``python -m barnabas.connect.rest.users_file NAME ROLE``: prompt for a password and print the user's line."""
    if len(arguments) != 2 or ":" in arguments[0] or not arguments[0] or Role.named(arguments[1]) is None:
        sys.stderr.write("usage: python -m barnabas.connect.rest.users_file NAME read|operate|admin\n")
        return 2
    password = getpass("Password: ")
    if not password:
        sys.stderr.write("the password must not be empty\n")
        return 1
    sys.stdout.write(f"{arguments[0]}:{arguments[1]}:{hash_password(password, token_bytes(_SALT_BYTES))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
