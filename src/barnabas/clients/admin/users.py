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
from barnabas.security.sasl.scram import RANDOM_BYTES, random_text
from barnabas.security.scram_credentials import salted_password_of

__all__ = ["ScramCredentialInfo", "ScramDeletion", "ScramUpsertion", "UserOperations"]

_ITERATIONS = 8192


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A user's new or changed password. The salt is drawn unless it is given."""

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
        """The mechanisms and iterations of users; without names, of all. No node tells a salt or a key."""
        names = None if users is None else list(dict.fromkeys(users))
        return await self._credentials(names, self._deadline(timeout_s), ANY)

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[ScramUpsertion | ScramDeletion],
        *,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[str, None]:
        """Set and remove passwords; the outcome is one per user.

        With ``wait`` each live broker tells the mechanisms and iterations. A changed password with as many iterations
        as before can't be seen from outside.
        """
        wanted = list(alterations)
        by_user: dict[str, list[ScramUpsertion | ScramDeletion]] = {}
        for each in wanted:
            _refuse_bad_alteration(each)
            by_user.setdefault(each.user, []).append(each)
        for user, changes in by_user.items():
            refuse_unless(
                len({each.mechanism for each in changes}) == len(changes), f"{user}: a mechanism is changed twice"
            )
        deadline = self._deadline(timeout_s)
        upsertions = [each for each in wanted if isinstance(each, ScramUpsertion)]
        # Salting takes milliseconds each, on purpose.
        salted = await asyncio.to_thread(lambda: {id(each): _salted(each) for each in upsertions})
        results: Results[str, None] = await self._items(
            by_user,
            lambda left: AlterUserScramCredentialsRequest(
                upsertions=[salted[id(each)] for each in upsertions if each.user in left],
                deletions=[
                    ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
                    for each in wanted
                    if isinstance(each, ScramDeletion) and each.user in left
                ],
            ),
            lambda response: ((each.user, _done(each)) for each in response.results),
            deadline,
            api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        )
        if wait and results.values:
            await self._until_users_show([each for each in wanted if each.user in results.values], deadline)
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
        for each in response.results:
            if each.error_code:
                errors[each.user] = admin_error(each.error_code, each.error_message, each.user)
            else:
                values[each.user] = tuple(
                    ScramCredentialInfo(ScramMechanism.from_code(info.mechanism), info.iterations)
                    for info in each.credential_infos
                )
        return Results(values, errors)

    async def _until_users_show(self, changes: list[ScramUpsertion | ScramDeletion], deadline: Deadline) -> None:
        names = list({each.user for each in changes})

        async def shows(target: Target) -> bool:
            found = await self._credentials(names, deadline, target)
            if any(error.code != ErrorCode.RESOURCE_NOT_FOUND for error in found.errors.values()):
                return False
            for each in changes:
                held = {info.mechanism: info.iterations for info in found.values.get(each.user, ())}
                expected = each.iterations if isinstance(each, ScramUpsertion) else None
                if held.get(each.mechanism) != expected:
                    return False
            return True

        await self._until_each_broker(shows, deadline, "changing users")


def _refuse_bad_alteration(each: ScramUpsertion | ScramDeletion) -> None:
    refuse_unless(each.user, "a user needs a name")
    refuse_unless(
        each.mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512),
        f"{each.user}: the mechanism is SCRAM-SHA-256 or SCRAM-SHA-512",
    )
    if isinstance(each, ScramUpsertion):
        refuse_unless(each.password, f"{each.user}: the password must not be empty")
        refuse_unless(each.salt is None or each.salt, f"{each.user}: the salt must not be empty")
        refuse_unless(
            SCRAM_ITERATIONS_MIN <= each.iterations <= SCRAM_ITERATIONS_MAX,
            f"{each.user}: iterations must be {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}, not {each.iterations}",
        )


def _salted(each: ScramUpsertion) -> ScramCredentialUpsertion:
    salt = random_text(secrets.token_bytes(RANDOM_BYTES)).encode() if each.salt is None else each.salt
    return ScramCredentialUpsertion(
        name=each.user,
        mechanism=each.mechanism,
        iterations=each.iterations,
        salt=salt,
        salted_password=salted_password_of(each.mechanism, each.password, salt, each.iterations),
    )


def _done(each: AlterUserScramCredentialsResult) -> AdminError | None:
    return admin_error(each.error_code, each.error_message, each.user) if each.error_code else None
