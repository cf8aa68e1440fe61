"""Read ACLs for ``barnabas access`` from a cluster, by DescribeAcls, or from the files of a KRaft node.

A cluster returns its ACLs to principals with DESCRIBE on it, but not always its super users, because Kafka hides that
setting. Notes in the result list unknown settings.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.access.acl_text import parse_super_users
from barnabas.access.rule_set import Policy, Rule
from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.output.advice import problem_of
from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.error_code import ErrorCode
from barnabas.security.super_user_warnings import super_user_warnings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.network_client import NetworkClient
    from barnabas.storage.metadata_point_in_time import Moment
    from barnabas.storage.metadata_reader import MetadataRecords

__all__ = ["LoadedHistory", "LoadedPolicy", "Source", "SourceError", "load_history", "load_policy"]

_SUPER_USERS = "super.users"
_ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
_BROKER = 4


class SourceError(Exception):
    """The ACLs can't be read. The message contains the reason; ``advice`` may say what to do."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Source:
    """Options of the command line. ``None`` in the last two means that the option is missing."""

    bootstrap_server: str | None = None
    command_config: str | None = None
    path: str | None = None
    config: str | None = None
    super_users: frozenset[str] | None = None
    allow_everyone: bool | None = None


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    policy: Policy
    location: str
    super_users_known: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedHistory:
    settings: LoadedPolicy
    """Without rules: the authorizer settings and the notes."""
    found: MetadataRecords


@dataclass(slots=True)
class _Found:
    rules: list[Rule]
    location: str
    super_users: str | None = None
    allow_everyone: bool | None = None
    notes: tuple[str, ...] = ()


def load_policy(source: Source, filters: list[AclBindingFilter], moment: Moment | None = None) -> LoadedPolicy:
    """Read the ACLs that ``filters`` select, and the authorizer settings. Raise SourceError or UsageError.

    With ``moment``, read the ACLs of that moment, which only files have. The settings are those of today.
    """
    settings, directory = _node_settings(source.config) if source.config is not None else ({}, None)
    if moment is not None:
        found = _from_files(_path_of(source, directory), filters, moment)
    elif source.bootstrap_server is not None or source.command_config is not None:
        found = _from_cluster(source, filters)
    elif source.path is not None or directory is not None:
        found = _from_files(source.path or directory or "", filters)
    else:
        raise SourceError(
            f"{source.config} does not set a log directory: set metadata.log.dir or log.dirs, or use --directory"
        )
    return _with_settings(source, settings, found)


def _with_settings(source: Source, settings: Mapping[str, str], found: _Found) -> LoadedPolicy:
    allow_everyone = source.allow_everyone
    if allow_everyone is None and _ALLOW_EVERYONE in settings:
        allow_everyone = settings[_ALLOW_EVERYONE].strip().lower() == "true"
    if allow_everyone is None:
        allow_everyone = found.allow_everyone
    users = source.super_users
    text = settings.get(_SUPER_USERS, found.super_users)
    if users is None and text is not None:
        try:
            users = parse_super_users(text)
        except ValueError as error:
            raise SourceError(f"super.users: {error}") from error
    known = users is not None or source.config is not None
    notes = (
        *found.notes,
        *(f"super.users: {warning}" for warning in super_user_warnings(";".join(sorted(users or ())))),
    )
    if not known:
        notes += (
            "the ACLs don't contain super.users and allow.everyone.if.no.acl.found: "
            "use --super-users and --allow-everyone, or --config with a node's server.properties",
        )
    policy = Policy(found.rules, super_users=users or frozenset(), allow_everyone=bool(allow_everyone))
    return LoadedPolicy(policy, found.location, known, notes)


def _node_settings(path: str) -> tuple[dict[str, str], str | None]:
    """Return the settings in a server.properties, and the node's metadata log directory."""
    from barnabas.common.properties_file import MalformedProperties, read_properties_file

    try:
        values = read_properties_file(path).values
    except OSError as error:
        raise UsageError(f"--config: can't read {path}: {error.strerror}") from error
    except MalformedProperties as error:
        raise UsageError(f"--config: {path}: {error}") from error
    directory = values.get("metadata.log.dir") or values.get("log.dirs") or values.get("log.dir") or ""
    return values, directory.split(",")[0].strip() or None


def load_history(source: Source, since: Moment | None, until: Moment | None) -> LoadedHistory:
    """Read the records of ACLs, and the authorizer settings. Raise SourceError or UsageError."""
    from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
    from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from barnabas.storage.errors import StorageError
    from barnabas.storage.metadata_reader import read_records

    settings, directory = _node_settings(source.config) if source.config is not None else ({}, None)
    kinds = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)
    try:
        found = read_records(_path_of(source, directory), kinds, since=since, until=until)
    except (StorageError, OSError) as error:
        raise SourceError(str(error)) from error
    notes = () if found.incomplete is None else (f"not read to the end: {found.incomplete}",)
    loaded = _with_settings(source, settings, _Found([], found.source, notes=notes))
    return LoadedHistory(loaded, found)


