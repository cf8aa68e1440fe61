"""Rules for a worker's settings beyond types and ranges. Rules of Kafka have Kafka's messages.

Two rules are our own:

- A REST listener that other machines can reach needs authentication, or ``barnabas.connect.insecure``.
- URLs of listeners and the settings of authentication are checked at start instead of at their first use.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.common.config_def import ConfigException, ConfigStateException, ConfigValue
from barnabas.connect.mac_algorithms import UnsupportedAlgorithm, UnusableKeySize, key_generator, key_size, mac
from barnabas.connect.settings.listener_urls import Listener, UnusableListener, parse_listeners
from barnabas.connect.settings.webhook_rules import webhook_problems
from barnabas.connect.settings.worker_settings import WORKER_CONFIG_DEF

__all__ = ["WorkerRules", "check_header_rules"]

_EXACTLY_ONCE = "exactly.once.source.support"
_PROTOCOLS = ("eager", "compatible", "sessioned")
_POLICIES = {
    name: name for name in ("All", "None", "Principal", "Allowlist")
} | {
    f"org.apache.kafka.connect.connector.policy.{name}ConnectorClientConfigOverridePolicy": name
    for name in ("All", "None", "Principal", "Allowlist")
}  # fmt: skip
_HEADER_ACTIONS = ("set", "add", "setDate", "addDate")
# The port of a worker without configured listeners.
_DEFAULT_PORT = 8083


def check_header_rules(text: str) -> None:
    """Check ``response.http.headers.config``: rules separated by commas. Quote a rule with a comma by ``"``.

    Raise ConfigException.
    """
    name = "response.http.headers.config"
    if any(ord(c) < 0x20 or ord(c) == 0x7F for c in text):
        raise ConfigStateException(name, text, f"{name} contains control characters, which are invalid in headers")
    for entry in next(csv.reader([text], skipinitialspace=True), []):
        action, _, header = entry.strip().partition(" ")
        if not action:
            continue
        if action not in _HEADER_ACTIONS:
            allowed = ", ".join(_HEADER_ACTIONS)
            message = f"Invalid header config action: '{action}'. Expected one of [{allowed}]"
            raise ConfigStateException(name, text, message)
        header_name, colon, value = (part.strip() for part in header.partition(":"))
        if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", header_name) or not value.isascii():
            message = (
                f"Invalid format of header config '{entry.strip()}'. Expected: '[action] [header name]:[header value]'"
            )
            raise ConfigStateException(name, text, message)
        if action.endswith("Date") and not re.fullmatch(r"-?[0-9]{1,15}", value):
            message = f"The value of the header {header_name} must be a number of milliseconds: {value}"
            raise ConfigStateException(name, text, message)


class WorkerRules:
    """Checks typed settings. ``problems`` are tuples of name, error and advice; ``derived`` values replace others."""

    def __init__(self, values: Mapping[str, ConfigValue], texts: Mapping[str, str]) -> None:
        self._values = values
        self._texts = texts
        self.problems: list[tuple[str, str, str]] = []
        self.derived: dict[str, ConfigValue] = {}

    def check(self) -> None:
        self._group()
        self._algorithms()
        self._topics()
        self._policy()
        self._rest()
        self._authentication()
        self.problems += webhook_problems(self._values)

    def _value(self, name: str) -> Any:
        return self._values[name] if name in self._values else WORKER_CONFIG_DEF[name].default

    def _invalid(self, name: str, value: object, reason: str, advice: str = "") -> None:
        self.problems.append((name, str(ConfigException(name, value, reason)), advice))

    def _group(self) -> None:
        protocol = str(self._value("connect.protocol"))
        if protocol.lower() in _PROTOCOLS:
            self.derived["connect.protocol"] = protocol.lower()
        else:
            allowed = f"allowed: {', '.join(_PROTOCOLS)}"
            self._invalid("connect.protocol", protocol, "Invalid Connect protocol compatibility", allowed)
        support = str(self._value(_EXACTLY_ONCE)).lower()
        self.derived[_EXACTLY_ONCE] = support
        for name in ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic"):
            if not self._value(name):
                self._invalid(name, "", "String must be non-empty")
        if self._value("heartbeat.interval.ms") >= self._value("session.timeout.ms"):
            self._invalid(
                "heartbeat.interval.ms",
                self._value("heartbeat.interval.ms"),
                f"it must be lower than session.timeout.ms ({self._value('session.timeout.ms')})",
            )
        for name in ("heartbeat.interval.ms", "session.timeout.ms", "rebalance.timeout.ms", "worker.sync.timeout.ms"):
            if self._value(name) <= 0:
                self._invalid(name, self._value(name), "Value must be at least 1")

    def _algorithms(self) -> None:
        """Check rules S1 to S6 of KIP-507. Unused algorithms are not checked, so a default need not be available."""
        name = "inter.worker.key.generation.algorithm"
        generator, size = str(self._value(name)), self._value("inter.worker.key.size")
        try:
            key_generator(generator)
            key_size(generator, size)
        except UnsupportedAlgorithm as error:
            self._invalid(name, generator, str(error))
        except UnusableKeySize as error:
            self.problems.append(("inter.worker.key.size", str(error), "remove it to use the algorithm's default size"))
        verification = self._value("inter.worker.verification.algorithms")
        if not verification:
            self._invalid(
                "inter.worker.verification.algorithms",
                [],
                "At least one signature verification algorithm must be provided",
            )
        known = self._are_macs("inter.worker.verification.algorithms", verification)
        signature = self._value("inter.worker.signature.algorithm")
        if self._are_macs("inter.worker.signature.algorithm", [signature]) and known and verification:
            if signature not in verification:
                self._invalid(
                    "inter.worker.signature.algorithm",
                    signature,
                    "Signature algorithm must be present in inter.worker.verification.algorithms list",
                )

    def _are_macs(self, name: str, algorithms: Sequence[str]) -> bool:
        for algorithm in algorithms:
            try:
                mac(algorithm)
            except UnsupportedAlgorithm as error:
                self._invalid(name, algorithm, str(error))
                return False
        return True

    def _topics(self) -> None:
        for store in ("config", "offset", "status"):
            for kind, word in (("partitions", "Number of partitions"), ("replication.factor", "Replication factor")):
                name = f"{store}.storage.{kind}"
                if name in WORKER_CONFIG_DEF and (self._value(name) < -1 or self._value(name) == 0):
                    self._invalid(
                        name, self._value(name), f"{word} must be positive, or -1 to use the broker's default"
                    )
        topics = [self._value(f"{store}.storage.topic") for store in ("config", "offset", "status")]
        if len(set(topics)) < len(topics) and all(topics):
            self._invalid("config.storage.topic", topics[0], "the config, offset and status topics must be different")

    def _policy(self) -> None:
        name = "connector.client.config.override.policy"
        policy = str(self._value(name))
        if policy not in _POLICIES:
            self._invalid(name, policy, "unknown policy", "allowed: All, None, Principal, Allowlist")
            return
        self.derived[name] = _POLICIES[policy]
        allowlist = "connector.client.config.override.allowlist"
        if _POLICIES[policy] != "Allowlist" and self._value(allowlist):
            self._invalid(allowlist, self._texts[allowlist], f"this needs {name}=Allowlist")

    def _rest(self) -> None:
        for name in ("listeners", "admin.listeners"):
            try:
                parse_listeners(name, self._value(name) or [])
            except UnusableListener as error:
                self.problems.append((name, str(error), ""))
                return
        try:
            check_header_rules(self._value("response.http.headers.config"))
        except ConfigException as error:
            self.problems.append(("response.http.headers.config", str(error), ""))
        if not self._value("listeners"):
            self.problems.append(
                (
                    "listeners",
                    "Invalid value for listeners, at least one URL is expected, ex: http://localhost:8080,"
                    "https://localhost:8443.",
                    "",
                )
            )
            return
        if "listeners" not in self._texts:
            self.derived["listeners"] = [self._default_listener()]
        self._advertised(parse_listeners("listeners", self._value("listeners")))
        self._https()

    def _default_listener(self) -> str:
        """Return all interfaces, as in Kafka; without authentication, only this machine."""
        is_open = self._value("barnabas.connect.insecure") or self._value("barnabas.connect.authentication") != ["none"]
        return f"http://{'' if is_open else '127.0.0.1'}:{_DEFAULT_PORT}"

    def _advertised(self, listeners: Sequence[Listener]) -> None:
        name = "rest.advertised.listener"
        scheme = self._value(name)
        if scheme is not None and scheme.lower() not in [listener.scheme for listener in listeners]:
            self._invalid(
                name, scheme, f"no listener has this protocol; the listeners are {', '.join(map(str, listeners))}"
            )
        port = self._value("rest.advertised.port")
        if port is not None and not 0 < port < 65536:
            self._invalid("rest.advertised.port", port, "it must be between 1 and 65535")

    def _https(self) -> None:
        for name, prefix in (("listeners", "listeners.https."), ("admin.listeners", "admin.listeners.https.")):
            uses_tls = any(listener.scheme == "https" for listener in parse_listeners(name, self._value(name) or []))
            own = any(text.startswith(prefix) for text in self._texts)
            has_key = any(
                (f"{prefix}{key}" if own else key) in self._texts
                for key in ("ssl.keystore.location", "ssl.keystore.key")
            )
            if uses_tls and not has_key:
                self._invalid(name, self._value(name), f"https needs {prefix if own else ''}ssl.keystore.location")

    def _authentication(self) -> None:
        kinds: list[str] = self._value("barnabas.connect.authentication")
        name = "barnabas.connect.authentication"
        if "none" in kinds and len(kinds) > 1:
            self._invalid(name, kinds, "none can't be combined with other values")
            return
        for kind, needed in (("basic", "barnabas.connect.users.file"), ("jwt", "barnabas.connect.jwt.keys.file")):
            if kind in kinds and not self._value(needed):
                self._invalid(name, kinds, f"{kind} needs {needed}")
        self._certificates(kinds)
        self._exposure(kinds)

    def _certificates(self, kinds: Sequence[str]) -> None:
        if "mtls" not in kinds:
            return
        own = any(text.startswith("listeners.https.") for text in self._texts)
        setting = "listeners.https.ssl.client.auth" if own else "ssl.client.auth"
        if self._texts.get(setting, "none") not in ("required", "requested"):
            self._invalid(
                "barnabas.connect.authentication", list(kinds), f"mtls needs {setting}=required, or requested"
            )

    def _exposure(self, kinds: Sequence[str]) -> None:
        """Report a listener that other machines can reach without authentication or ``barnabas.connect.insecure``."""
        if self.problems or self._value("barnabas.connect.insecure") or list(kinds) != ["none"]:
            return
        for name in ("listeners", "admin.listeners"):
            for listener in parse_listeners(name, self._value(name) or []):
                if name in self._texts and not listener.is_loopback:
                    self._invalid(
                        name,
                        listener,
                        "any client that can reach this listener could run connectors, so it needs authentication",
                        "set barnabas.connect.authentication to basic, jwt or mtls; or listen on 127.0.0.1; "
                        "or set barnabas.connect.insecure=true",
                    )
                    return
