"""Finds the client quota that applies to a user and a client id, and the clients that share it.

Eight levels, as in Kafka (KIP-55); the first that is set applies:

1. the user with the client id, 2. the user with the default client, 3. the user,
4. the default user with the client id, 5. the default user with the default client, 6. the default user,
7. the client id, 8. the default client.

A quota of a user with a client is each such pair's own, one of a user is shared by all of that user's clients, one of a
client id by all users that send it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.metadata.image.client_quotas import ClientQuotasImage, QuotaEntity

__all__ = ["Quota", "QuotaLevels"]

_Share = tuple[str | None, str | None]


class Quota(NamedTuple):
    share: _Share
    """The key of clients that share a quota: the user, the client id, or both; the other is None."""
    limit: float


class QuotaLevels:
    """The quotas of one key (``producer_byte_rate`` ...) in an image."""

    __slots__ = ("_of_clients", "_of_pairs", "_of_users")

    def __init__(self, image: ClientQuotasImage, key: str) -> None:
        self._of_pairs: dict[_Share, float] = {}
        self._of_users: dict[str | None, float] = {}
        self._of_clients: dict[str | None, float] = {}
        for entity, quotas in image.by_entity.items():
            if quotas.get(key, 0.0) > 0:
                self._add(entity, quotas[key])

    def _add(self, entity: QuotaEntity, limit: float) -> None:
        names = dict(entity)
        if "user" in names and "client-id" in names:
            self._of_pairs[names["user"], names["client-id"]] = limit
        elif "user" in names:
            self._of_users[names["user"]] = limit
        elif "client-id" in names:
            self._of_clients[names["client-id"]] = limit

    def __bool__(self) -> bool:
        return bool(self._of_pairs or self._of_users or self._of_clients)

    def quota_of(self, user: str, client_id: str) -> Quota | None:
        for name in (user, None):
            for client in (client_id, None):
                limit = self._of_pairs.get((name, client))
                if limit is not None:
                    return Quota((user, client_id), limit)
            limit = self._of_users.get(name)
            if limit is not None:
                return Quota((user, None), limit)
        for client in (client_id, None):
            limit = self._of_clients.get(client)
            if limit is not None:
                return Quota((None, client_id), limit)
        return None