def _path_of(source: Source, directory: str | None) -> str:
    path = source.path or directory
    if source.bootstrap_server is not None or source.command_config is not None or path is None:
        raise UsageError(
            "the past is in the files of a node: use --directory with its log directory, or --config with its "
            "server.properties"
        )
    return path


def _from_files(path: str, filters: list[AclBindingFilter], moment: Moment | None = None) -> _Found:
    from barnabas.storage.errors import StorageError
    from barnabas.storage.metadata_reader import read_metadata

    try:
        found = read_metadata(path, moment)
    except (StorageError, OSError) as error:
        raise SourceError(str(error)) from error
    rules = [
        Rule(binding, acl_id)
        for acl_id, binding in found.image.acls.by_id.items()
        if any(wanted.matches(binding) for wanted in filters)
    ]
    notes = () if found.incomplete is None else (f"not read to the end: {found.incomplete}",)
    return _Found(rules, f"{found.source} (offset {found.image.offset})", notes=notes)


def _from_cluster(source: Source, filters: list[AclBindingFilter]) -> _Found:
    from barnabas.clients.client_config import client_config, read_client_config
    from barnabas.clients.errors import ClientError, InvalidClientConfig

    try:
        if source.command_config is not None:
            config = read_client_config(source.command_config, bootstrap=source.bootstrap_server)
        else:
            config = client_config({}, bootstrap=source.bootstrap_server)
        found = asyncio.run(_ask_cluster(config, filters))
    except InvalidClientConfig as error:
        raise UsageError(str(error)) from error
    except ClientError as error:
        problem = problem_of(error)
        raise SourceError(problem.text, problem.advice) from error
    found.notes = (*config.warnings, *found.notes)
    return found


async def _ask_cluster(config: ClientConfig, filters: list[AclBindingFilter]) -> _Found:
    from barnabas.clients.network_client import NetworkClient

    async with NetworkClient(config) as client:
        rules: list[Rule] = []
        for acl_filter in filters:
            rules += await _describe_acls(client, acl_filter)
        found = _Found(rules, f"the cluster at {client.address}")
        settings = await _authorizer_settings(client)
    if settings is not None:
        found.super_users = settings.get(_SUPER_USERS, "")
        found.allow_everyone = (settings.get(_ALLOW_EVERYONE) or "").lower() == "true"
    return found


async def _describe_acls(client: NetworkClient, acl_filter: AclBindingFilter) -> list[Rule]:
    from barnabas.protocol.messages.describe_acls import DescribeAclsRequest

    response = await client.request(
        DescribeAclsRequest(
            resource_type_filter=acl_filter.resource_type,
            resource_name_filter=acl_filter.name,
            pattern_type_filter=acl_filter.pattern_type,
            principal_filter=acl_filter.principal,
            host_filter=acl_filter.host,
            operation=acl_filter.operation,
            permission_type=acl_filter.permission,
        )
    )
    if response.error_code:
        raise SourceError(_refusal(str(client.address), response.error_code, response.error_message))
    return [
        Rule(
            AclBinding(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
        )
        for resource in response.resources
        for acl in resource.acls
    ]


def _refusal(address: str, code: int, message: str | None) -> str:
    if code == ErrorCode.SECURITY_DISABLED:
        return f"the cluster at {address} has no authorizer: every client may do everything, and no ACLs exist"
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        reason = f" ({message})" if message and "lacks" in message else ""
        return f"reading ACLs needs DESCRIBE on Cluster, which the cluster at {address} did not grant{reason}"
    name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)
    return f"the cluster at {address} did not return its ACLs: {name}" + (f": {message}" if message else "")


async def _authorizer_settings(client: NetworkClient) -> dict[str, str | None] | None:
    """Return the authorizer settings of the connected node, or None if it hides them."""
    from barnabas.clients.errors import ClientError
    from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
    from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    try:
        cluster = await client.request(DescribeClusterRequest())
        for broker in cluster.brokers:
            resource = DescribeConfigsResource(
                resource_type=_BROKER,
                resource_name=str(broker.broker_id),
                configuration_keys=[_SUPER_USERS, _ALLOW_EVERYONE],
            )
            response = await client.request(DescribeConfigsRequest(resources=[resource]))
            result = response.results[0]
            if result.error_code == ErrorCode.INVALID_REQUEST:
                continue  # A broker knows only its own settings.
            if result.error_code:
                return None
            is_hidden = any(config.is_sensitive for config in result.configs)
            return None if is_hidden else {config.name: config.value for config in result.configs}
    except ClientError:
        pass  # The result is useful without these settings.
    return None
