"""Authenticate users by password (basic), signed token (jwt) or client certificate (mtls), as the settings allow.

An ``Authorization`` header alone decides: a wrong password does not fall back to a certificate. Without the header, the
certificate of the connection counts. Passwords are checked on a thread, one at a time, because the check is slow on
purpose. A successful check is cached for a while, under a key that only this process has.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from barnabas.connect.errors import ConnectError
from barnabas.connect.rest.login_rate_limit import FailureBudget
from barnabas.connect.rest.roles import RoleTable, User
from barnabas.connect.rest.users_file import StoredUser

__all__ = [
    "Authenticator",
    "CertificateMapper",
    "Credentials",
    "NotAuthenticated",
    "PasswordCheck",
    "TokenCheck",
    "TooManyFailures",
]

_REMEMBERED_S = 300.0
_REMEMBERED_MAX = 1000
_PASSWORD_LENGTH_MAX = 1024
# For all names together, because many users may share one address.
_ADDRESS_AT_ONCE, _ADDRESS_EVERY_S = 50, 1.0


class NotAuthenticated(ConnectError):
    """``challenges`` go into WWW-Authenticate."""

    http_status = 401

    def __init__(self, message: str, challenges: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.challenges = challenges


class TooManyFailures(ConnectError):
    http_status = 429

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"Too many failed attempts to authenticate; wait {round(wait_s) + 1} seconds.")
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a request. ``certificate`` is DER; ``address`` is that of the peer."""

    authorization: str | None
    certificate: bytes | None
    address: str


class TokenCheck(Protocol):
    def __call__(self, token: str) -> User:
        """Check it. Raise NotAuthenticated."""


class CertificateMapper(Protocol):
    def __call__(self, certificate: bytes) -> User:
        """Check it. Raise NotAuthenticated."""


class PasswordCheck:
    """``now_s`` is monotonic. ``process_key`` is random bytes of this process."""

    def __init__(
        self,
        users: Mapping[str, StoredUser],
        roles: RoleTable,
        *,
        process_key: bytes,
        now_s: Callable[[], float],
    ) -> None:
        self._users = users
        self._roles = roles
        self._key = process_key
        self._now_s = now_s
        self._budget = FailureBudget()
        self._address_budget = FailureBudget(at_once=_ADDRESS_AT_ONCE, every_s=_ADDRESS_EVERY_S)
        self._remembered: dict[bytes, float] = {}
        self._one_at_a_time = asyncio.Lock()
        # For unknown names, so that responses don't reveal which names exist.
        self._decoy = next(iter(users.values())).password

    async def __call__(self, name: str, password: str, address: str) -> User:
        """Check the password. Raise NotAuthenticated or TooManyFailures."""
        mark = hmac.digest(self._key, f"{len(name)}:{name}{password}".encode(), "sha256")
        user = self._users.get(name)
        if user is None or not self._is_remembered(mark):
            user = await self._verified(user, name, password, address)
            self._remember(mark)
        return User(name, self._roles.role_of(name, user.role))

    async def _verified(self, user: StoredUser | None, name: str, password: str, address: str) -> StoredUser:
        key = f"{address} {name}"
        async with self._one_at_a_time:
            now_s = self._now_s()
            wait_s = max(self._budget.wait_s(key, now_s), self._address_budget.wait_s(address, now_s))
            if wait_s > 0:
                raise TooManyFailures(wait_s)
            stored = self._decoy if user is None else user.password
            is_right = await asyncio.to_thread(stored.matches, password)
            if user is None or not is_right:
                self._budget.failed(key, self._now_s())
                self._address_budget.failed(address, self._now_s())
                raise NotAuthenticated("The user name or the password is wrong.")
            self._budget.succeeded(key)
            return user

    def _is_remembered(self, mark: bytes) -> bool:
        return self._remembered.get(mark, 0.0) > self._now_s()

    def _remember(self, mark: bytes) -> None:
        if self._is_remembered(mark):
            return
        self._remembered.pop(mark, None)
        while len(self._remembered) >= _REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[mark] = self._now_s() + _REMEMBERED_S


class Authenticator:
    """A method that is None is not accepted."""

    def __init__(
        self,
        *,
        passwords: PasswordCheck | None = None,
        tokens: TokenCheck | None = None,
        certificates: CertificateMapper | None = None,
    ) -> None:
        self._passwords = passwords
        self._tokens = tokens
        self._certificates = certificates
        self._challenges = tuple(
            text
            for text, way in (('Basic realm="connect", charset="UTF-8"', passwords), ('Bearer realm="connect"', tokens))
            if way is not None
        )

    async def user(self, shown: Credentials) -> User:
        """Return the user. Raise NotAuthenticated or TooManyFailures."""
        try:
            return await self._user(shown)
        except NotAuthenticated as error:
            raise NotAuthenticated(str(error), self._challenges) from None

    async def _user(self, shown: Credentials) -> User:
        if shown.authorization is not None:
            scheme, _, value = shown.authorization.strip().partition(" ")
            if scheme.lower() == "basic" and self._passwords is not None:
                name, password = _name_and_password(value.strip())
                return await self._passwords(name, password, shown.address)
            if scheme.lower() == "bearer" and self._tokens is not None:
                return self._tokens(value.strip())
            raise NotAuthenticated(f"The worker does not accept credentials of this kind; it accepts: {self._ways()}.")
        if self._certificates is not None and shown.certificate is not None:
            return self._certificates(shown.certificate)
        raise NotAuthenticated(f"The request needs credentials; the worker accepts: {self._ways()}.")

    def _ways(self) -> str:
        ways = (("basic", self._passwords), ("bearer", self._tokens), ("client certificates", self._certificates))
        return ", ".join(name for name, way in ways if way is not None)


def _name_and_password(value: str) -> tuple[str, str]:
    try:
        name, colon, password = base64.b64decode(value, validate=True).decode("utf-8").partition(":")
    except (ValueError, binascii.Error):
        raise NotAuthenticated("The credentials must be the base64 of name:password in UTF-8.") from None
    if not colon or len(password) > _PASSWORD_LENGTH_MAX:
        raise NotAuthenticated("The credentials must be the base64 of name:password in UTF-8.")
    return name, password
