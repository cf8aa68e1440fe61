"""``barnabas tokens list|create|renew|expire``: manage delegation tokens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from barnabas.cli.arguments.acl_options import parse_principals
from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Flag, UsageError
from barnabas.cli.output.answer import Answer, Change, change_answer
from barnabas.cli.output.moment import moment
from barnabas.cli.output.table import Sheet
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, DelegationToken

__all__ = ["app", "main"]

app = cluster_app(
    "tokens",
    "List, create, renew and expire delegation tokens. The HMAC of a token is its password: it authenticates as the "
    "owner. It is shown only when the token is created.",
)
main = main_of(app)


@app.command(name=["list", "describe"])
def list_(*, owner_principal: list[str] | None = None, options: ClusterOptions | None = None) -> int:
    """List the tokens that you may see, without their HMACs.

    For example:

        barnabas tokens list --command-config alice.properties
        barnabas tokens list --owner-principal User:alice --output json

    Parameters
    ----------
    owner_principal
        Only tokens of this owner, for example User:alice. May be repeated.
    """
    owners = parse_principals(owner_principal) or None

    async def work(admin: AdminClient) -> Answer:
        found = await admin.describe_delegation_tokens(owners)
        sheet = Sheet(
            columns=("token", "owner", "requester", "renewers", "issued", "expires", "max lifetime"),
            drop_first=("requester", "renewers", "issued", "max lifetime"),
        )
        for token in found:
            sheet.add(
                token.token_id, token.owner, token.requester or "", ", ".join(token.renewers),
                _until(token.issue_timestamp_ms), _until(token.expiry_timestamp_ms), _until(token.max_timestamp_ms),
            )  # fmt: skip
        notes = [] if found else ["no tokens exist, or you may not see them"]
        return Answer({"tokens": [_document(token) for token in found]}, [sheet] if found else [], notes)

    return (options or ClusterOptions()).run(work, right="DESCRIBE on DelegationToken")


@app.command
def create(
    *,
    owner_principal: str | None = None,
    renewer_principal: list[str] | None = None,
    max_life_time_period: int = -1,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Create a token, for yourself or another owner, and show its HMAC, which is never shown again.

    For example:

        barnabas tokens create --command-config alice.properties --renewer-principal User:scheduler
        barnabas tokens create --owner-principal User:bob --max-life-time-period 3600000 --output json

    Parameters
    ----------
    owner_principal
        The owner, for example User:bob. Needs CREATE_TOKENS on that user. Default: yourself.
    renewer_principal
        A principal that may renew the token besides the owner, for example User:scheduler. May be repeated.
    max_life_time_period
        The maximum lifetime in milliseconds; -1 is the longest that the cluster allows.
    wait
        Return when every live broker has the token.
    """
    renewers = parse_principals(renewer_principal)
    owner = None if owner_principal is None else parse_principals([owner_principal])[0]
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        if dry_run:
            await admin.describe_delegation_tokens(
                [owner] if owner else None
            )  # Check whether the cluster supports tokens.
            return change_answer([Change("token", f"for {owner or 'yourself'}", "created")], dry_run=True)
        made = await admin.create_delegation_token(
            owner=owner, renewers=renewers, max_lifetime_ms=max_life_time_period, wait=wait
        )
        from base64 import b64encode

        hmac = b64encode(made.hmac).decode()
        sheet = Sheet()
        sheet.add("token", made.token_id)
        sheet.add("hmac", hmac)
        sheet.add("owner", made.owner)
        sheet.add("expires", _until(made.expiry_timestamp_ms))
        sheet.add("max lifetime", _until(made.max_timestamp_ms))
        return Answer({"token": _document(made) | {"hmac": hmac}}, [sheet])

    return options.run(work, right="CREATE_TOKENS on User:<owner>")


@app.command
def renew(*, hmac_file: str, renew_time_period: int = -1, options: ChangeOptions | None = None) -> int:
    """Extend the expiry of a token, within its maximum lifetime.

    For example:

        barnabas tokens renew --hmac-file token.hmac --renew-time-period 86400000

    Parameters
    ----------
    hmac_file
        A file with the HMAC of the token in base64; - is the standard input. It is not an argument, to keep it secret.
    renew_time_period
        Time from now until the new expiry, in milliseconds; -1 is the default of the cluster.
    """
    hmac = _hmac(hmac_file)
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        if dry_run:
            return await _tried(admin, hmac, "renewed")
        expiry_ms = await admin.renew_delegation_token(hmac, renew_period_ms=renew_time_period)
        more = {"expiry_timestamp_ms": expiry_ms}
        return change_answer([Change("token", "", "renewed", f"until {_until(expiry_ms)}", more)], dry_run=False)

    return options.run(work)


@app.command
def expire(*, hmac_file: str, expiry_time_period: int = -1, options: ChangeOptions | None = None) -> int:
    """Expire a token, now or later.

    For example:

        barnabas tokens expire --hmac-file token.hmac --dry-run

    Parameters
    ----------
    hmac_file
        A file with the HMAC of the token in base64; - is the standard input. It is not an argument, to keep it secret.
    expiry_time_period
        Time from now until the expiry, in milliseconds; -1 is now.
    """
    hmac = _hmac(hmac_file)
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        if dry_run:
            return await _tried(admin, hmac, "expired")
        expiry_ms = await admin.expire_delegation_token(hmac, expiry_time_period_ms=expiry_time_period)
        more = {"expiry_timestamp_ms": expiry_ms}
        return change_answer([Change("token", "", "expired", f"at {_until(expiry_ms)}", more)], dry_run=False)

    return options.run(work)


async def _tried(admin: AdminClient, hmac: bytes, done: str) -> Answer:
    from barnabas.clients.admin.errors import admin_error

    for token in await admin.describe_delegation_tokens():
        if token.hmac == hmac:
            return change_answer([Change("token", token.token_id, done)], dry_run=True)
    raise admin_error(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "no token with this HMAC exists, or you may not see it")


def _hmac(path: str) -> bytes:
    """Read an HMAC from a file. Raise UsageError."""
    import binascii
    from base64 import b64decode

    try:
        if path == "-":
            text = sys.stdin.readline()
        else:
            with open(path, encoding="ascii") as file:
                text = file.readline()
        return b64decode(text.strip(), validate=True)
    except OSError as error:
        raise UsageError(f"--hmac-file: can't read {path}: {error.strerror}") from error
    except (binascii.Error, UnicodeDecodeError):
        raise UsageError(f"--hmac-file: {path} is not base64") from None


def _until(timestamp_ms: int) -> str:
    return moment(timestamp_ms, timespec="seconds")


def _document(token: DelegationToken) -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issue_timestamp_ms": token.issue_timestamp_ms,
        "expiry_timestamp_ms": token.expiry_timestamp_ms,
        "max_timestamp_ms": token.max_timestamp_ms,
    }
