"""``barnabas access at|history``: who could do what at an earlier moment, and what changed that since.

The metadata log of a node has every change of an ACL with its time. It does not have super users and the default of
the authorizer: those of the options or of ``--config`` are used for every moment, and a note says if neither is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.access.acl_text import parse_host, parse_operation, parse_principal, parse_resource
from barnabas.cli.access.answers import filters_of, filters_on, show_explanation, show_holders, show_holdings
from barnabas.cli.access.app import Options, app, parsed, print_document, print_notes
from barnabas.cli.access.sources import load_history, load_policy
from barnabas.cli.arguments.cluster_options import Long, UsageError
from barnabas.cli.arguments.moment import parse_time

if TYPE_CHECKING:
    from barnabas.access.history import AclRecord
    from barnabas.common.acl import AclBinding
    from barnabas.common.uuid import Uuid
    from barnabas.storage.metadata_point_in_time import Moment
    from barnabas.storage.metadata_reader import MetadataRecords

__all__ = ["at", "history"]


@app.command
def at(
    *,
    time: str | None = None,
    offset: Long | None = None,
    principal: str | None = None,
    resource: str | None = None,
    operation: str | None = None,
    host: str = "*",
    options: Options | None = None,
) -> int:
    """Show access at an earlier moment, from the metadata log of a node.

    With a resource: who had access to it. With a principal: all its access. With both and an operation: whether it
    was allowed, and why; then the exit status is 0 if it was, 3 if not.

    For example:

        barnabas access at --time 2026-01-31T12:30:00 --resource Topic:orders --directory /var/lib/kafka
        barnabas access at --offset 4711 --principal User:alice --directory /var/lib/kafka
        barnabas access at --offset 9 --principal User:alice --resource Topic:orders --operation Read --directory /data

    Parameters
    ----------
    time
        The moment, by the times in the log: 2026-01-31T12:30:00 (UTC, or with +01:00), or milliseconds since 1970.
    offset
        The moment, by the offset of the last record before it.
    principal
        The principal, for example User:alice.
    resource
        The resource, for example Topic:orders. Cluster needs no name.
    operation
        The operation, for example Read.
    host
        The IP address of the client. Default: an address that no ACL names.
    """
    moment = _moment("--time", time, "--offset", offset)
    if moment is None:
        raise UsageError("no moment given: use --time or --offset")
    who = None if principal is None else parsed(parse_principal, principal)
    what = None if resource is None else parsed(parse_resource, resource)
    options = options or Options()
    if what is None and who is None:
        raise UsageError("nothing to show: use --resource, --principal, or both with --operation")
    if what is None:
        if operation is not None or host != "*":
            raise UsageError("--operation and --host need --resource")
        assert who is not None
        return show_holdings(load_policy(options.source(), filters_of(who), moment), who, options)
    wanted = None if operation is None else parsed(parse_operation, operation)
    address = parsed(parse_host, host)
    if who is None and host != "*":
        raise UsageError("--host needs --principal and --operation")
    if who is not None and wanted is None:
        raise UsageError("--principal with --resource needs --operation: which one is to be decided?")
    loaded = load_policy(options.source(), filters_on(what), moment)
    if who is None or wanted is None:
        return show_holders(loaded, what, wanted, options)
    return show_explanation(loaded, who, address, wanted, what, options)


@app.command
def history(
    *,
    resource: str | None = None,
    principal: str | None = None,
    since_time: str | None = None,
    since_offset: Long | None = None,
    until_time: str | None = None,
    until_offset: Long | None = None,
    options: Options | None = None,
) -> int:
    """List each change of access between two moments, with the records of the metadata log that caused it.

    For example:

        barnabas access history --resource Topic:orders --directory /var/lib/kafka
        barnabas access history --principal User:alice --since-time 2026-01-01 --directory /var/lib/kafka
        barnabas access history --principal User:alice --resource Topic:orders --since-offset 100 --until-offset 900

    Parameters
    ----------
    resource
        Access to this resource, for example Topic:orders.
    principal
        Access of this principal, for example User:alice: to the resource, or to everything.
    since_time
        The first moment, by the times in the log. Default: the earliest that the directory has.
    since_offset
        The first moment, by offset: changes after this record.
    until_time
        The last moment, by the times in the log. Default: the end of the log.
    until_offset
        The last moment, by offset: changes up to this record.
    """
    from barnabas.access.history import Settings, access_history
    from barnabas.access.history_json import history_json

    if resource is None and principal is None:
        raise UsageError("nothing to show: use --resource, --principal, or both")
    who = None if principal is None else str(parsed(parse_principal, principal))
    what = None if resource is None else parsed(parse_resource, resource)
    since = _moment("--since-time", since_time, "--since-offset", since_offset)
    until = _moment("--until-time", until_time, "--until-offset", until_offset)
    options = options or Options()
    loaded = load_history(options.source(), since, until)
    policy, found = loaded.settings.policy, loaded.found
    rules, records = _split(found, since)
    settings = Settings(policy.super_users, policy.allow_everyone)
    steps = list(access_history(rules, records, settings, principal=who, resource=what))
    if options.output != "table":
        document: dict[str, object] = {"changes": history_json(steps)}
        print_document(document, loaded.settings, options.output)
        return 0
    from barnabas.cli.access.tables import print_history

    if since is not None:
        beginning = f"since {since}"
    elif found.image.offset < 0:
        beginning = "known since the beginning of the log"
    else:
        beginning = "known since the snapshot with which the directory begins"
    print_history(steps, what or who or "", beginning)
    print_notes(loaded.settings)
    return 0


def _moment(time_option: str, time: str | None, offset_option: str, offset: int | None) -> Moment | None:
    from barnabas.storage.metadata_point_in_time import Moment

    if time is not None and offset is not None:
        raise UsageError(f"{time_option} and {offset_option} can't be used together")
    if offset is not None and offset < 0:
        raise UsageError(f"{offset_option}: {offset} is not an offset: offsets are 0, 1, 2, ...")
    if time is None and offset is None:
        return None
    return Moment(offset, None if time is None else parsed(parse_time, time))


def _split(found: MetadataRecords, since: Moment | None) -> tuple[dict[Uuid, AclBinding], list[AclRecord]]:
    """Return the rules in force at ``since``, and the records after it."""
    from barnabas.access.history import AclRecord
    from barnabas.metadata.image.acls import binding_of_record
    from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord

    rules = dict(found.image.acls.by_id.items())
    later: list[AclRecord] = []
    for record in found.records:
        message = record.message
        binding = binding_of_record(message) if isinstance(message, AccessControlEntryRecord) else None
        acl_id: Uuid = message.id  # type: ignore[attr-defined]
        if later or since is None or since.is_before(record.effective_offset, record.time_ms):
            later.append(AclRecord(record.change, record.offset, record.time_ms, acl_id, binding))
        elif binding is None:
            rules.pop(acl_id, None)
        else:
            rules[acl_id] = binding
    return rules, later
