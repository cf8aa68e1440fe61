"""The complete list of recorded REST exchanges that our worker answers differently from Kafka's, with the reasons.

The rows of ``SPECIAL_GROUPS`` were recorded in groups other than a plain pair of workers; other tests cover them with a
scripted group.
"""

from __future__ import annotations

__all__ = ["DIFFERENCES", "SPECIAL_GROUPS"]

DIFFERENCES: dict[str, str] = {
    "plugin-config-version": "the plugin has a version of its own, not that of Kafka's",
    "get-slash-name": "%2F is part of a name here; Kafka's server refuses the path, so such a connector is lost",
    "int-badjson-unsigned": "the signature is checked before the body is parsed: unsigned is 400",
    "int-nobody-unsigned": "the signature is checked before the body is parsed: unsigned is 400",
    "delete-slash-name": "%2F is part of a name here; Kafka's server refuses the path, so such a connector is lost",
}

_DOWNGRADED = "a third worker with connect.protocol=compatible is in the group"
_MISCONFIGURED = "worker B signs with an algorithm that worker A does not take"
_NO_KEY = "the config topic can be read, and the session key can't be written"
_OTHER_LEADER = "worker A is a follower, and the connectors are others"

SPECIAL_GROUPS: dict[str, str] = {
    "int-expired-key": "a session key was rotated, and the one before it signs",
    "compat-unsigned-leader": _DOWNGRADED,
    "compat-badsig-leader": _DOWNGRADED,
    "compat-nobase64-leader": _DOWNGRADED,
    "compat-unsigned-follower": _DOWNGRADED,
    "compat-fence-follower": _DOWNGRADED,
    "status-failed-alg": _MISCONFIGURED,
    "status-failed-expand": _MISCONFIGURED,
    "restart-failed": _MISCONFIGURED,
    "startup-health": _NO_KEY,
    "nokey-signed": _NO_KEY,
    "nokey-unsigned": _NO_KEY,
    "nokey-badalg": _NO_KEY,
    "nokey-fence": _NO_KEY,
    "nokey-loggers": _NO_KEY,
    "nokey-connectors": _NO_KEY,
    "nokey-status": _NO_KEY,
    "nokey-getconn": _NO_KEY,
    "fwd-create-conflict": _OTHER_LEADER,
    "fwd-false-follower": _OTHER_LEADER,
    "fwd-true-follower": _OTHER_LEADER,
    "fwd-restart-qs": _OTHER_LEADER,
    "get-on-follower": "a rebalance is pending, for which a request here waits",
}
