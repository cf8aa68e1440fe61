"""Where the database is, and connections to it by psycopg, which is imported when the first one is opened.

Every session writes values in the form that ``debezium.text_values`` reads: times in UTC and ISO 8601.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.connect.plugins.api import Password, TerminalError

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["DatabaseLogin", "connect", "explained", "require_psycopg"]

_OPTIONS = (
    "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=iso_8601 -c bytea_output=hex -c extra_float_digits=3 "
    "-c lc_monetary=C -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
_CONNECT_TIMEOUT_S = "20"
_TLS = ("sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert")
_HOPELESS = ("28", "3D", "42")
"""Classes of SQLSTATE that a restart can't fix: password, database, a right or a name in a statement."""


@dataclass(frozen=True, slots=True)
class DatabaseLogin:
    """Parameters of libpq. Executors receive it, so it must be picklable."""

    host: str
    port: int
    database: str
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """How messages name the database."""
        return f"{self.host}:{self.port}/{self.database}"

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> DatabaseLogin:
        password = settings["database.password"]
        secrets = {"password": password.value if isinstance(password, Password) else password}
        secrets |= {name: _plain(settings[f"database.{name}"]) for name in _TLS}
        parameters = {"user": str(settings["database.user"]), **{k: v for k, v in secrets.items() if v}}
        return cls(
            str(settings["database.hostname"]),
            int(str(settings["database.port"])),
            str(settings["database.dbname"]),
            parameters,
        )


def _plain(value: Any) -> str | None:
    found = value.value if isinstance(value, Password) else value
    return None if found is None else str(found)


def require_psycopg() -> None:
    """Raise TerminalError if psycopg is missing."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise TerminalError(
            f"PostgresChanges needs psycopg, which can't be imported: {error}. Run pip install 'barnabas[postgresql]'"
        ) from error


def connect(login: DatabaseLogin, **more: str) -> Connection:
    """Connect, in autocommit. Raise psycopg.Error."""
    import psycopg

    parameters: dict[str, Any] = {
        "host": login.host,
        "port": login.port,
        "dbname": login.database,
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "keepalives_idle": "30",
        "application_name": "barnabas",
        "options": _OPTIONS,
        **login.parameters,
        **more,
    }
    return psycopg.connect(**parameters, autocommit=True)


@contextmanager
def explained(login: DatabaseLogin) -> Iterator[None]:
    """Name the database in errors, and make those final that no restart can fix."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        message = f"PostgreSQL at {login.name}: {str(error).strip() or type(error).__name__}"
        if (error.sqlstate or "")[:2] in _HOPELESS or _is_login_refused(error):
            raise TerminalError(message) from error
        raise ConnectionError(message) from error


def _is_login_refused(error: Exception) -> bool:
    """Return whether the error of a connection, which has no SQLSTATE, is about the login."""
    text = str(error)
    return "authentication failed" in text or ("database" in text and "does not exist" in text)
