"""The command ``barnabas access``: its options and what its verbs share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from barnabas.access.acl_text import parse_super_users
from barnabas.cli.access.sources import LoadedPolicy, Source
from barnabas.cli.arguments.cluster_app import cluster_app
from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.output.answer import as_json, as_yaml
from barnabas.common.printable import printable

__all__ = ["Options", "app", "parsed", "print_document", "print_notes"]

app = cluster_app(
    "access",
    "Explain who may do what on any Kafka cluster, and which ACL decides it.\n\n"
    "The exit status of `explain` is 3 when access is denied.",
)
T = TypeVar("T")


@Parameter(name="*")
@dataclass
class Options:
    """The source of the ACLs, the authorizer settings, and the output format."""

    bootstrap_server: str | None = None
    """The address of a broker, host:port; separate several with commas. Default, without a file: localhost:9092."""
    command_config: str | None = None
    """A file of Kafka client properties for the cluster, with TLS and SASL settings."""
    directory: str | None = None
    """The log directory of a KRaft node, or its __cluster_metadata-0 directory. The node may be running."""
    snapshot: str | None = None
    """A metadata snapshot (.checkpoint)."""
    config: str | None = None
    """A node's server.properties, for super.users, the default, and, without another source, the log directory."""
    super_users: str | None = None
    """Super users, separated by semicolons, as in super.users."""
    allow_everyone: Annotated[bool | None, Parameter(negative="--no-allow-everyone")] = None
    """The value of allow.everyone.if.no.acl.found."""
    output: Annotated[Literal["table", "json", "yaml"], Parameter(name=["--output", "-o"])] = "table"
    """Output format: a table, or one document for programs."""

    def source(self) -> Source:
        """Return the source of ACLs. Raise UsageError for several sources or none."""
        given = [
            option
            for option, value in (
                ("--bootstrap-server", self.bootstrap_server or self.command_config),
                ("--directory", self.directory),
                ("--snapshot", self.snapshot),
            )
            if value
        ]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} can't be used together: choose one source of ACLs")
        try:
            super_users = None if self.super_users is None else parse_super_users(self.super_users)
        except ValueError as error:
            raise UsageError(f"--super-users: {error}") from error
        is_default = not given and self.config is None
        return Source(
            "localhost:9092" if is_default else self.bootstrap_server,
            self.command_config,
            self.directory or self.snapshot,
            self.config,
            super_users,
            self.allow_everyone,
        )


def parsed(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from error


def print_document(answer: dict[str, object], loaded: LoadedPolicy, output: str) -> None:
    policy = loaded.policy
    answer["source"] = {
        "location": loaded.location,
        "rules": len(policy.rules),
        "super_users": sorted(policy.super_users),
        "super_users_known": loaded.super_users_known,
        "allow_everyone": policy.allow_everyone,
        "notes": list(loaded.notes),
    }
    sys.stdout.write(as_json(answer) if output == "json" else as_yaml(answer))


def print_notes(loaded: LoadedPolicy) -> None:
    sys.stdout.flush()
    for note in loaded.notes:
        sys.stderr.write(f"note: {printable(note)}\n")
