"""Large and odd requests, from users with few rights or none."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from tests.siege.before_login import always
from tests.siege.entry import Entry
from tests.siege.frames import MIB, sized, tags
from tests.siege.stage import BOB, CONTROLLER

__all__ = ["REQUESTS"]

_METADATA = b"\x01\0\0\0"

REQUESTS = (
    *(
        Entry(f"Metadata with 20 MB of empty tagged fields, {listener}", listener,
              always(lambda: sized(ApiKey.METADATA, 12, b"\x01\0\0" + tags(20 * MIB))), user=user, connections=2)
        for listener, user in (("PLAINTEXT", None), ("SASL_PLAINTEXT", BOB), ("SASL_SSL", BOB))
    ),
    Entry("DescribeQuorum with 20 MB of empty tagged fields, controller", CONTROLLER,
          always(lambda: sized(ApiKey.DESCRIBE_QUORUM, 2, b"\x01" + tags(20 * MIB))), user=BOB, connections=2),
)  # fmt: skip
