"""Options of ``barnabas connect`` (worker, credentials, output format), and messages for errors of a worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.cli.arguments.cluster_options import Flag, UsageError, running_command
from barnabas.cli.arguments.parameter import Group, Parameter
from barnabas.cli.arguments.standard_input import read_file
from barnabas.cli.output.answer import Answer, Problem

if TYPE_CHECKING:
    import ssl

    from barnabas.connect.rest.connect_client import ConnectClient, Credentials, RequestRefused

__all__ = ["WorkerChangeOptions", "WorkerOptions", "open_worker", "problem_of_request"]

_DEFAULT_URL = "http://127.0.0.1:8083"
_URL = "BARNABAS_CONNECT_URL"
_PASSWORD = "BARNABAS_CONNECT_PASSWORD"
_TOKEN = "BARNABAS_CONNECT_TOKEN"
_GROUP = Group("Worker and answer", sort_key=90)

_ADVICE = {
    401: "authenticate with --user, --token-file or --cert-file",
    403: "this needs another role: operate to change states, admin to change configurations and offsets",
    408: "the worker was busy: try again later",
    409: "try again later; 'barnabas connect status' shows the current state",
    429: "too many failed logins: wait some seconds",
    500: "see the worker's log; 'barnabas connect health' checks the worker",
    503: "the worker is still starting: try again later",
}


@Parameter(name="*", group=_GROUP)
@dataclass(kw_only=True)
class WorkerOptions:
    """The worker to contact, the credentials, and the output format."""

    worker: str | None = None
    """The URL of any worker of the group. Default: BARNABAS_CONNECT_URL, else http://127.0.0.1:8083."""
    user: str | None = None
    """The user name. --password-file, BARNABAS_CONNECT_PASSWORD or a prompt provides the password."""
    password_file: str | None = None
    """A file with the password in its first line; - is the standard input."""
    token_file: str | None = None
    """A file with a bearer token. Default: the token in BARNABAS_CONNECT_TOKEN."""
    ca_file: str | None = None
    """For https: a PEM file with the trusted certificate authorities. Default: those that this machine trusts."""
    cert_file: str | None = None
    """For https: a PEM file with a client certificate, and its key unless --key-file contains it."""
    key_file: str | None = None
    """A PEM file with the key of --cert-file."""
    timeout: float = 60.0
    """Timeout in seconds."""
    output: Annotated[Literal["table", "json", "yaml"], Parameter(name=["--output", "-o"])] = "table"
    """Output format: a table, or one document for programs."""

    def run(self, work: Callable[[ConnectClient], Answer]) -> int:
        """Run ``work`` and return the exit status."""
        from barnabas.connect.rest.connect_client import RequestRefused, WorkerUnreachable

        with open_worker(self) as worker:
            try:
                answer = work(worker)
            except RequestRefused as error:
                answer = Answer({}, problems=[problem_of_request(error)])
            except WorkerUnreachable as error:
                advice = "check that a worker runs at this address; --worker or BARNABAS_CONNECT_URL sets it"
                answer = Answer({}, problems=[Problem(str(error), advice=advice)])
        return answer.give(running_command.get(), self.output)

    def credentials(self) -> Credentials:
        """Return the credentials. Raise UsageError."""
        from barnabas.connect.rest.connect_client import Credentials

        token = os.environ.get(_TOKEN) if self.token_file is None else _first_line("--token-file", self.token_file)
        if self.user is None:
            if self.password_file is not None:
                raise UsageError("--password-file needs --user")
            return Credentials(token=token or None)
        if self.token_file is not None:
            raise UsageError("--user and --token-file can't be used together")
        return Credentials(self.user, self._password())

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None for the certificate authorities of this machine. Raise UsageError."""
        from barnabas.connect.rest.connect_client import tls_context

        if self.key_file is not None and self.cert_file is None:
            raise UsageError("--key-file needs --cert-file")
        if self.ca_file is None and self.cert_file is None:
            return None
        try:
            return tls_context(ca=self.ca_file, certificate=self.cert_file, key=self.key_file)
        except OSError as error:
            files = ", ".join(file for file in (self.ca_file, self.cert_file, self.key_file) if file)
            raise UsageError(f"{files}: {error.strerror or error}") from error

    def _password(self) -> str:
        if self.password_file is not None:
            return _first_line("--password-file", self.password_file)
        if _PASSWORD in os.environ:
            return os.environ[_PASSWORD]
        if sys.stdin.isatty():
            from getpass import getpass

            return getpass(f"password of {self.user}: ")
        raise UsageError(f"--user {self.user}: the password is missing: use --password-file, or set {_PASSWORD}")


@Parameter(name="*", group=_GROUP)
@dataclass(kw_only=True)
class WorkerChangeOptions(WorkerOptions):
    """The same options, for commands that change something."""

    dry_run: Flag = False
    """Check and show the changes without making them."""


def open_worker(options: WorkerOptions) -> ConnectClient:
    """Return a client of the worker. Raise UsageError."""
    from barnabas.connect.rest.connect_client import ConnectClient, InvalidWorkerUrl

    if options.timeout <= 0:
        raise UsageError(f"--timeout {options.timeout:g}: the timeout is too short")
    url = options.worker or os.environ.get(_URL) or _DEFAULT_URL
    try:
        return ConnectClient(url, credentials=options.credentials(), tls=options.tls(), timeout_s=options.timeout)
    except InvalidWorkerUrl as error:
        raise UsageError(f"{'--worker' if options.worker else _URL}: {error}") from error


def problem_of_request(error: RequestRefused, item: str = "", advice: str = "") -> Problem:
    """Return the problem for an error of a worker. ``item`` is its subject."""
    if not advice and error.status == 404 and item:
        advice = "'barnabas connect list' lists the connectors"
    return Problem(error.message, item, str(error.status), advice or _ADVICE.get(error.status, ""))


def _first_line(option: str, path: str) -> str:
    try:
        lines = read_file(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option}: can't read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not lines or not lines[0].strip():
        raise UsageError(f"{option}: {path} is empty")
    return lines[0].strip()
