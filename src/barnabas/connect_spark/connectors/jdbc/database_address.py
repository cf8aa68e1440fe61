"""Parse ``connection.url``: the databases that barnabas can write to and read from exactly.

Credentials have settings of their own, because listings show URLs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

__all__ = ["DatabaseAddress", "parse_address"]

_FORMS = (
    "jdbc:sqlite:/path/to/file, jdbc:duckdb:/path/to/file, jdbc:postgresql://host:port/database, "
    "jdbc:mariadb://host:port/database, jdbc:mysql://host:port/database or "
    "jdbc:sqlserver://host:port;databaseName=database"
)
_DIALECTS = {
    "sqlite": "sqlite",
    "duckdb": "duckdb",
    "postgresql": "postgresql",
    "mariadb": "mysql",
    "mysql": "mysql",
    "sqlserver": "sqlserver",
}
_SECRETS = ("user", "username", "password", "accesstoken", "keystoresecret", "truststorepassword", "keystorepassword")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    dialect: str
    """``sqlite``, ``duckdb``, ``postgresql``, ``mysql`` (also for MariaDB) or ``sqlserver``."""
    url: str
    path: Path | None = None
    """The path of a database that is a file."""


def parse_address(url: str) -> DatabaseAddress:
    """Parse the URL. Raise ValueError with the correct form."""
    scheme, _, rest = url.removeprefix("jdbc:").partition(":")
    if not url.startswith("jdbc:") or scheme not in _DIALECTS:
        raise ValueError(f"{_shown(url)} is not a usable database URL: write {_FORMS}")
    if scheme == "sqlserver":
        return DatabaseAddress(scheme, _checked_sqlserver(url, rest))
    if scheme in ("postgresql", "mariadb", "mysql"):
        # One driver is for both: MariaDB's, which takes only its own name.
        url = _checked_server(url, rest)
        return DatabaseAddress(_DIALECTS[scheme], url.replace("jdbc:mysql:", "jdbc:mariadb:", 1))
    if not rest or rest.startswith(":memory:"):
        raise ValueError(f"{url} is a database in memory, which no other process can read: write {_FORMS}")
    if "?" in rest:
        raise ValueError(f"{url} has parameters after the path, which are not supported: write {_FORMS}")
    path = Path(rest)
    if not path.is_absolute():
        raise ValueError(f"{rest} is not an absolute path: workers may run in different folders. Write {_FORMS}")
    return DatabaseAddress(scheme, url, path)


def _checked_server(url: str, rest: str) -> str:
    parts = urlsplit(rest)
    if not rest.startswith("//") or not parts.path.strip("/"):
        raise ValueError(f"{_shown(url)} does not name a server and a database: write {_FORMS}")
    given = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if name.lower() in _SECRETS]
    if given or "@" in parts.netloc:
        raise ValueError(_credentials_in(url))
    return url


def _credentials_in(url: str) -> str:
    return f"{_shown(url)} has credentials in it, and listings show URLs: write connection.user and connection.password"


def _checked_sqlserver(url: str, rest: str) -> str:
    server, *properties = rest.split(";")
    names = {name.strip().lower() for name, _, value in (text.partition("=") for text in properties) if value}
    if names & set(_SECRETS) or "@" in server:
        raise ValueError(_credentials_in(url))
    if not re.fullmatch(r"//[^/;:@]+(:\d+)?", server) or not names & {"databasename", "database"}:
        raise ValueError(f"{_shown(url)} does not name a server and a database: write {_FORMS}")
    return url


def _shown(url: str) -> str:
    """Return the URL without anything that could be a password."""
    front, _, back = re.split(r"[?;]", url, maxsplit=1)[0].rpartition("@")
    return f"[hidden]@{back}" if front else back


def address_error(settings: Mapping[str, object], name: str) -> list[str]:
    """Return the errors for ``Connector.validate``."""
    try:
        parse_address(str(settings.get(name, "")))
    except ValueError as error:
        return [str(error)]
    return []
