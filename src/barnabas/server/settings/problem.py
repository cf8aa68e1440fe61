"""An unusable setting, with the facts that its author needs to fix it: name, value, source, problem, advice."""

from __future__ import annotations

from barnabas.common.broker_config import BROKER_CONFIG_DEF, broker_config_key
from barnabas.common.settings.problem import SettingProblem

__all__ = ["Given", "node_problem"]

# Words in the name of an unknown setting whose value must not be printed.
_SECRET_WORDS = ("password", "secret", "jaas", "token", "credential", "key", "passphrase", "certificate", "cert.")


class Given:
    """The text of a setting and where it was found."""

    __slots__ = ("text", "where")

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where


def node_problem(name: str, given: Given | None, what: str, advice: str = "") -> SettingProblem:
    """Return the problem of a node's setting. It shows the value unless that may be a secret."""
    if given is None:
        return SettingProblem(name, what, "", advice, subject=name)
    return SettingProblem(name, what, given.where, advice, subject=f"{name}={_shown(name, given.text)}")


def _shown(name: str, text: str) -> str:
    key = broker_config_key(name)
    if key is not None:
        return "[hidden]" if key.sensitive else text
    # An unknown setting may be a secret. A misspelt known name is not, unless it contains a word for secrets.
    meant = BROKER_CONFIG_DEF.nearest_name(name)
    if meant is None or BROKER_CONFIG_DEF[meant].sensitive or any(word in name.lower() for word in _SECRET_WORDS):
        return "[hidden]"
    return text
