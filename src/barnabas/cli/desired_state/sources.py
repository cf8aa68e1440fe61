"""Read the current state for ``plan`` from a cluster or a node's files, with the authorizer settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,  # noqa: F401  Annotations of the inherited options are evaluated in this module.
    Literal,  # noqa: F401
    NamedTuple,
)

from barnabas.access.acl_text import parse_super_users
from barnabas.access.cluster_state import BROKER, GROUP, ClusterState, ConfigTarget, Credential, TopicState, is_secret
from barnabas.access.desired_state_scope import Scope
from barnabas.cli.arguments.cluster_options import ClusterOptions, Flag, UsageError, running_command
from barnabas.cli.arguments.parameter import Group, Parameter
from barnabas.cli.output.answer import Answer, Problem
from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.security.super_user_warnings import super_user_warnings

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient
    from barnabas.metadata.image.metadata_image import MetadataImage

__all__ = ["AccessOptions", "FileOptions", "Found", "Known", "state_of_image"]

_SUPER_USERS = "super.users"
_ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
_ACCESS = Group("Authorizer settings", sort_key=80)


class Known(NamedTuple):
    """The known authorizer settings. ``notes`` list unknown settings and assumptions."""

    super_users: frozenset[str]
    allow_everyone: bool
    notes: tuple[str, ...] = ()


class Found(NamedTuple):
    state: ClusterState
    notes: list[str]


@Parameter(name="*", group=_ACCESS)
@dataclass(kw_only=True)
class AccessOptions:
    """Authorizer settings, which a cluster seldom returns. Default: no super users, and denied access without ACLs."""

    config: str | None = None
    """A node's server.properties, for super.users and the default."""
    super_users: str | None = None
    """Super users, separated by semicolons, as in super.users."""
    allow_everyone: Flag = False
    """All principals may access resources without ACLs (allow.everyone.if.no.acl.found is true)."""

    def known(self) -> Known:
        """Return the settings of the options. Raise UsageError."""
        from barnabas.common.properties_file import MalformedProperties, read_properties_file

        values: dict[str, str] = {}
        if self.config is not None:
            try:
                values = dict(read_properties_file(self.config).values)
            except OSError as error:
                raise UsageError(f"--config: can't read {self.config}: {error.strerror}") from error
            except MalformedProperties as error:
                raise UsageError(f"--config: {self.config}: {error}") from error
        text = self.super_users if self.super_users is not None else values.get(_SUPER_USERS, "")
        try:
            users = parse_super_users(text)
        except ValueError as error:
            raise UsageError(f"{'--super-users' if self.super_users is not None else self.config}: {error}") from error
        is_open = self.allow_everyone or values.get(_ALLOW_EVERYONE, "").strip().lower() == "true"
        notes = tuple(f"super.users: {warning}" for warning in super_user_warnings(text))
        if self.config is None and self.super_users is None and not self.allow_everyone:
            notes = (
                "the access analysis assumes no super users, and denied access without an ACL; "
                "if the cluster differs, use --super-users and --allow-everyone, or --config with a node's file",
            )
        return Known(users, is_open, notes)


@Parameter(name="*", group=Group("Cluster and answer", sort_key=90))
@dataclass(kw_only=True)
class FileOptions(ClusterOptions):
    """The cluster or the files of a node to read, and the output format."""

    directory: str | None = None
    """Instead of a cluster: the log directory of a KRaft node, or its __cluster_metadata-0. The node may be running."""
    snapshot: str | None = None
    """Instead of a cluster: a metadata snapshot (.checkpoint)."""

    def find(
        self,
        scope: Scope,
        work: Callable[[Found], Awaitable[Answer]],
        *,
        needs_all: bool = True,
        right: str = "DESCRIBE and DESCRIBE_CONFIGS on Cluster, and on the topics and groups of the scope",
    ) -> int:
        """Read the state that the scope needs, and print the result for it."""
        path = self.directory or self.snapshot
        if path is None:

            async def read_and_compare(admin: AdminClient) -> Answer:
                from barnabas.cli.desired_state.cluster import read_cluster

                state, notes = await read_cluster(admin, scope, needs_all=needs_all)
                return await work(Found(state, notes))

            return self.run(read_and_compare, right=right)
        given = [name for name in ("bootstrap_server", "bootstrap_controller", "command_config") if getattr(self, name)]
        if given or (self.directory and self.snapshot):
            raise UsageError("--directory, --snapshot and a cluster can't be used together")
        return self._from_files(path, work)

    def _from_files(self, path: str, work: Callable[[Found], Awaitable[Answer]]) -> int:
        from barnabas.storage.errors import StorageError
        from barnabas.storage.metadata_reader import read_metadata

        try:
            read = read_metadata(path)
        except (StorageError, OSError) as error:
            return Answer({}, problems=[Problem(str(error))]).give(running_command.get(), self.output)
        notes = [] if read.incomplete is None else [f"not read to the end: {read.incomplete}"]
        answer = asyncio.run(self._answered(work(Found(state_of_image(read.image), notes))))
        return answer.give(running_command.get(), self.output)

    @staticmethod
    async def _answered(work: Awaitable[Answer]) -> Answer:
        return await work


def state_of_image(image: MetadataImage) -> ClusterState:
    """Return the state from the metadata. Secret settings are treated as unknown."""
    topics = {
        name: TopicState(
            len(topic.partitions),
            len(next(iter(topic.partitions.values())).replicas) if topic.partitions else None,
            dict(image.configs.of_topic(name)),
        )
        for name, topic in image.topics.by_name.items()
    }
    configs = {
        (target := ConfigTarget(int(resource.type), resource.name)): {
            key: None if is_secret(target, key) else value for key, value in values.items()
        }
        for resource, values in image.configs.by_resource.items()
        if resource.type in (BROKER, GROUP) and values
    }
    users = {
        Credential(user, ScramMechanism.from_code(mechanism)): record.iterations
        for (mechanism, user), record in image.scram.by_key.items()
    }
    quotas = {entity: dict(limits) for entity, limits in image.client_quotas.by_entity.items()}
    return ClusterState(topics, configs, frozenset(image.acls.by_id.values()), users, quotas)
