"""The command ``barnabas`` of nodes that serve the APIs of share state, also while they are not advertised."""

from __future__ import annotations

import sys

from barnabas.broker import apis
from barnabas.cli.main import main
from barnabas.protocol.api_keys import API_TABLE

for key in apis.SHARE_STATE_APIS:
    apis.SERVED_BY_BROKER[key] = (API_TABLE[key].lowest, API_TABLE[key].highest)
sys.exit(main())
