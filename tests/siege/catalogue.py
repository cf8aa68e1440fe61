"""All entries, by the listener and the login that they need."""

from __future__ import annotations

from tests.siege.batches import BATCHES
from tests.siege.before_login import BEFORE_LOGIN
from tests.siege.connections import CONNECTIONS
from tests.siege.found import FOUND
from tests.siege.quorum import QUORUM
from tests.siege.requests import REQUESTS
from tests.siege.rest import REST_ENTRIES

__all__ = ["ENTRIES"]

ENTRIES = (*BEFORE_LOGIN, *CONNECTIONS, *REQUESTS, *BATCHES, *QUORUM, *FOUND, *REST_ENTRIES)
