"""Users with SCRAM credentials. A password is salted here and never leaves this process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, refuse_unless
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import Deadline
from barnabas.clients.admin.routing import ANY, Target
from barnabas.common.error_code import ErrorCode
from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, ScramMechanism
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

__all__ = ["ScramCredentialInfo", "ScramDeletion", "ScramUpsertion", "UserOperations"]

_ITERATIONS = 8192


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A user's new or changed password. The salt is random unless given."""

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    iterations: int = _ITERATIONS
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    user: str
    mechanism: ScramMechanism


class UserOperations(Operations):
    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_s: float | None = None
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        """Return the mechanisms and iterations of users; without names, of all. Nodes never return a salt or a key."""
        names = None if users is None else list(dict.fromkeys(users))
        return await self._credentials(names, self._deadline(timeout_s), ANY)

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[ScramUpsertion | ScramDeletion],
        *,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[str, None]:
        """Set and remove passwords, with one result per user.

        ``wait`` waits until each live broker returns the mechanisms and iterations. A new password with the same number
        of iterations can't be observed.
        """
        wanted = list(alterations)
        by_user: dict[str, list[ScramUpsertion | ScramDeletion]] = {}
        for change in wanted:
            _refuse_bad_alteration(change)
            by_user.setdefault(change.user, []).append(change)
        for user, changes in by_user.items():
            refuse_unless(
                len({change.mechanism for change in changes}) == len(changes), f"{user}: a mechanism is changed twice"
            )
        deadline = self._deadline(timeout_s)
        upsertions = [change for change in wanted if isinstance(change, ScramUpsertion)]
        # Each salting takes milliseconds, on purpose.
        salted = await asyncio.to_thread(lambda: {id(upsertion): _salted(upsertion) for upsertion in upsertions})
        results: Results[str, None] = await self._items(
            by_user,
            lambda left: AlterUserScramCredentialsRequest(
                upsertions=[salted[id(upsertion)] for upsertion in upsertions if upsertion.user in left],
                deletions=[
                    ScramCredentialDeletion(name=change.user, mechanism=change.mechanism)
                    for change in wanted
                    if isinstance(change, ScramDeletion) and change.user in left
                ],
            ),
            lambda response: ((result.user, _done(result)) for result in response.results),
            deadline,
            api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        )
        if wait and results.values:
            await self._until_users_show([change for change in wanted if change.user in results.values], deadline)
        return results

    async def _credentials(
        self, users: list[str] | None, deadline: Deadline, target: Target
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        response = await self._call(
            DescribeUserScramCredentialsRequest(
                users=None if users is None else [UserName(name=name) for name in users]
            ),
            deadline,
            api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            target=target,
        )
        values: dict[str, tuple[ScramCredentialInfo, ...]] = {}
        errors: dict[str, AdminError] = {}
        for result in response.results:
            if result.error_code:
                errors[result.user] = admin_error(result.error_code, result.error_message, result.user)
            else:
                values[result.user] = tuple(
                    ScramCredentialInfo(ScramMechanism.from_code(info.mechanism), info.iterations)
                    for info in result.credential_infos
                )
        return Results(values, errors)

    async def _until_users_show(self, changes: list[ScramUpsertion | ScramDeletion], deadline: Deadline) -> None:
        names = list({change.user for change in changes})

        async def shows(target: Target) -> bool:
            found = await self._credentials(names, deadline, target)
            if any(error.code != ErrorCode.RESOURCE_NOT_FOUND for error in found.errors.values()):
                return False
            for change in changes:
                held = {info.mechanism: info.iterations for info in found.values.get(change.user, ())}
                expected = change.iterations if isinstance(change, ScramUpsertion) else None
                if held.get(change.mechanism) != expected:
                    return False
            return True

        await self._until_each_broker(shows, deadline, "changing users")


def _refuse_bad_alteration(change: ScramUpsertion | ScramDeletion) -> None:
    refuse_unless(change.user, "a user needs a name")
    refuse_unless(
        change.mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512),
        f"{change.user}: the mechanism is SCRAM-SHA-256 or SCRAM-SHA-512",
    )
    if isinstance(change, ScramUpsertion):
        refuse_unless(change.password, f"{change.user}: the password must not be empty")
        refuse_unless(change.salt is None or change.salt, f"{change.user}: the salt must not be empty")
        refuse_unless(
            SCRAM_ITERATIONS_MIN <= change.iterations <= SCRAM_ITERATIONS_MAX,
            f"{change.user}: iterations must be {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}, "
            f"not {change.iterations}",
        )


def _salted(upsertion: ScramUpsertion) -> ScramCredentialUpsertion:
    from barnabas.security.sasl.scram import RANDOM_BYTES, random_text
    from barnabas.security.scram_credentials import salted_password_of

    salt = random_text(secrets.token_bytes(RANDOM_BYTES)).encode() if upsertion.salt is None else upsertion.salt
    return ScramCredentialUpsertion(
        name=upsertion.user,
        mechanism=upsertion.mechanism,
        iterations=upsertion.iterations,
        salt=salt,
        salted_password=salted_password_of(upsertion.mechanism, upsertion.password, salt, upsertion.iterations),
    )


def _done(result: AlterUserScramCredentialsResult) -> AdminError | None:
    return admin_error(result.error_code, result.error_message, result.user) if result.error_code else None
